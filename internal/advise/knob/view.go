package knob

import (
	"fmt"
	"slices"

	"mpps/internal/advise/placement"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// View is what knobs see: the host's facts and the goal, indexed by name, and the placement, computed once for all of
// them. It belongs to one audit and one goroutine.
type View struct {
	*facts.Host
	Goal goal.Goal
	Tier goal.Tier

	nics       map[string]*facts.NIC
	bridges    map[string]*facts.Bridge
	taps       map[string]*facts.Tap
	ports      map[string]int // taps by master
	guests     map[string]*facts.Guest
	paths      *reach.Map
	asked      *placement.Ask
	placed     *placement.Result
	vcpus      setting.CPUSet              // see vcpuCPUs
	taken      setting.CPUSet              // see occupied
	lists      setting.CPUSet              // see listsThen
	own        setting.CPUSet              // see guestCPUs
	full       *[2]bool                    // see fullSocket
	onCore     map[int][]string            // see otherOnCore
	spread     map[string][]setting.CPUSet // by NIC and transmit queue
	xpsGood    map[string]bool
	rules      map[string][]string                // by tool: rules that bridged frames traverse
	homes      map[string]map[setting.Address]int // by NIC: the CPU of each interrupt
	homeOf     map[string]map[int]map[int]bool    // by NIC and CPU: the queues whose interrupts have that home
	loose      []string                           // see floaters
	served     map[string]*placement.Serving      // by NIC: see serving
	insides    map[string]*View                   // by guest: its inside as the guest agent reported it
	bystanders map[string]bool                    // see bystander
	within     map[string][]setting.Address       // addresses of readings by object: see readInside
	running    int                                // guests that run
	active     uint64                             // memory of the active guests, in bytes
}

// NewView returns the view of a host's facts for a goal.
func NewView(h *facts.Host, g goal.Goal) *View {
	v := &View{
		Host: h, Goal: g, Tier: g.Tier(),
		nics:    make(map[string]*facts.NIC, len(h.NICs)),
		bridges: make(map[string]*facts.Bridge, len(h.Bridges)),
		taps:    make(map[string]*facts.Tap, len(h.Taps)),
		ports:   map[string]int{},
		guests:  make(map[string]*facts.Guest, len(h.Guests)),
		paths:   reach.Of(h),
		spread:  map[string][]setting.CPUSet{},
		xpsGood: map[string]bool{},
		rules:   map[string][]string{},
		homes:   map[string]map[setting.Address]int{},
		homeOf:  map[string]map[int]map[int]bool{},
		served:  map[string]*placement.Serving{},
		insides: map[string]*View{},
	}
	for i := len(h.NICs) - 1; i >= 0; i-- { // the first of the same name wins
		v.nics[h.NICs[i].Name] = &h.NICs[i]
	}
	for i := range h.Bridges {
		v.bridges[h.Bridges[i].Name] = &h.Bridges[i]
	}
	for i := range h.Taps {
		v.taps[h.Taps[i].Name] = &h.Taps[i]
		v.ports[h.Taps[i].Master]++
	}
	for i := len(h.Guests) - 1; i >= 0; i-- {
		g := &h.Guests[i]
		v.guests[g.Name] = g
		if g.State == "running" {
			v.running++
		}
		if g.Active() {
			v.active += g.Memory
		}
	}
	return v
}

// ask returns the placement problem, built at the first call.
func (v *View) ask() placement.Ask {
	if v.asked == nil {
		ask := placement.From(v.Host, v.Goal)
		v.asked = &ask
	}
	return *v.asked
}

// Placement returns which CPUs serve what, computed at the first call.
func (v *View) Placement() *placement.Result {
	if v.placed == nil {
		v.placed = placement.Place(v.ask())
	}
	return v.placed
}

// WithPlacement returns the view with a placement that was computed for the same host and goal; nil: for none yet.
func (v *View) WithPlacement(placed *placement.Result) *View {
	v.placed = placed
	return v
}

// rulesFor returns the rules that bridged frames traverse because of one tool (iptables, ip6tables, arptables).
func (v *View) rulesFor(tool string) []string {
	rules, known := v.rules[tool]
	if !known {
		rules = bridgedRules(v.Host, tool)
		v.rules[tool] = rules
	}
	return rules
}

// nic returns the NIC of an address, or advice that says why knobs leave it alone.
func (v *View) nic(a setting.Address) (*facts.NIC, Advice, bool) {
	return v.nicByName(a.Object())
}

func (v *View) nicByName(name string) (*facts.NIC, Advice, bool) {
	n := v.nics[name]
	switch {
	case n == nil:
		return nil, Skips("no such NIC"), false
	case !n.Up:
		return nil, Skips(name + " is down"), false
	case n.PhysFn != "":
		return nil, Skips(name + " is a virtual function of " + n.PhysFn), false
	}
	switch v.paths.Carries(name) {
	case facts.Yes:
		return n, Advice{}, true
	case facts.No:
		if v.paths.PassesFunctions(name) {
			return nil, Skips("packets of the functions that guests have pass no queue of " + name), false
		}
		return nil, Skips(name + " carries no guest's packets: all their paths are known, and none passes it"), false
	}
	if v.Role() == facts.RoleUnseen {
		return nil, Unsure("not known whether " + name + " carries guests' packets: guests could not be seen"), false
	}
	return nil, Unsure("not known whether " + name + " carries guests' packets: " + v.paths.Unsure()), false
}

// forNIC returns the Want of a knob that advises on a NIC.
func forNIC(
	want func(v *View, n *facts.NIC, a setting.Address) Advice,
) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		n, advice, ok := v.nic(a)
		if !ok {
			return advice
		}
		return want(v, n, a)
	}
}

