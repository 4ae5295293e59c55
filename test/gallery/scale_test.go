package gallery

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/report"
)

// crowds are what a host can have thousands of.
var crowds = map[string]struct {
	n   int
	add func(h *facts.Host, name string)
}{
	"NICs of a guest": {1000, func(h *facts.Host, name string) {
		g := &h.Guests[0]
		i := g.Interfaces[0]
		i.MAC, i.Tap = fmt.Sprintf("52:54:00:ff:%02x:%02x", len(g.Interfaces)>>8, len(g.Interfaces)&255), name
		g.Interfaces = append(g.Interfaces, i)
	}},
	"interrupts of a NIC": {4000, func(h *facts.Host, name string) {
		n := &h.NICs[0]
		irq := n.IRQs[0]
		irq.Number, irq.Name, irq.On = 1000+len(n.IRQs), name+"-rx", name+"-rx-"+strconv.Itoa(len(n.IRQs))
		n.IRQs = append(n.IRQs, irq)
	}},
	"taps of a bridge": {2500, func(h *facts.Host, name string) {
		h.Taps = append(h.Taps, facts.Tap{Name: name, Master: h.Bridges[0].Name, TxQueues: 1, RxQueues: 1, Up: true})
		h.Bridges[0].Ports = append(h.Bridges[0].Ports, name)
	}},
	"other ports of a bridge": {4000, func(h *facts.Host, name string) {
		h.Links = append(h.Links, facts.Link{Name: name, Kind: "veth", Up: true})
		h.Bridges[0].Ports = append(h.Bridges[0].Ports, name)
	}},
	"bridges of VLANs": {2000, func(h *facts.Host, name string) {
		h.Bridges = append(h.Bridges, facts.Bridge{Name: "b" + name, Up: true, Ports: []string{name}})
		h.Tunnels = append(h.Tunnels, facts.Tunnel{Name: name, Type: "vlan", Lower: h.NICs[0].Name})
	}},
	"ports of Open vSwitch": {2500, func(h *facts.Host, name string) {
		if h.OpenVSwitch == nil {
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{{Name: "br-int"}}}
		}
		b := &h.OpenVSwitch.Bridges[0]
		b.Ports = append(b.Ports, facts.OVSPort{Name: name, Interfaces: []facts.OVSInterface{{Name: name}}})
		h.Links = append(h.Links, facts.Link{Name: name, Kind: "veth", Up: true, Master: facts.OVSDatapath})
	}},
}

// TestCrowdsCostWhatTheyHold: twice as much of anything costs a snapshot's reading, audit, plan and text less than
// three times as much CPU time. What grows with the square costs four times.
func TestCrowdsCostWhatTheyHold(t *testing.T) {
	for name, c := range crowds {
		var factor float64
		for range 4 { // a core whose other thread is busy takes longer
			once := costOf(t, c.n, c.add)
			if factor = float64(costOf(t, 2*c.n, c.add)) / float64(once); factor < 3 {
				break
			}
		}
		t.Logf("%s: %.1f", name, factor)
		if factor >= 3 {
			t.Errorf("%s: twice as many cost %.1f times", name, factor)
		}
	}
}

func costOf(t *testing.T, n int, add func(h *facts.Host, name string)) time.Duration {
	t.Helper()
	s := host(t, "three-hundred")
	guests := map[string]Guests{}
	for name, g := range s.Guests {
		g.Count = 4
		guests[name] = g
	}
	s.Guests = guests
	m := must.Get(s.build())(t)
	for i := range n {
		add(m.Host, fmt.Sprintf("x%d", i))
	}
	m.Gather()
	var text bytes.Buffer
	must.Do(t, facts.Write(&text, m.Host, "test"))
	took := cpuTimer()
	read := &Machine{Host: must.Get(facts.ReadSnapshot(&text))(t)}
	v := must.Get(judge(read, "--pps 1.8M"))(t)
	must.Do(t, report.NewPrinter(io.Discard, io.Discard, report.Options{}).View(func(t *report.Text) {
		report.Inspect(t, read.Host, true)
		report.Audit(t, v.report, true)
		report.Plan(t, v.plan)
	}))
	return took()
}
