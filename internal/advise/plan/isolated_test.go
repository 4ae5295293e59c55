package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// nfvHost is a host of 64 CPUs with SMT (siblings N and N+32) whose CPUs 4-63 are isolated, with guests pinned one vCPU
// to a CPU there, their emulators on the other CPUs, where their vhost threads float.
func nfvHost() *facts.Host {
	h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 8, Guests: 6})
	host := setting.CPUs(0, 1, 2, 3)
	h.Topology.Isolated = h.Topology.Online.Minus(host)
	h.Topology.NohzFull = h.Topology.Isolated
	h.Kernel.CommandLine += " isolcpus=managed_irq,domain,4-63 nohz_full=4-63"
	for i := range h.Guests {
		g := &h.Guests[i]
		g.EmulatorPin = host
		for v := range g.Pins {
			g.Pins[v] = setting.CPUs(4 + 2*i + v/2 + 32*(v%2)) // in pairs of siblings
			pin := setting.Value(g.Pins[v].String())
			h.Readings[setting.Of(setting.Domain, g.Name, fmt.Sprintf("vcpupin/%d", v))] = pin
			h.Readings[setting.Of(setting.DomainLive, g.Name, fmt.Sprintf("vcpupin/%d", v))] = pin
		}
		h.Readings[setting.Of(setting.Domain, g.Name, "emulatorpin")] = setting.Value("0-3")
		h.Readings[setting.Of(setting.DomainLive, g.Name, "emulatorpin")] = setting.Value("0-3")
		for t := range facts.Each(g.Threads) {
			switch t.Role {
			case "vhost", "emulator":
				t.Affinity = host
			case "vcpu":
				t.Affinity = g.Pins[t.Index]
			}
			if t.Role == "vhost" {
				h.Readings[setting.Of(setting.ThreadAffinity, g.Name, "vhost", t.NIC, fmt.Sprint(t.Queue))] =
					setting.Value("0-3")
			}
		}
	}
	return h
}

// TestIsolatedGuests checks that no plan moves guests off isolated CPUs, puts one on them, or brings vhost and emulator
// threads there; and that what makes a rule of the placement worse is named and never without risk.
func TestIsolatedGuests(t *testing.T) {
	loose := nfvHost()
	for v := range loose.Guests[0].Pins {
		loose.Guests[0].Pins[v] = nil
	}
	for i := range loose.Guests[0].Threads {
		loose.Guests[0].Threads[i].Affinity = setting.CPUs(0, 1, 2, 3)
	}
	for name, h := range map[string]*facts.Host{"pinned": nfvHost(), "unpinned": loose} {
		for _, g := range []goal.Goal{{PPS: 300e3}, {PPS: 1.8e6}, {PPS: 4e6}, {PPS: 1.8e6, Guest: "vm000"},
			{Latency: 20 * time.Microsecond}} {
			p, err := Make(h, g, knob.Catalogue(), nil)
			must.Do(t, err)
			for _, c := range p.Changes {
				to, err := setting.ParseCPUs(c.To.Value)
				if err != nil || c.To.State != setting.Known {
					continue
				}
				switch c.ID {
				case "domain.vcpupin":
					must.Hold(t, len(to.And(h.Topology.Isolated)) != 0,
						"%s, %+v: %s from %s to %s", name, g, c.Address, c.From, c.To)
				case "domain.emulatorpin", "domain.iothreadpin", "vhost.threads":
					must.Hold(t, len(to.And(h.Topology.Isolated)) <= 0,
						"%s, %+v: %s from %s to %s", name, g, c.Address, c.From, c.To)
				}
				if len(c.GivesWay) > 0 && c.Risk == goal.None {
					t.Errorf("%s, %+v: %s has no risk, and %+v gives way", name, g, c.Address, c.GivesWay)
				}
			}
			pinned := slices.ContainsFunc(p.Changes, func(c Change) bool {
				return c.ID == "domain.vcpupin" && c.Address.Object() == "vm000"
			})
			if name == "unpinned" && g.Guest == "" && g.Latency == 0 && pinned {
				t.Errorf("%+v: a guest that shares CPUs is pinned", g)
			}
		}
	}
}
