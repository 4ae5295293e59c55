package rig

import (
	"fmt"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// announce sends one broadcast frame from an interface, so that bridges on the way know where its address is. The
// EtherType is one of those left to local experiments (IEEE 802-2014, 9.2.3), which every stack drops.
func announce(e traffic.Endpoint) error {
	device, err := e.Device()
	if err != nil || len(device.MAC) != 6 || !device.Up {
		return err
	}
	frame := make([]byte, 60)
	for i := range 6 {
		frame[i] = 0xff
	}
	copy(frame[6:], device.MAC)
	frame[12], frame[13] = 0x88, 0xb5
	return e.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("announce %s: %w", e, err)
		}
		defer unix.Close(fd)
		// A full queue or a link that is down for a moment: the bridges flood then, which is no error.
		_ = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: device.Index})
		return nil
	})
}
