package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
)

// Answer is the result of a probe.
type Answer string

const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown" // could not be determined, for example without privileges
)

// UnsupportedError means that the kernel or device cannot do something, or that it could not be determined (Answer
// Unknown).
type UnsupportedError struct {
	What   string
	Answer Answer
	Err    error
}

func (e *UnsupportedError) Error() string {
	if e.Answer == Unknown {
		return fmt.Sprintf("could not tell whether %s is possible: %v", e.What, e.Err)
	}
	return fmt.Sprintf("%s is not possible: %v", e.What, e.Err)
}

func (e *UnsupportedError) Unwrap() error { return e.Err }

// Support is the result of Probe.
type Support struct {
	Answer Answer
	Err    error // the reason for No and Unknown
}

// Probe determines whether this kernel can send XDP live frames (5.18 and later). It sends nothing.
func Probe() Support {
	spec, err := loadGen()
	if err != nil {
		return Support{Answer: Unknown, Err: fmt.Errorf("generator program: %w", err)}
	}
	return probeLive(spec)
}

// probeLive runs the generator for one batch with nothing to send. A kernel without live frames rejects the flag with
// EINVAL.
func probeLive(spec *ebpf.CollectionSpec) Support {
	spec = spec.Copy()
	c := Config{Discard: true, CPUs: []int{0}}
	c.Frame = c.Frame.withDefaults()
	c.Frame.SrcMAC, c.Frame.DstMAC = make([]byte, 6), make([]byte, 6)
	if err := spec.Variables[genVarCfg].Set(c.program(0)); err != nil {
		return Support{Answer: Unknown, Err: err}
	}
	coll, err := loadCollection(spec)
	if err != nil {
		if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS) {
			return Support{Answer: No, Err: err}
		}
		return Support{Answer: Unknown, Err: err}
	}
	defer coll.Close()
	switch err := testRunLive(coll.Programs[genProgGenerate], make([]byte, MinFrame-fcsBytes), maxBatch, maxBatch); {
	case err == nil, errors.Is(err, unix.EINTR):
		return Support{Answer: Yes}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return Support{Answer: No, Err: fmt.Errorf("live frame test run: %w", err)}
	default:
		return Support{Answer: Unknown, Err: fmt.Errorf("live frame test run: %w", err)}
	}
}

// From the netdev family of generic netlink (include/uapi/linux/netdev.h, since 6.3).
const (
	netdevCmdDevGet      = 1
	netdevAttrIfindex    = 1
	netdevAttrXDP        = 3
	netdevXDPActNdoXmit  = 1 << 2
	netdevFamily         = "netdev"
	netdevFamilyVersion1 = 1
)

// checkTransmit fails with an UnsupportedError if a device declares that it cannot send redirected frames. A kernel
// that does not report it gets the benefit of the doubt.
func checkTransmit(dev Device) error {
	if dev.Transmits() != No {
		return nil
	}
	return &UnsupportedError{
		What: fmt.Sprintf("sending XDP frames on %s (%s)", dev.Endpoint, dev.Kind), Answer: No,
		Err: errors.New("the device does not offer it (netdev xdp-features without ndo-xmit)"),
	}
}

// TakeXDP turns on GRO at an end of a veth pair of mpps's own, in the calling thread's network namespace. Without it
// there is no NAPI, and the other end sends no XDP frames (drivers/net/veth.c, veth_set_xdp_features). Where it stays
// off, Auto takes packet sockets.
func TakeXDP(veth string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = nicctl.Call(fd, veth, []uint32{unix.ETHTOOL_SGRO, 1})
}

// Transmits reports whether the device declares that it sends XDP frames (NETDEV_XDP_ACT_NDO_XMIT); Unknown where the
// kernel does not tell (before 6.3).
func (d Device) Transmits() Answer {
	answer := Unknown
	err := d.Do(func() error {
		c, err := genetlink.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		f, err := c.GetFamily(netdevFamily)
		if err != nil {
			return err
		}
		e := netlink.NewAttributeEncoder()
		e.Uint32(netdevAttrIfindex, uint32(d.Index))
		data, err := e.Encode()
		if err != nil {
			return err
		}
		replies, err := c.Execute(genetlink.Message{
			Header: genetlink.Header{Command: netdevCmdDevGet, Version: netdevFamilyVersion1}, Data: data,
		}, f.ID, netlink.Request)
		if err != nil || len(replies) != 1 {
			return err
		}
		fields, err := netlink.NewAttributeDecoder(replies[0].Data)
		if err != nil {
			return err
		}
		for fields.Next() {
			if fields.Type() != netdevAttrXDP || len(fields.Bytes()) != 8 {
				continue
			}
			if answer = No; binary.NativeEndian.Uint64(fields.Bytes())&netdevXDPActNdoXmit != 0 {
				answer = Yes
			}
		}
		return fields.Err()
	})
	if err != nil {
		return Unknown
	}
	return answer
}
