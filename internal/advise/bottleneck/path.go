package bottleneck

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// Thresholds of the signals.
const (
	minIdle = 0.07 // share of a CPU; a CPU with less idle time is full
	// share of a CPU above which a thread counts as full: interrupts and the scheduler take the rest
	threadFull     = 0.90
	minWait        = 0.10 // share of the interval that a thread was runnable without a CPU
	minThrottle    = 0.05 // share of the interval that a cgroup was throttled
	largeLossShare = 0.05 // share of the packets at the place where they are lost
	minPPS         = 100  // packets per second; a path with fewer counts as idle
	// share of the packets lost at one place, from which on a path with few packets does not count as idle
	mostLost = 0.3
	// bits per second; a path with more is not idle, though its packets are few: GSO and GRO merge them
	minBits = 250e3
)

// path is a load with the lookups that rules need.
type path struct {
	h *facts.Host
	l *facts.Load

	seconds float64
	cpus    map[int]*facts.CPULoad
	profile map[int]map[string]facts.ProfileEntry // by CPU and stage
	guests  []*guest
	// packets of the busiest device in its busier direction, plus those lost there: a lower bound of the offered load
	packets  float64
	outwards bool // guests send more packets than they receive
	losses   []loss
	missing  []balance // of namespaces that lose packets without a trace
}

// guest is what is known of one guest, from outside and from inside.
type guest struct {
	name               string
	vhost              []*facts.ThreadLoad
	vcpus              []*facts.ThreadLoad
	emulators          []*facts.ThreadLoad
	taps               []*facts.DeviceLoad
	inside             *facts.GuestLoad // nil: the agent was not asked or did not answer
	inventory          *facts.Guest     // nil: not in the host's inventory
	toGuest, fromGuest float64          // packets received and sent by the guest, lost ones not counted
}

func newPath(h *facts.Host, l *facts.Load) *path {
	p := &path{h: h, l: l, seconds: max(l.Seconds, 0.001), cpus: map[int]*facts.CPULoad{},
		profile: map[int]map[string]facts.ProfileEntry{}}
	for c := range facts.Each(l.CPUs) {
		p.cpus[c.CPU] = c
	}
	for _, e := range l.Profile {
		if p.profile[e.CPU] == nil {
			p.profile[e.CPU] = map[string]facts.ProfileEntry{}
		}
		p.profile[e.CPU][e.Stage] = e
	}
	p.findGuests()
	var toGuests, fromGuests float64
	for _, g := range p.guests {
		toGuests, fromGuests = toGuests+g.toGuest, fromGuests+g.fromGuest
	}
	p.outwards = fromGuests > toGuests
	p.findLosses()
	for d := range facts.Each(l.Devices) {
		in, out := float64(d.RxPackets), float64(d.TxPackets)
		for _, s := range p.losses {
			switch {
			case s.device != d:
			case s.at == atQdisc || s.means.sends:
				out += s.packets
			case s.at == atRing || s.at == atDamage || s.at == atDevice:
				in += s.packets
			case s.at == atRule && !s.wayKnown, s.at == atFilter:
				in, out = max(in, s.packets), out+s.packets
			}
		}
		p.packets = max(p.packets, in, out)
	}
	p.packets = max(p.packets, p.polledPackets())
	for g := range facts.Each(l.Guests) { // no device of the host counts the packets of a VF that is passed through
		for _, d := range g.Devices {
			p.packets = max(p.packets, float64(max(d.RxPackets, d.TxPackets)))
		}
	}
	return p
}

func (p *path) findGuests() {
	by := map[string]*guest{}
	of := func(name string) *guest {
		if by[name] == nil {
			known := facts.Find(p.h.Guests, func(g *facts.Guest) bool { return g.Name == name })
			by[name] = &guest{name: name, inventory: known}
		}
		return by[name]
	}
	for t := range facts.Each(p.l.Threads) {
		if t.Guest == "" {
			continue
		}
		switch g := of(t.Guest); t.Role {
		case "vhost":
			g.vhost = append(g.vhost, t)
		case "vcpu":
			g.vcpus = append(g.vcpus, t)
		default: // QEMU's other threads, whatever their names
			g.emulators = append(g.emulators, t)
		}
	}
	for d := range facts.Each(p.l.Devices) {
		if d.Guest != "" && d.Kind != "bridge" && (d.Netns == "" || d.Kind == "tap") {
			g := of(d.Guest)
			g.taps = append(g.taps, d)
			to, _ := d.ToProgram()
			g.toGuest += float64(to)
			g.fromGuest += float64(d.FromProgram())
		}
	}
	for g := range facts.Each(p.l.Guests) {
		of(g.Name).inside = g
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		p.guests = append(p.guests, by[name])
	}
}

// most returns the first element with the greatest value. Elements with a value below 0 do not count; nil if none does.
func most[T any](all iter.Seq[*T], value func(*T) float64) (found *T) {
	greatest := 0.0
	for e := range all {
		if v := value(e); v > greatest || v == 0 && found == nil {
			found, greatest = e, v
		}
	}
	return found
}

// quiet reports whether the traffic is too low to judge, in packets and in bits.
func (p *path) quiet() bool {
	if p.rate(p.packets) >= minPPS || slices.ContainsFunc(p.losses, func(s loss) bool {
		return s.share >= mostLost && p.rate(s.packets) >= minOwnLoss
	}) {
		return false
	}
	return !slices.ContainsFunc(p.l.Devices, func(d facts.DeviceLoad) bool { return p.bits(&d) >= minBits })
}

// rate converts a count of the interval to a rate per second.
func (p *path) rate(n float64) float64 { return n / p.seconds }

