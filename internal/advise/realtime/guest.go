package realtime

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// guest is a guest and its parsed definition.
type guest struct {
	f        *facts.Guest
	d        domain.Guest
	defined  bool   // d was read
	why      string // it could not be
	vcpus    []vcpu
	realtime bool // the quiet CPUs are for it
}

// vcpu is a vCPU as defined.
type vcpu struct {
	number   int
	pin      setting.CPUSet // empty: it may run anywhere
	policy   string         // as in sched(7); empty: SCHED_OTHER
	priority int
}

// realtimePolicy reports whether a scheduling policy has realtime priorities.
func realtimePolicy(policy string) bool { return policy == "SCHED_FIFO" || policy == "SCHED_RR" }

func (c vcpu) scheduled() bool { return realtimePolicy(c.policy) }

// definitions parses the definitions of all guests. A guest that libvirt does not know only has threads.
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
			g.vcpus[n] = vcpu{number: n, pin: parseSet(g.d.VCPUs.Set)}
		}
		for _, p := range g.d.Pins {
			if p.ID >= 0 && p.ID < len(g.vcpus) {
				g.vcpus[p.ID].pin = parseSet(p.CPUs)
			}
		}
		for _, s := range g.d.Sched {
			for _, n := range parseSet(s.VCPUs) {
				if n < len(g.vcpus) {
					g.vcpus[n].policy, g.vcpus[n].priority = schedPolicy[s.Policy], s.Priority
				}
			}
		}
	}
	return all
}

// maxVCPUs bounds what a definition can make us allocate.
const maxVCPUs = 4096

// schedPolicy maps libvirt's scheduling policies to those of sched(7).
var schedPolicy = map[string]string{
	"fifo": "SCHED_FIFO", "rr": "SCHED_RR", "batch": "SCHED_BATCH", "idle": "SCHED_IDLE",
}

// parseSet parses a set of CPUs or nodes in a definition; empty if it is not valid.
func parseSet(text string) setting.CPUSet {
	set, err := domain.ParseSet(text)
	if err != nil {
		return nil
	}
	return setting.CPUs(set...)
}

// scheduled reports whether a vCPU of the guest has a realtime priority.
func (g *guest) scheduled() bool { return slices.ContainsFunc(g.vcpus, vcpu.scheduled) }

// quietVCPUs returns the vCPUs that need quiet CPUs: those with a realtime priority, or all if none has one.
func (g *guest) quietVCPUs() []vcpu {
	return words.Either(g.scheduled(), facts.Where(g.vcpus, vcpu.scheduled), g.vcpus)
}

// quietCPUs returns the CPUs that quietVCPUs are pinned to.
func (g *guest) quietCPUs() setting.CPUSet { return pins(g.quietVCPUs()) }

// pinnedCPUs returns the CPUs that all its vCPUs are pinned to.
func (g *guest) pinnedCPUs() setting.CPUSet { return pins(g.vcpus) }

func pins(vcpus []vcpu) setting.CPUSet {
	var all setting.CPUSet
	for _, c := range vcpus {
		all = all.Or(c.pin)
	}
	return all
}

// object names a part of the guest, or the guest itself if part is empty.
func (g *guest) object(part string) string {
	return strings.TrimSpace("guest " + g.f.Name + " " + part)
}

func (g *guest) vcpuObject(n int) string { return g.object(fmt.Sprintf("vcpu %d", n)) }

// virshFlags returns the flags of virsh that change the definition and, if it runs, the guest.
func (g *guest) virshFlags() string { return "--config" + words.If(g.active(), " --live") }

// threadAffinity returns the CPUs that a thread of the running guest may use; empty if it is unknown.
func (g *guest) threadAffinity(role, number string) setting.CPUSet {
	for _, t := range g.f.Threads {
		if t.Role == role && (number == "" || fmt.Sprint(t.Index) == number) {
			return t.Affinity
		}
	}
	return nil
}

// active reports whether the guest has its QEMU process.
func (g *guest) active() bool { return g.f.Active() }
