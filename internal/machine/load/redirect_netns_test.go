//go:build netns

package load

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestRefusedRedirects has an XDP program that sends what arrives to a device that does not exist.
func TestRefusedRedirects(t *testing.T) {
	m := treetest.Live(t)
	first, second := twoSpaces(t)
	program := must.Get(ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, 1<<20), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return()}}))(t)
	defer program.Close()
	var attached link.Link
	var v1 *net.Interface
	must.Do(t, inNetns(second, func() (err error) {
		v1 = must.Get(net.InterfaceByName("v1"))(t)
		attached, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: v1.Index,
			Flags: link.XDPGenericMode})
		return err
	}))
	defer attached.Close()
	// The program takes ARP requests too: unanswered, one of them a second would be all that arrives.
	treetest.IP(t, fmt.Sprintf("-n %s neigh replace 198.18.0.2 lladdr %v dev v0 nud permanent", first, v1.HardwareAddr))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	flood(ctx, t, first, "198.18.0.2:7002")
	l := Observe(context.Background(), m, hostOf(t, m), Options{Interval: time.Second, Netns: []string{second}})
	d := facts.Find(l.Drops, func(d *facts.DropSite) bool { return d.Symbol == facts.XDPRedirect })
	must.Hold(t, d != nil && d.Device == "v1" && d.Netns == second,
		"found %+v in %+v, unseen %+v", d, l.Drops, l.Unseen)
}
