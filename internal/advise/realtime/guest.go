package realtime

import (
	"fmt"
	"slices"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// guest is a guest as its definition has it.
type guest struct {
	f        *facts.Guest
	d        domain.Guest
	defined  bool
	why      string // why its definition could not be read
	vcpus    []vcpu
	realtime bool // it is one of those that the CPUs are for
}

// vcpu is one of a guest's CPUs, by its definition.
type vcpu struct {
	number   int
	pin      setting.CPUSet // empty: it may run anywhere
	policy   string         // SCHED_FIFO, SCHED_RR; empty: an ordinary thread
	priority int
}

func (c vcpu) scheduled() bool { return c.policy == "SCHED_FIFO" || c.policy == "SCHED_RR" }

// definitions reads the definitions of a host's guests. One that libvirt does not know has only its threads.
func definitions(h *facts.Host) []*guest {
	all := make([]*guest, 0, len(h.Guests))
	for i := range h.Guests {
		g := &guest{f: &h.Guests[i]}
		all = append(all, g)
		if g.f.Definition == "" {
			g.why = "it has no definition"
			continue
		}
		doc, err := domain.Parse([]byte(g.f.Definition))
		if err != nil {
			g.why = err.Error()
			continue
		}
		g.d, g.defined = doc.Guest(), true
		g.vcpus = make([]vcpu, max(0, min(g.d.VCPUs.Current, maxVCPUs)))
		for n := range g.vcpus {
			g.vcpus[n] = vcpu{number: n, pin: pinned(g.d.VCPUs.Set)}
		}
		for _, p := range g.d.Pins {
			if p.ID >= 0 && p.ID < len(g.vcpus) {
				g.vcpus[p.ID].pin = pinned(p.CPUs)
			}
		}
		for _, s := range g.d.Sched {
			for _, n := range pinned(s.VCPUs) {
				if n < len(g.vcpus) {
					g.vcpus[n].policy, g.vcpus[n].priority = policy(s.Policy), s.Priority
				}
			}
		}
	}
	return all
}

// maxVCPUs bounds what a definition may make us allocate.
const maxVCPUs = 4096

// policy is libvirt's word for a scheduling policy as sched(7) has it.
func policy(word string) string {
	switch word {
	case "fifo":
		return "SCHED_FIFO"
	case "rr":
		return "SCHED_RR"
	case "batch":
		return "SCHED_BATCH"
	case "idle":
		return "SCHED_IDLE"
	}
	return ""
}

// pinned is a set of a definition; empty where there is none.
func pinned(text string) setting.CPUSet {
	set, err := domain.ParseSet(text)
	if err != nil {
		return nil
	}
	return setting.CPUs(set...)
}

// scheduled reports whether a vCPU of the guest has a realtime priority.
func (g *guest) scheduled() bool { return slices.ContainsFunc(g.vcpus, vcpu.scheduled) }

// quiet are the vCPUs that want quiet CPUs: those with a realtime priority, all where none has one.
func (g *guest) quiet() []vcpu {
	if !g.scheduled() {
		return g.vcpus
	}
	return slices.DeleteFunc(slices.Clone(g.vcpus), func(c vcpu) bool { return !c.scheduled() })
}

// claims are the CPUs of these vCPUs.
func (g *guest) claims() setting.CPUSet {
	var all setting.CPUSet
	for _, c := range g.quiet() {
		all = all.Or(c.pin)
	}
	return all
}

// pins are the CPUs of all its vCPUs.
func (g *guest) pins() setting.CPUSet {
	var all setting.CPUSet
	for _, c := range g.vcpus {
		all = all.Or(c.pin)
	}
	return all
}

func (g *guest) object(part string) string {
	if part == "" {
		return "guest " + g.f.Name
	}
	return "guest " + g.f.Name + " " + part
}

func (g *guest) vcpuObject(n int) string { return g.object(fmt.Sprintf("vcpu %d", n)) }

// now are the flags of virsh that change a definition, and the guest too where it runs.
func (g *guest) now() string {
	if g.active() {
		return "--config --live"
	}
	return "--config"
}

// thread is the CPUs that a thread of the running guest may use; empty where it is not seen.
func (g *guest) thread(role, number string) setting.CPUSet {
	for _, t := range g.f.Threads {
		if t.Role == role && (number == "" || fmt.Sprint(t.Index) == number) {
			return t.Affinity
		}
	}
	return nil
}

// active reports whether the guest has its QEMU process.
func (g *guest) active() bool { return g.f.Active() }
