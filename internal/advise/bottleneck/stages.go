package bottleneck

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// stages returns what each stage of the path did, in path order: its busiest object.
func (p *path) stages() []Stage {
	all := []Stage{}
	for _, s := range []*Stage{
		p.generatorStage(), p.nicStage(), p.softirqStage(), p.profileStage("netfilter", "netfilter", "conntrack"),
		p.bridgeStage(), p.overlayStage(), p.qdiscStage(), p.tapStage(),
		p.threadStage("vhost", p.busy, func(g *guest) []*facts.ThreadLoad { return g.vhost }),
		p.threadStage("vcpu", effective, func(g *guest) []*facts.ThreadLoad { return g.vcpus }),
		p.guestStage(), p.socketStage(),
	} {
		if s != nil {
			s.Saturation, s.Errors = notNil(s.Saturation), notNil(s.Errors)
			all = append(all, *s)
		}
	}
	return all
}

// lossEvidence returns the losses at some places as evidence, including those that do not matter.
func (p *path) lossEvidence(places ...place) (found []Evidence) {
	for _, s := range p.losses {
		if slices.Contains(places, s.at) {
			found = append(found, Evidence{"lost: " + string(s.at), s.packets, "packets", s.source})
		}
	}
	return found
}

func (p *path) generatorStage() *Stage {
	t := p.busiestOf(func(t *facts.ThreadLoad) bool {
		return (t.Role == "pktgen" || t.Role == "mpps") && t.Ran >= 0.1
	})
	if t == nil {
		return nil
	}
	s := &Stage{Name: "generator", Object: label(t), Use: t.Ran, PPS: -1}
	if t.Throttle >= minThrottle {
		s.saturate("held back by its cgroup", t.Throttle, "share", "cpu.stat")
	}
	return s
}

func (p *path) bothWays(d *facts.DeviceLoad) float64 {
	return p.rate(float64(d.RxPackets + d.TxPackets))
}

func (p *path) busiestDevice(kinds ...string) *facts.DeviceLoad {
	return most(facts.Each(p.l.Devices), func(d *facts.DeviceLoad) float64 {
		if !slices.Contains(kinds, d.Kind) {
			return -1
		}
		return float64(d.RxPackets + d.TxPackets)
	})
}

func (p *path) nicStage() *Stage {
	d := p.busiestDevice("nic", "vf")
	if d == nil {
		return nil
	}
	s := &Stage{Name: "nic", Object: deviceName(d), Use: -1, PPS: p.bothWays(d), Saturation: p.lossEvidence(atRing),
		Errors: p.lossEvidence(atDamage)}
	if use := p.bits(d) / (float64(d.SpeedMbps) * 1e6); d.SpeedMbps > 0 && use <= 1.05 {
		s.Use = min(use, 1)
	}
	return s
}

func (p *path) softirqStage() *Stage {
	if len(p.l.CPUs) == 0 {
		return nil
	}
	c := slices.MaxFunc(p.l.CPUs, func(a, b facts.CPULoad) int {
		return cmp.Or(cmp.Compare(p.softirqUse(a.CPU), p.softirqUse(b.CPU)), cmp.Compare(b.CPU, a.CPU))
	})
	s := &Stage{Name: "softirq", Object: cpuName(c.CPU), Use: p.softirqUse(c.CPU), PPS: -1,
		Saturation: p.lossEvidence(atBacklog)}
	if _, all := p.softnet(c.CPU); all > 0 {
		s.PPS = p.rate(all)
	}
	var squeezed uint64
	for _, row := range p.l.Softnet {
		squeezed += row.Squeezed
	}
	if squeezed > 0 {
		s.saturate("rounds cut short", float64(squeezed), "rounds", "/proc/net/softnet_stat, time_squeeze")
	}
	return s
}

// profileStage returns a stage that only the profile shows; nil if there is none.
func (p *path) profileStage(name string, stages ...string) *Stage {
	s := &Stage{Name: name, Use: -1, PPS: -1}
	for _, c := range p.l.CPUs {
		share := 0.0
		for _, stage := range stages {
			part, _ := p.profileShare(c.CPU, stage)
			share += part
		}
		if share > s.Use && share > 0 {
			s.Use, s.Object = share, fmt.Sprintf("%s on CPU %d", name, c.CPU)
		}
	}
	if name == "netfilter" {
		s.Errors = p.lossEvidence(atRule)
		if bridge, other := p.countRules(); bridge+other > 0 && s.Object == "" {
			s.Object = count(bridge+other, "rule")
		}
	}
	if s.Object == "" && len(s.Errors) == 0 {
		return nil
	}
	s.Object = cmp.Or(s.Object, name)
	return s
}