// idle returns the idle share of a CPU. Stolen time is not idle time.
func (p *path) idle(cpu int) float64 {
	if c := p.cpus[cpu]; c != nil {
		return c.Idle
	}
	return 1
}

func (p *path) full(cpu int) bool { return p.idle(cpu) <= minIdle }

// softirqUse returns the share of a CPU that interrupts, softirqs and NAPI threads take.
func (p *path) softirqUse(cpu int) float64 {
	c := p.cpus[cpu]
	if c == nil {
		return 0
	}
	share := c.Softirq + c.IRQ
	for _, t := range p.l.Threads {
		if t.Role == "napi" && t.CPU == cpu {
			share += t.Ran
		}
	}
	if share >= 0.3 && len(p.profile[cpu]) > 0 {
		// Without IRQ time accounting a tick that a timer's softirq aliases with counts as softirq as a whole
		// (kernel/sched/cputime.c, irqtime_account_process_tick): the profile has the last word.
		if seen := p.packetShare(cpu); seen < share/2 {
			share = seen
		}
	}
	return min(share, 1)
}

// packetShare returns the share of a CPU's time in functions that handle packets, by the profile.
func (p *path) packetShare(cpu int) (share float64) {
	for stage, e := range p.profile[cpu] {
		if stage != "other" && stage != "kvm" {
			share += e.Share
		}
	}
	return share
}

// spare reports whether a CPU is more than 35 % idle and could take over work.
func (p *path) spare() bool {
	return slices.ContainsFunc(p.l.CPUs, func(c facts.CPULoad) bool { return c.Idle > 0.35 })
}

// profileShare returns the share of a CPU's time spent in a stage's functions, and the function that took most of it.
func (p *path) profileShare(cpu int, stage string) (share float64, function string) {
	e := p.profile[cpu][stage]
	return e.Share, e.Symbol
}

// effective returns the share of the interval that a vCPU ran its guest, without halt polling.
func effective(t *facts.ThreadLoad) float64 { return max(t.Ran-t.HaltPoll, 0) }

// vcpuDemand returns how much of a CPU a vCPU needs: its wait counts too if it was runnable all the time.
func vcpuDemand(t *facts.ThreadLoad) float64 {
	if use := effective(t); use >= 0.5 && use+t.Waited >= threadFull-0.04 {
		return use + t.Waited
	}
	return effective(t)
}

// cpuOf returns the CPU that a thread is bound to, else the CPU that it ran on last.
func cpuOf(t *facts.ThreadLoad) int {
	if len(t.Affinity) == 1 {
		return t.Affinity[0]
	}
	return t.CPU
}

// busy returns the share of a CPU that a thread used. On a full CPU the interrupts' share is added: kernels with
// CONFIG_IRQ_TIME_ACCOUNTING do not count it as the thread's time.
func (p *path) busy(t *facts.ThreadLoad) float64 {
	at := cpuOf(t)
	if p.full(at) && t.Ran >= 0.5 && t.Ran < threadFull {
		return min(t.Ran+p.softirqUse(at), 1)
	}
	return t.Ran
}

// busiestThread returns the thread with the highest use; nil if there are no threads.
func busiestThread(threads []*facts.ThreadLoad, use func(*facts.ThreadLoad) float64) *facts.ThreadLoad {
	return most(slices.Values(threads), use)
}

// busiestOf returns the wanted thread that ran most; nil if none is wanted.
func (p *path) busiestOf(wanted func(*facts.ThreadLoad) bool) *facts.ThreadLoad {
	return most(facts.Each(p.l.Threads), func(t *facts.ThreadLoad) float64 {
		if !wanted(t) {
			return -1
		}
		return t.Ran
	})
}

// neighbours returns the other threads on a thread's CPU that used at least that share of a CPU, the busiest first.
func (p *path) neighbours(t *facts.ThreadLoad, least float64) []*facts.ThreadLoad {
	var found []*facts.ThreadLoad
	for o := range facts.Each(p.l.Threads) {
		if o.TID != t.TID && o.Ran >= least && cpuOf(o) == cpuOf(t) {
			found = append(found, o)
		}
	}
	slices.SortStableFunc(found, func(a, b *facts.ThreadLoad) int { return cmp.Compare(b.Ran, a.Ran) })
	return found
}

// nic returns a NIC of the inventory; nil if there is none of that name.
func (p *path) nic(name string) *facts.NIC {
	return facts.Find(p.h.NICs, func(n *facts.NIC) bool { return n.Name == name })
}

// label names a thread for people.
func label(t *facts.ThreadLoad) string {
	switch {
	case t.Role == "vhost" && t.Queue >= 0:
		return fmt.Sprintf("%s (queue %d)", t.Comm, t.Queue)
	case t.Role == "vcpu" && t.VCPU >= 0 && t.Guest != "":
		return fmt.Sprintf("%s vCPU %d", t.Guest, t.VCPU)
	case t.Role == "vhost" || t.Role == "ksoftirqd" || t.Role == "napi" || t.Role == "pktgen":
		return t.Comm
	}
	return fmt.Sprintf("%s (%d)", t.Comm, t.TID)
}

// deviceName names a device for people.
func deviceName(d *facts.DeviceLoad) string {
	if d.Netns != "" {
		return d.Name + " in " + d.Netns
	}
	return d.Name
}

func cpuName(cpu int) string { return fmt.Sprintf("CPU %d", cpu) }

func percent(share float64) string {
	if share > 0 && share < 0.0095 {
		return fmt.Sprintf("%.1f %%", share*100)
	}
	return fmt.Sprintf("%.0f %%", share*100)
}

// amount formats a rate with its SI prefix: "1.82 M".
func amount(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.3g G", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.3g M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.3g k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// count formats a number with its noun.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
