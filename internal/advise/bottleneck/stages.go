package bottleneck

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// stages is what every stage of the path did, in path order: of each the busiest object.
func (k *look) stages() []Stage {
	made := []*Stage{
		k.generatorStage(), k.nicStage(), k.softirqStage(), k.profiled("netfilter", "netfilter", "conntrack"),
		k.bridgeStage(), k.overlayStage(),
		k.qdiscStage(), k.tapStage(), k.vhostStage(), k.vcpuStage(), k.guestStage(), k.socketStage(),
	}
	all := []Stage{}
	for _, s := range made {
		if s == nil {
			continue
		}
		if s.Saturation == nil {
			s.Saturation = []Evidence{}
		}
		if s.Errors == nil {
			s.Errors = []Evidence{}
		}
		all = append(all, *s)
	}
	return all
}

// lossesAt are the losses of some places as evidence, noise too.
func (k *look) lossesAt(places ...place) (found []Evidence) {
	for _, s := range k.losses {
		if slices.Contains(places, s.at) {
			found = append(found, Evidence{"lost: " + string(s.at), s.packets, "packets", s.source})
		}
	}
	return found
}

func (k *look) generatorStage() *Stage {
	var t *facts.ThreadLoad
	for i := range k.l.Threads {
		if o := &k.l.Threads[i]; (o.Role == "pktgen" || o.Role == "mpps") && o.Ran >= 0.1 &&
			(t == nil || o.Ran > t.Ran) {
			t = o
		}
	}
	if t == nil {
		return nil
	}
	s := &Stage{Name: "generator", Object: label(t), Use: t.Ran, PPS: -1}
	if t.Throttle >= heldBack {
		s.Saturation = append(s.Saturation, Evidence{"held back by its cgroup", t.Throttle, "share", "cpu.stat"})
	}
	return s
}

func (k *look) both(d *facts.DeviceLoad) float64 { return k.rate(float64(d.RxPackets + d.TxPackets)) }

func (k *look) busiestDevice(kinds ...string) *facts.DeviceLoad {
	var found *facts.DeviceLoad
	for i := range k.l.Devices {
		if d := &k.l.Devices[i]; slices.Contains(kinds, d.Kind) &&
			(found == nil || d.RxPackets+d.TxPackets > found.RxPackets+found.TxPackets) {
			found = d
		}
	}
	return found
}

func (k *look) nicStage() *Stage {
	d := k.busiestDevice("nic", "vf")
	if d == nil {
		return nil
	}
	s := &Stage{Name: "nic", Object: called(d), Use: -1, PPS: k.both(d), Saturation: k.lossesAt(atRing),
		Errors: k.lossesAt(atDamage)}
	if use := k.bits(d) / (float64(d.SpeedMbps) * 1e6); d.SpeedMbps > 0 && use <= 1.05 {
		s.Use = min(use, 1)
	}
	return s
}

func (k *look) softirqStage() *Stage {
	if len(k.l.CPUs) == 0 {
		return nil
	}
	c := slices.MaxFunc(k.l.CPUs, func(a, b facts.CPULoad) int {
		return cmp.Or(cmp.Compare(k.handling(a.CPU), k.handling(b.CPU)), cmp.Compare(b.CPU, a.CPU))
	})
	s := &Stage{Name: "softirq", Object: fmt.Sprintf("CPU %d", c.CPU), Use: k.handling(c.CPU), PPS: -1,
		Saturation: k.lossesAt(atBacklog)}
	if _, all := k.softnet(c.CPU); all > 0 {
		s.PPS = k.rate(all)
	}
	var squeezed uint64
	for _, row := range k.l.Softnet {
		squeezed += row.Squeezed
	}
	if squeezed > 0 {
		s.Saturation = append(s.Saturation, Evidence{"rounds cut short", float64(squeezed), "rounds",
			"/proc/net/softnet_stat, time_squeeze"})
	}
	return s
}

// profiled is a stage that only the profile shows.
func (k *look) profiled(name string, stages ...string) *Stage {
	s := &Stage{Name: name, Use: -1, PPS: -1}
	for _, c := range k.l.CPUs {
		share := 0.0
		for _, stage := range stages {
			part, _ := k.part(c.CPU, stage)
			share += part
		}
		if share > s.Use && share > 0 {
			s.Use, s.Object = share, fmt.Sprintf("%s on CPU %d", name, c.CPU)
		}
	}
	if name == "netfilter" {
		s.Errors = k.lossesAt(atRule)
		if bridge, other := k.countRules(); bridge+other > 0 && s.Object == "" {
			s.Object = some(bridge+other, "rule")
		}
	}
	if s.Object == "" && len(s.Errors) == 0 {
		return nil
	}
	s.Object = cmp.Or(s.Object, name)
	return s
}

