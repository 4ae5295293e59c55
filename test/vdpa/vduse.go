//go:build lab

package vdpa

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Names and sizes of include/uapi/linux/vduse.h.
const (
	vduseSetAPI    = 0x40088101
	vduseCreateDev = 0x41508102 // struct vduse_dev_config
	vduseSetupQ    = 0x40208114 // struct vduse_vq_config
	messageSize    = 152        // of a request, and of an answer
)

// Feature bits of a network device (virtio 1.2, sections 5.1.3 and 6). VDUSE demands the last two.
const features = 1<<netlink.VIRTIO_NET_F_MTU | 1<<netlink.VIRTIO_NET_F_MAC | 1<<netlink.VIRTIO_NET_F_STATUS |
	1<<netlink.VIRTIO_NET_F_MQ | 1<<netlink.VIRTIO_F_VERSION_1 | 1<<netlink.VIRTIO_F_ACCESS_PLATFORM

type deviceConfig struct {
	name               [256]byte
	vendor, device     uint32
	features           uint64
	queues, align      uint32
	_                  [13]uint32
	configSize         uint32
	mac                [6]byte // from here struct virtio_net_config
	status, pairs, mtu uint16
}

type queueConfig struct {
	index uint32
	size  uint16
	_     [13]uint16
}

func control(f *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		return fmt.Errorf("ioctl %#x of %s: %w", request, f.Name(), errno)
	}
	return nil
}

// implement makes a network device and answers the kernel's questions about it until it is killed.
func implement(name string, pairs int, mtu uint16) error {
	all, err := os.OpenFile("/dev/vduse/control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	version := uint64(0)
	if err := control(all, vduseSetAPI, unsafe.Pointer(&version)); err != nil {
		return err
	}
	c := deviceConfig{device: netlink.VIRTIO_ID_NET, features: features, queues: uint32(2 * pairs), align: 4096,
		configSize: 12, mac: [6]byte{0x52, 0x54, 0, 0, 0, 9}, status: netlink.VIRTIO_NET_S_LINK_UP,
		pairs: uint16(pairs), mtu: mtu}
	copy(c.name[:], name)
	if err := control(all, vduseCreateDev, unsafe.Pointer(&c)); err != nil {
		return err
	}
	device, err := os.OpenFile("/dev/vduse/"+name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for i := range 2 * pairs {
		if err := control(device, vduseSetupQ, unsafe.Pointer(&queueConfig{index: uint32(i), size: 256})); err != nil {
			return err
		}
	}
	if err := netlink.VDPANewDev(name, "", "vduse", netlink.VDPANewDevParams{}); err != nil {
		return err
	}
	for {
		var request, answer [messageSize]byte
		if _, err := device.Read(request[:]); err != nil {
			return err
		}
		copy(answer[:], request[4:8]) // its number; 0, done, follows
		binary.NativeEndian.PutUint32(answer[4:], 0)
		if _, err := device.Write(answer[:]); err != nil {
			return err
		}
	}
}