// onNIC marks advice on a NIC that is the operator's way in: a change there can cut the connection.
func onNIC(n *facts.NIC, advice Advice) Advice {
	if n.Management != "" {
		advice.Risk = goal.Connectivity
		if advice.Warning == "" {
			advice.Warning = n.Name + " is the operator's way in (" + n.Management + ")"
		}
	}
	return advice
}

// guest returns the guest of an address, or advice that says why knobs leave it alone.
func (v *View) guest(a setting.Address) (*facts.Guest, Advice, bool) { return v.judged(a, false) }

// judged returns the guest of an address, or advice that says why it is left alone. One that libvirt does not know is
// judged where its threads say enough.
func (v *View) judged(a setting.Address, byThreads bool) (*facts.Guest, Advice, bool) {
	g := v.guests[a.Object()]
	switch {
	case g == nil:
		return nil, Skips("no such guest"), false
	case !v.Goal.ForGuest(g.Name):
		return nil, Skips("the goal is for guest " + v.Goal.Guest), false
	case v.bystander(g.Name):
		return nil, Skips(placement.Bystander), false
	case !g.Managed && !byThreads:
		return nil, Skips(g.Name + " is a QEMU process that libvirt does not know: it has no " +
			"definition to change"), false
	case g.Migrates():
		return nil, migrating(g), false
	case v.Goal.Guest == "" && g.State != "running":
		return nil, Skips(fmt.Sprintf("%s is %s: name it with --guest to tune it", g.Name, g.State)), false
	}
	return g, Advice{}, true
}

// migrating says why a guest that is being migrated is left alone.
func migrating(g *facts.Guest) Advice {
	return Unsure(fmt.Sprintf("%s is being migrated (%s): nothing of it is judged or planned until that is over, then "+
		"on the host where it runs", g.Name, g.Job))
}

// bystander reports whether a guest is none that a goal of latency is for, although it names none.
func (v *View) bystander(name string) bool {
	if v.Tier != goal.Realtime {
		return false
	}
	if v.bystanders == nil {
		v.bystanders = map[string]bool{}
		for _, g := range v.ask().Guests {
			v.bystanders[g.Name] = v.bystanders[g.Name] || g.Shared
		}
	}
	return v.bystanders[name]
}