func (k *look) bridgeStage() *Stage {
	d := k.busiestDevice("bridge")
	s := k.profiled("bridge", "bridge")
	if d == nil {
		return s
	}
	if s == nil {
		s = &Stage{Name: "bridge", Use: -1}
	}
	s.Object = called(d)
	s.PPS = -1 // its own counters are those of packets to and from the host itself
	return s
}

func (k *look) overlayStage() *Stage {
	t := k.tunnel()
	s := k.profiled("overlay", "overlay")
	if t == nil {
		return s
	}
	if s == nil {
		s = &Stage{Name: "overlay", Use: -1}
	}
	s.Object, s.PPS = called(t), k.both(t)
	for _, w := range k.l.Locks {
		if w.Device == t.Name {
			s.Saturation = append(s.Saturation, Evidence{"waiting for " + w.Lock, w.Share, "share of a CPU", "profile"})
		}
	}
	return s
}

func (k *look) qdiscStage() *Stage {
	var found *Stage
	for i := range k.l.Devices {
		d := &k.l.Devices[i]
		for _, q := range d.Qdisc {
			if q.Packets == 0 && q.Drops == 0 {
				continue
			}
			s := &Stage{Name: "qdisc", Object: q.Kind + " of " + called(d), Use: -1, PPS: k.rate(float64(q.Packets))}
			if q.RateBps > 0 {
				s.Use = min(k.rate(float64(q.Bytes)*8)/q.RateBps, 1)
			}
			if q.Backlog > 0 {
				s.Saturation = append(s.Saturation, Evidence{"packets that wait", float64(q.Backlog), "packets",
					"tc -s qdisc"})
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

func (k *look) tapStage() *Stage {
	d := k.busiestDevice("tap")
	if d == nil {
		return nil
	}
	for _, s := range k.losses { // one that loses tells more than one that is busy
		if s.at == atTap && s.device != nil && k.matters(s) {
			d = s.device
			break
		}
	}
	return &Stage{Name: "tap", Object: called(d), Use: -1, PPS: k.both(d), Saturation: k.lossesAt(atTap)}
}

func (k *look) vhostStage() *Stage {
	var all []*facts.ThreadLoad
	for _, g := range k.guests {
		all = append(all, g.vhost...)
	}
	t := busiest(all, k.busy)
	if t == nil {
		return nil
	}
	return k.threadStage("vhost", t, k.busy(t))
}

func (k *look) vcpuStage() *Stage {
	var all []*facts.ThreadLoad
	for _, g := range k.guests {
		all = append(all, g.vcpus...)
	}
	t := busiest(all, effective)
	if t == nil {
		return nil
	}
	return k.threadStage("vcpu", t, effective(t))
}

func (k *look) threadStage(name string, t *facts.ThreadLoad, use float64) *Stage {
	s := &Stage{Name: name, Object: label(t), Use: min(use, 1), PPS: -1}
	if t.Waited >= 0.01 {
		s.Saturation = append(s.Saturation, Evidence{"waited for a CPU", t.Waited, "share",
			"/proc/PID/task/TID/schedstat"})
	}
	if t.Throttle > 0 {
		s.Saturation = append(s.Saturation, Evidence{"held back by its cgroup", t.Throttle, "share", "cpu.stat"})
	}
	for _, g := range k.guests {
		if g.name == t.Guest && len(g.taps) > 0 {
			s.PPS = k.rate(g.in + g.out)
		}
	}
	return s
}

func (k *look) guestStage() *Stage {
	var found *Stage
	for _, g := range k.guests {
		if g.inside == nil {
			continue
		}
		for _, c := range g.inside.CPUs {
			if found == nil || 1-c.Idle > found.Use {
				found = &Stage{Name: "guest", Object: fmt.Sprintf("%s CPU %d", g.name, c.CPU), Use: 1 - c.Idle, PPS: -1,
					Saturation: k.lossesAt(inGuest), Errors: k.lossesAt(atReader)}
			}
		}
	}
	return found
}

func (k *look) socketStage() *Stage {
	s := &k.l.Sockets
	if s.UDPIn == 0 && s.ReceiveBuffer == 0 && s.PacketDrops == 0 {
		return nil
	}
	return &Stage{Name: "socket", Object: "sockets", Use: s.Queued, PPS: k.rate(float64(s.UDPIn + s.ReceiveBuffer)),
		Errors: k.lossesAt(atSocket, atPacket)}
}
