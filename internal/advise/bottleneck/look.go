package bottleneck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// Bounds of the signals.
const (
	idleLeft = 0.07 // share of a CPU: less left is none left
	// share of a CPU that a thread may use before it counts as full: interrupts and the scheduler have the rest
	threadFull = 0.90
	waitsLong  = 0.10  // share of the interval ready without a CPU
	heldBack   = 0.05  // share of the interval that a cgroup is throttled
	lossLeast  = 0.005 // of the packets: less is noise
	lossCount  = 10    // packets: less proves nothing
	lossLarge  = 0.05  // of the packets at the place where they are lost
	quiet      = 100   // packets per second that no path has that does something
)

// look is a load with what rules ask of it.
type look struct {
	h *facts.Host
	l *facts.Load

	seconds float64
	cpus    map[int]*facts.CPULoad
	profile map[int]map[string]facts.ProfileEntry // by CPU and stage
	guests  []*guest
	// of the busiest device in its busier direction, with what was lost there: what the path was offered at least
	packets  float64
	outwards bool // more packets come from guests than go to them
	losses   []loss
}

// guest is what is seen of one guest, from outside and from inside.
type guest struct {
	name      string
	vhost     []*facts.ThreadLoad
	vcpus     []*facts.ThreadLoad
	emulators []*facts.ThreadLoad
	taps      []*facts.DeviceLoad
	inside    *facts.GuestLoad // nil: not asked, or no answer
	known     *facts.Guest     // nil where the host's inventory has none of that name
	in, out   float64          // packets to and from it, lost ones not counted
}

func newLook(h *facts.Host, l *facts.Load) *look {
	k := &look{h: h, l: l, seconds: max(l.Seconds, 0.001), cpus: map[int]*facts.CPULoad{},
		profile: map[int]map[string]facts.ProfileEntry{}}
	for i := range l.CPUs {
		k.cpus[l.CPUs[i].CPU] = &l.CPUs[i]
	}
	for _, p := range l.Profile {
		if k.profile[p.CPU] == nil {
			k.profile[p.CPU] = map[string]facts.ProfileEntry{}
		}
		k.profile[p.CPU][p.Stage] = p
	}
	k.findGuests()
	var in, out float64
	for _, g := range k.guests {
		in, out = in+g.in, out+g.out
	}
	k.outwards = out > in
	k.findLosses()
	for i := range l.Devices {
		d := &l.Devices[i]
		lost := 0.0
		for _, s := range k.losses {
			if s.device == d {
				lost += s.packets
			}
		}
		k.packets = max(k.packets, float64(max(d.RxPackets, d.TxPackets))+lost)
	}
	for i := range l.Guests { // of a function passed through, no device of the host counts
		for j := range l.Guests[i].Devices {
			d := &l.Guests[i].Devices[j]
			k.packets = max(k.packets, float64(max(d.RxPackets, d.TxPackets)))
		}
	}
	return k
}

func (k *look) findGuests() {
	by := map[string]*guest{}
	of := func(name string) *guest {
		if by[name] == nil {
			by[name] = &guest{name: name}
			if at := slices.IndexFunc(k.h.Guests, func(g facts.Guest) bool { return g.Name == name }); at >= 0 {
				by[name].known = &k.h.Guests[at]
			}
		}
		return by[name]
	}
	for i := range k.l.Threads {
		t := &k.l.Threads[i]
		if t.Guest == "" {
			continue
		}
		switch g := of(t.Guest); t.Role {
		case "vhost":
			g.vhost = append(g.vhost, t)
		case "vcpu":
			g.vcpus = append(g.vcpus, t)
		default: // QEMU's own, whatever it calls them
			g.emulators = append(g.emulators, t)
		}
	}
	for i := range k.l.Devices {
		if d := &k.l.Devices[i]; d.Guest != "" && d.Kind != "bridge" {
			g := of(d.Guest)
			g.taps = append(g.taps, d)
			g.in += float64(d.TxPackets)
			g.out += float64(d.RxPackets)
		}
	}
	for i := range k.l.Guests {
		of(k.l.Guests[i].Name).inside = &k.l.Guests[i]
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		k.guests = append(k.guests, by[name])
	}
}

// rate is a count as packets per second.
func (k *look) rate(n float64) float64 { return n / k.seconds }

// idle is the share of a CPU that is left; what its own hypervisor took away is not.
func (k *look) idle(cpu int) float64 {
	if c := k.cpus[cpu]; c != nil {
		return c.Idle
	}
	return 1
}

func (k *look) full(cpu int) bool { return k.idle(cpu) <= idleLeft }