// forGuest returns the Want of a knob that advises on a guest.
func forGuest(
	want func(v *View, g *facts.Guest, a setting.Address) Advice,
) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		return want(v, g, a)
	}
}

// iface returns a guest's interface by MAC, nil if there is none.
func iface(g *facts.Guest, mac string) *facts.Interface {
	return facts.Find(g.Interfaces, func(i *facts.Interface) bool { return i.MAC == mac })
}

// number returns the number that a reading begins with; false if there is none.
func number(r setting.Reading) (int64, bool) {
	if r.State != setting.Known {
		return 0, false
	}
	var n int64
	if _, err := fmt.Sscanf(r.Value, "%d", &n); err != nil {
		return 0, false
	}
	return n, true
}

// watchHint says how to observe losses. Those of a snapshot are observed on the host where it is taken.
const watchHint = "'mpps audit --interval 2s' under load, or 'mpps snapshot --interval 2s' there"

// noInterval returns Unsure and true if losses were not observed over an interval.
func (v *View) noInterval() (Advice, bool) {
	if v.Interval == nil || v.Interval.Seconds <= 0 {
		return Unsure("decided by what is lost while watching, not by totals since boot: " + watchHint), true
	}
	return Advice{}, false
}

// overInterval returns the observed time in words: "over 2 s".
func (v *View) overInterval() string { return fmt.Sprintf("over %.3g s", v.Interval.Seconds) }

// underLoad reports whether a device received enough packets in the interval to judge it under load: a hundredth of the
// target, at least 1000 per second.
func (v *View) underLoad(device string) bool {
	if v.Interval == nil || v.Interval.Seconds <= 0 {
		return false
	}
	packets, _ := v.Interval.Counter(device, "rx_packets")
	return float64(packets)/v.Interval.Seconds >= max(1000, v.Goal.PPS/100)
}

// Bounds of lists, so that a made-up snapshot cannot make them endless: no NIC has 4096 queues, and no host 200,000
// addresses of one knob.
const (
	maxQueues    = 4096
	maxAddresses = 200_000
)

func tiers(t ...goal.Tier) []goal.Tier { return t }

// viaKernel returns the tiers in which packets pass bridge, virtio and vhost.
func viaKernel() []goal.Tier { return tiers(goal.Standard, goal.Aggressive) }

// eachNIC lists addresses of every NIC that passes a test.
func eachNIC(has func(n *facts.NIC) bool, at func(n *facts.NIC) []setting.Address) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for i := range h.NICs {
			if has(&h.NICs[i]) {
				all = append(all, at(&h.NICs[i])...)
			}
		}
		return all
	}
}

// eachGuest lists addresses of every guest that passes a test.
func eachGuest(
	has func(g *facts.Guest) bool, at func(g *facts.Guest) []setting.Address,
) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for i := range h.Guests {
			if len(all) < maxAddresses && has(&h.Guests[i]) {
				all = append(all, at(&h.Guests[i])...)
			}
		}
		return all
	}
}

func anyGuest(*facts.Guest) bool      { return true }
func managed(g *facts.Guest) bool     { return g.Managed }
func passthrough(g *facts.Guest) bool { return len(g.Hostdevs) > 0 }

// guestFact lists one fact about a guest.
func guestFact(what string) func(g *facts.Guest) []setting.Address {
	return func(g *facts.Guest) []setting.Address {
		return []setting.Address{setting.Of(setting.Fact, g.Name, what)}
	}
}

// eachInDefinition lists values of a guest's definition.
func eachInDefinition(paths ...string) func(g *facts.Guest) []setting.Address {
	return func(g *facts.Guest) []setting.Address {
		return facts.Map(paths, func(path string) setting.Address { return setting.Of(setting.Domain, g.Name, path) })
	}
}

// eachCPU lists a sysfs file of every online CPU; %d in the path stands for its number.
func eachCPU(path string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, c := range h.Topology.CPUs {
			if c.Online {
				all = append(all, setting.Of(setting.Sysfs, fmt.Sprintf(path, c.ID)))
			}
		}
		return all
	}
}

