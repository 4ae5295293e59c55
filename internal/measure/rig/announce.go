package rig

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// announce sends one broadcast frame from an interface, so that bridges on the path learn where its address is. The
// EtherType is reserved for local experiments (IEEE 802-2014, 9.2.3); every stack drops it.
func announce(e traffic.Endpoint) error {
	device, err := e.Device()
	if err != nil || len(device.MAC) != 6 || !device.Up {
		return err
	}
	frame := bytes.Repeat([]byte{0xff}, 6)
	frame = append(frame, device.MAC...)
	frame = append(frame, 0x88, 0xb5)
	frame = append(frame, make([]byte, 46)...)
	return e.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("announce %s: %w", e, err)
		}
		defer unix.Close(fd)
		// On a full queue or a link that is down for a moment the bridges flood, which is no error.
		_ = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: device.Index})
		return nil
	})
}
