package planted

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What a program answers (include/uapi/linux/bpf.h, enum xdp_action; include/uapi/linux/pkt_cls.h, TC_ACT_…).
const (
	xdpDrop, xdpPass = 1, 2
	actOK, actShot   = 0, 2
)

// program makes what drops a share of the packets at random; to is the index of the device that it sends the others
// out by, 0: it lets them pass.
func (f *Filter) program(kind ebpf.ProgramType, drop, pass int32, to int) (*ebpf.Program, error) {
	instructions := asm.Instructions{
		asm.Mov.Imm(asm.R6, int32(f.Turns)),
		asm.JEq.Imm(asm.R6, 0, "choose").WithSymbol("turn"),
		asm.Sub.Imm(asm.R6, 1), asm.Ja.Label("turn"),
		asm.FnGetPrandomU32.Call().WithSymbol("choose"),
		asm.LoadImm(asm.R1, int64(f.Drops*(1<<32)), asm.DWord),
		asm.LSh.Imm(asm.R0, 32), asm.RSh.Imm(asm.R0, 32),
		asm.JLT.Reg(asm.R0, asm.R1, "drop"),
	}
	if to > 0 {
		instructions = append(instructions, asm.Mov.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(), asm.Return())
	} else {
		instructions = append(instructions, asm.Mov.Imm(asm.R0, pass), asm.Return())
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebodys", Type: kind, License: "GPL",
		Instructions: append(instructions, asm.Mov.Imm(asm.R0, drop).WithSymbol("drop"), asm.Return())})
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return p, nil
}

// filter attaches a program to a device. It goes with the device.
func (s *scene) filter(f *Filter) error {
	at := s.at(f.In)
	device, err := at.on.LinkByName(s.words().Replace(f.Device))
	if err != nil {
		return fmt.Errorf("filter at %s: %w", f.Device, err)
	}
	to := 0
	if f.To != "" {
		other, err := at.on.LinkByName(s.words().Replace(f.To))
		if err != nil {
			return fmt.Errorf("filter to %s: %w", f.To, err)
		}
		to = other.Attrs().Index
	}
	if f.At == "xdp" || f.At == "xdp-generic" {
		flags := link.XDPDriverMode
		if f.At == "xdp-generic" {
			flags = link.XDPGenericMode
		}
		p, err := f.program(ebpf.XDP, xdpDrop, xdpPass, to)
		if err != nil {
			return err
		}
		return at.inside(func() error {
			l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: device.Attrs().Index, Flags: flags})
			if err != nil {
				return fmt.Errorf("filter at %s: %w", f.Device, err)
			}
			s.later(l.Close)
			s.later(p.Close)
			return nil
		})
	}
	p, err := f.program(ebpf.SchedCLS, actShot, actOK, to)
	if err != nil {
		return err
	}
	defer p.Close()
	index := device.Attrs().Index
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index,
		Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := at.on.QdiscReplace(clsact); err != nil {
		return fmt.Errorf("clsact of %s: %w", f.Device, err)
	}
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if f.At == "egress" {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	err = at.on.FilterAdd(&netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent,
		Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1}, Fd: p.FD(), Name: "somebodys", DirectAction: true})
	if err != nil {
		return fmt.Errorf("filter at %s: %w", f.Device, err)
	}
	return nil
}