// bridgeStage has no packet rate: a bridge counts only packets to and from the host itself.
func (p *path) bridgeStage() *Stage {
	s := p.profileStage("bridge", "bridge")
	if d := p.busiestDevice("bridge"); d != nil {
		s = cmp.Or(s, &Stage{Name: "bridge", Use: -1, PPS: -1})
		s.Object = deviceName(d)
	}
	return s
}

func (p *path) overlayStage() *Stage {
	t, s := p.tunnel(), p.profileStage("overlay", "overlay")
	if t == nil {
		return s
	}
	s = cmp.Or(s, &Stage{Name: "overlay", Use: -1})
	s.Object, s.PPS = deviceName(t), p.bothWays(t)
	for _, w := range p.l.Locks {
		if w.Device == t.Name {
			s.saturate("waiting for "+w.Lock, w.Share, "share of a CPU", "profile")
		}
	}
	return s
}

func (p *path) qdiscStage() *Stage {
	var found *Stage
	for d := range facts.Each(p.l.Devices) {
		for _, q := range d.Qdisc {
			if q.Packets == 0 && q.Drops == 0 {
				continue
			}
			s := &Stage{Name: "qdisc", Object: q.Kind + " of " + deviceName(d), Use: -1,
				PPS: p.rate(float64(q.Packets))}
			if q.RateBps > 0 {
				s.Use = min(p.rate(float64(q.Bytes)*8)/q.RateBps, 1)
			}
			if q.Backlog > 0 {
				s.saturate("packets that wait", float64(q.Backlog), "packets", "tc -s qdisc")
			}
			if q.Drops > 0 {
				s.Errors = append(s.Errors, Evidence{"lost: qdisc", float64(q.Drops), "packets", "tc -s qdisc"})
			}
			weight := func(s *Stage) float64 { return s.Use + float64(10*len(s.Errors)+5*len(s.Saturation)) }
			if found == nil || weight(s) > weight(found) || weight(s) == weight(found) && s.PPS > found.PPS {
				found = s
			}
		}
	}
	return found
}

func (p *path) tapStage() *Stage {
	d := p.busiestDevice("tap")
	if d == nil {
		return nil
	}
	for _, s := range p.lossesAt(atTap) { // a tap that loses packets comes before a busy one
		if s.device != nil {
			d = s.device
			break
		}
	}
	return &Stage{Name: "tap", Object: deviceName(d), Use: -1, PPS: p.bothWays(d), Saturation: p.lossEvidence(atTap)}
}

// threadStage returns the busiest of some threads of all guests as a stage; nil if there are none.
func (p *path) threadStage(name string, use func(*facts.ThreadLoad) float64,
	threads func(*guest) []*facts.ThreadLoad) *Stage {
	var all []*facts.ThreadLoad
	for _, g := range p.guests {
		all = append(all, threads(g)...)
	}
	t := busiestThread(all, use)
	if t == nil {
		return nil
	}
	s := &Stage{Name: name, Object: label(t), Use: min(use(t), 1), PPS: -1}
	if t.Waited >= 0.01 {
		s.saturate("waited for a CPU", t.Waited, "share", anySchedstat)
	}
	if t.Throttle > 0 {
		s.saturate("held back by its cgroup", t.Throttle, "share", "cpu.stat")
	}
	for _, g := range p.guests {
		if g.name == t.Guest && len(g.taps) > 0 {
			s.PPS = p.rate(g.toGuest + g.fromGuest)
		}
	}
	return s
}

func (p *path) guestStage() *Stage {
	var found *Stage
	for _, g := range p.guests {
		if g.inside == nil {
			continue
		}
		for _, c := range g.inside.CPUs {
			if found == nil || 1-c.Idle > found.Use {
				found = &Stage{Name: "guest", Object: fmt.Sprintf("%s CPU %d", g.name, c.CPU), Use: 1 - c.Idle, PPS: -1,
					Saturation: p.lossEvidence(inGuest), Errors: p.lossEvidence(atReader)}
			}
		}
	}
	return found
}

func (p *path) socketStage() *Stage {
	s := &p.l.Sockets
	if s.UDPIn == 0 && s.ReceiveBuffer == 0 && s.PacketDrops == 0 {
		return nil
	}
	return &Stage{Name: "socket", Object: "sockets", Use: s.Queued, PPS: p.rate(float64(s.UDPIn + s.ReceiveBuffer)),
		Errors: p.lossEvidence(atSocket, atPacket)}
}
