//go:build netns

package traffic

import (
	"context"
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestRefusedFrames: a veth whose peer has neither program nor GRO drops everything without an error, and the generator
// counts exactly its own frames. A peer with a program takes them, but for those that find its ring full on a busy
// machine.
func TestRefusedFrames(t *testing.T) {
	a, _ := pair(t)
	g := mustGenerator(t, Config{Out: a, Count: 10_000, Method: XDP})
	if r := mustRun(t, g); r.Sent != 10_000 || r.Refused > 5000 {
		t.Errorf("with a program on the peer: sent %d, refused %d", r.Sent, r.Refused)
	}
	x := g.(*xdpGenerator)
	must.Do(t, x.undo[0]())
	x.undo = x.undo[1:]
	for range 2 {
		if r, err := g.Run(context.Background()); err == nil || r.Sent != 10_000 || r.Refused != 10_000 {
			t.Errorf("without: sent %d, refused %d, %v", r.Sent, r.Refused, err)
		} else {
			t.Log(err)
		}
	}
}

// TestRefusedOfOthers: frames that another program of the same process redirects to nowhere are not the generator's.
func TestRefusedOfOthers(t *testing.T) {
	a, _ := pair(t)
	r := must.Get(newRefusedCounter(must.Get(a.Device())(t)))(t)
	defer func() { must.Do(t, r.close()) }()
	prog := must.Get(ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, 1<<30), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
	}}))(t)
	defer prog.Close()
	redirects := func() uint64 {
		_, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 10, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES})
		must.Do(t, err)
		n, _, err := r.read()
		must.Do(t, err)
		return n
	}
	must.Equal(t, redirects(), 0, "before it is the generator's")
	must.Do(t, r.watch(prog))
	must.Equal(t, redirects(), 10, "once it is")
}

// TestNoXDPTransmit: the loopback device cannot send XDP frames.
func TestNoXDPTransmit(t *testing.T) {
	a, _ := pair(t)
	lo := Endpoint{Netns: a.Netns, Iface: "lo"}
	must.Do(t, lo.Do(func() error {
		l, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}))
	c := Config{Out: lo, Frame: Frame{DstMAC: macA}, Method: XDP, Count: 10}
	var why *UnsupportedError
	if _, err := NewGenerator(t.Context(), c); !errors.As(err, &why) || why.Answer != No {
		t.Errorf("%v", err)
	}
	c.Method = Auto
	if r := mustRun(t, mustGenerator(t, c)); r.Method != AFPacket || r.Sent != 10 || len(r.Warnings) == 0 {
		t.Errorf("%+v", r)
	}
}

// TestPassesOthers: ARP and a UDP socket work through a sink.
func TestPassesOthers(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, XDPSkb, AFPacket} {
		s := mustSink(t, SinkConfig{In: b, Method: m})
		d, _ := a.Device()
		got := make(chan int, 1)
		db, _ := b.Device()
		rx := rawSocket(t, db, unix.ETH_P_ARP)
		_ = unix.SetsockoptTimeval(rx, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
		go func() {
			buf := make([]byte, 256)
			n, _, _ := unix.Recvfrom(rx, buf, 0)
			got <- n
		}()
		frame := make([]byte, 60)
		copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		copy(frame[6:], d.MAC)
		frame[12], frame[13] = 0x08, 0x06
		must.Do(t, unix.Send(rawSocket(t, d, 0), frame, 0))
		must.Equal(t, <-got, 60, "%s: an ARP frame of 60 bytes arrived", m)
		if c := mustCount(t, s); m != AFPacket && c.Other == 0 {
			t.Errorf("%s: %+v", m, c)
		}
		s.Close()
	}
}

func TestRefused(t *testing.T) {
	a, _ := pair(t)
	for name, c := range map[string]Config{
		"no such interface": {Out: Endpoint{Netns: a.Netns, Iface: "none"}},
		"no such namespace": {Out: Endpoint{Netns: "no-such-namespace", Iface: "veth0"}},
		// lo is down
		"MTU":    {Out: Endpoint{Netns: a.Netns, Iface: "lo"}, Frame: Frame{Size: 64, DstMAC: macA}},
		"rate":   {Out: a, Rate: -1},
		"method": {Out: a, Method: "pktgen"},
		"stream": {Out: a, Stream: 65535, CPUs: []int{0, 1}},
		"CPUs":   {Out: a, CPUs: []int{0, 1, 0}},
	} {
		if g, err := NewGenerator(t.Context(), c); err == nil {
			g.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	must.Is(t, must.Err((Endpoint{Netns: a.Netns, Iface: "none"}).Device()), ErrNoDevice, "missing interface")
}