// handling is the share of a CPU that interrupts, softirqs and threads in their place take.
func (k *look) handling(cpu int) float64 {
	c := k.cpus[cpu]
	if c == nil {
		return 0
	}
	share := c.Softirq + c.IRQ
	for i := range k.l.Threads {
		if t := &k.l.Threads[i]; t.Role == "napi" && t.CPU == cpu {
			share += t.Ran
		}
	}
	return min(share, 1)
}

// spare reports whether there is a CPU that could take work over: one that is more than a third idle.
func (k *look) spare() bool {
	return slices.ContainsFunc(k.l.CPUs, func(c facts.CPULoad) bool { return c.Idle > 0.35 })
}

// part is the share of a CPU's time that was spent in functions of a stage, and the function with most of it.
func (k *look) part(cpu int, stage string) (share float64, function string) {
	p := k.profile[cpu][stage]
	return p.Share, p.Symbol
}

// sampled reports whether a profile of the kernel's CPU time is there.
func (k *look) sampled() bool { return len(k.l.Profile) > 0 }

// effective is the share of the interval that a vCPU ran its guest, without waiting for work on its CPU (halt polling).
func effective(t *facts.ThreadLoad) float64 { return max(t.Ran-t.HaltPoll, 0) }

// wanted is how much of a CPU a vCPU wants: where it is ready all the time, all of it.
func wanted(t *facts.ThreadLoad) float64 {
	if use := effective(t); use >= 0.5 && use+t.Waited >= threadFull-0.04 {
		return use + t.Waited
	}
	return effective(t)
}

// where is the CPU that a thread is bound to, else the one where it ran last.
func where(t *facts.ThreadLoad) int {
	if len(t.Affinity) == 1 {
		return t.Affinity[0]
	}
	return t.CPU
}

// busy is how full a thread is: the share of a CPU that it used, with the interrupts that came on top of it where
// nothing of the CPU is left. Kernels that keep time of interrupts apart (CONFIG_IRQ_TIME_ACCOUNTING) leave these out
// of a thread's time.
func (k *look) busy(t *facts.ThreadLoad) float64 {
	at := where(t)
	if k.full(at) && t.Ran >= 0.5 && t.Ran < threadFull {
		return min(t.Ran+k.handling(at), 1)
	}
	return t.Ran
}

// busiest is the fullest of some threads; nil where there are none.
func busiest(threads []*facts.ThreadLoad, use func(*facts.ThreadLoad) float64) *facts.ThreadLoad {
	if len(threads) == 0 {
		return nil
	}
	return slices.MaxFunc(threads, func(a, b *facts.ThreadLoad) int { return cmp.Compare(use(a), use(b)) })
}

// beside are other threads on a thread's CPU that used at least so much of a CPU, the busiest first.
func (k *look) beside(t *facts.ThreadLoad, least float64) []*facts.ThreadLoad {
	var found []*facts.ThreadLoad
	for i := range k.l.Threads {
		o := &k.l.Threads[i]
		if o.TID != t.TID && o.Ran >= least && where(o) == where(t) {
			found = append(found, o)
		}
	}
	slices.SortStableFunc(found, func(a, b *facts.ThreadLoad) int { return cmp.Compare(b.Ran, a.Ran) })
	return found
}

// delay is what the scheduler's tracepoints tell of a thread's waits.
func (k *look) delay(tid int) (facts.WakeDelay, bool) {
	at := slices.IndexFunc(k.l.Delays, func(d facts.WakeDelay) bool { return d.TID == tid })
	if at < 0 {
		return facts.WakeDelay{}, false
	}
	return k.l.Delays[at], true
}

// nic is what the inventory knows of a device.
func (k *look) nic(name string) *facts.NIC {
	if at := slices.IndexFunc(k.h.NICs, func(n facts.NIC) bool { return n.Name == name }); at >= 0 {
		return &k.h.NICs[at]
	}
	return nil
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

// called names a device for people.
func called(d *facts.DeviceLoad) string {
	if d.Netns != "" {
		return d.Name + " in " + d.Netns
	}
	return d.Name
}

func percent(share float64) string {
	if share > 0 && share < 0.0095 {
		return fmt.Sprintf("%.1f %%", share*100)
	}
	return fmt.Sprintf("%.0f %%", share*100)
}

// amount writes a rate with a unit's prefix: "1.82 M".
func amount(v float64) string {
	switch {
	case v >= 1e9:
		return strings.TrimSuffix(fmt.Sprintf("%.3g G", v/1e9), " ")
	case v >= 1e6:
		return fmt.Sprintf("%.3g M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.3g k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// some writes a number with its noun.
func some(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