// onlyNIC lists one address below a NIC's name.
func onlyNIC(kind setting.Kind, rest string) func(n *facts.NIC) []setting.Address {
	return func(n *facts.NIC) []setting.Address { return []setting.Address{setting.Of(kind, n.Name, rest)} }
}

// onPaths lists addresses only on hosts that can have paths of a kind.
func onPaths(kind reach.Kind, at func(h *facts.Host) []setting.Address) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		if !kind.Present(h) {
			return nil
		}
		return at(h)
	}
}

// fixed lists addresses that do not depend on the host.
func fixed(all ...setting.Address) func(*facts.Host) []setting.Address {
	return func(*facts.Host) []setting.Address { return slices.Clone(all) }
}

// guestCPUs returns the CPUs that only vCPUs should use: those isolated now or from the next boot on, and those that
// the user named, without those of poll-mode threads, or else those that the vCPUs of the goal's guests have or are to
// have, one by one, for a wake-up latency with the other threads of their cores; computed at the first call.
func (v *View) guestCPUs() setting.CPUSet {
	if v.own == nil {
		v.own = append(setting.CPUSet{}, v.guestSet()...)
	}
	return v.own
}

func (v *View) guestSet() setting.CPUSet {
	if set := v.setAside().Minus(v.ask().Taken); len(set) > 0 {
		if v.Tier == goal.Realtime && v.floating() == nil { // boot.isolcpus adds these
			set = set.Or(v.listsThen()).Minus(v.ask().Taken)
		}
		return set
	}
	var set setting.CPUSet
	for _, g := range v.Placement().Guests {
		if v.Goal.ForGuest(g.Name) && !slices.Contains(v.floaters(), g.Name) {
			set = set.Or(g.VCPUSet())
		}
	}
	if v.Tier == goal.Realtime {
		set = set.Or(v.spareSiblings(set))
	}
	return set
}

// noSplit says that no CPUs are known to be the guests'.
const noSplit = "no CPU is isolated, and none is a guest's alone: isolate some (isolcpus=), or name them with --cpus"

// forCPUSplit returns the Want of a knob that needs to know which CPUs are the guests' and which the host's own. The
// cores of poll-mode threads are neither.
func forCPUSplit(
	want func(v *View, guests, host setting.CPUSet, a setting.Address) Advice,
) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		all, polled := v.guestCPUs(), v.ask().Taken
		guests, host := all.Minus(polled), v.Topology.Online.Minus(all).Minus(polled)
		switch {
		case len(guests) == 0:
			return Unsure(noSplit)
		case len(host) == 0:
			return Unsure("no CPU is left for the host, or the CPUs that are online are not known")
		}
		return want(v, guests, host, a)
	}
}

// forGuestCPU returns the Want of a knob that advises on a file of eachCPU, for the guests' CPUs only.
func forGuestCPU(path string, want func(v *View, a setting.Address) Advice) func(*View, setting.Address) Advice {
	return forCPUSplit(func(v *View, guests, _ setting.CPUSet, a setting.Address) Advice {
		var cpu int
		if _, err := fmt.Sscanf(a.Path, path, &cpu); err != nil || !guests.Has(cpu) {
			return Skips("not a guest's CPU")
		}
		return want(v, a)
	})
}

// inGuest reports whether the host is a virtual machine itself.
func (v *View) inGuest() bool { return v.Virtual != "" }

// cpusAt returns the CPUs read at an address; false if they are unknown or absent.
func (v *View) cpusAt(a setting.Address) (setting.CPUSet, bool) {
	r := v.Readings.At(a)
	set, err := setting.ParseCPUs(r.Value)
	return set, r.State == setting.Known && err == nil
}

// avoids reports whether the CPUs read at an address include none of the given ones.
func (v *View) avoids(a setting.Address, cpus setting.CPUSet) bool {
	set, known := v.cpusAt(a)
	return known && len(set.And(cpus)) == 0
}
