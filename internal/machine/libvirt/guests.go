package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Inventory reads libvirt's guests and other QEMU processes, with their threads, into h.Guests. It caches definitions
// in known.
func Inventory(ctx context.Context, m *tree.Tree, h *facts.Host, known *Definitions) {
	guestsWith(ctx, m, h, known, func(q qemu, all []trust.Process, live *domain.Guest) []facts.Thread {
		return guestThreads(m, q, func() []trust.Process { return all }, live)
	})
}

// WithoutThreads reads the guests without their threads.
func WithoutThreads(ctx context.Context, m *tree.Tree, h *facts.Host, known *Definitions) {
	guestsWith(ctx, m, h, known, func(qemu, []trust.Process, *domain.Guest) []facts.Thread { return nil })
}

// guestsWith reads the guests, with the threads that find returns.
func guestsWith(
	ctx context.Context, m *tree.Tree, h *facts.Host, cache *Definitions,
	find func(qemu, []trust.Process, *domain.Guest) []facts.Thread,
) {
	all := trust.Processes(m)
	running := runningGuests(m, h, all)
	findMonitors(m, h, all)
	known := managedGuests(ctx, m, h, cache)
	for i := range known {
		g := &known[i]
		at := slices.IndexFunc(running, func(q qemu) bool { return g.matches(q) })
		if at >= 0 {
			g.fact.PID, g.fact.Resident = running[at].pid, threads.Resident(m, running[at].pid)
			g.fact.Elsewhere = running[at].elsewhere
			placeTaps(&g.fact, running[at])
			g.fact.Threads = find(running[at], all, g.live)
			running = slices.Delete(running, at, at+1)
		}
		h.Guests = append(h.Guests, g.fact)
	}
	names := make(map[string]bool, len(h.Guests)+len(running))
	for g := range facts.Each(h.Guests) {
		names[g.Name] = true
	}
	for _, q := range running {
		q.findTaps(m)
		fact := q.guest()
		if names[fact.Name] {
			fact.Name = q.byPID() // of another user's session
		}
		names[fact.Name] = true
		fact.Threads = find(q, all, nil)
		if n := len(facts.Where(fact.Threads, func(t facts.Thread) bool { return t.Role == "vcpu" })); n > fact.VCPUs {
			fact.VCPUs, fact.MaxVCPUs = n, n // its processors are in a file of -readconfig
		}
		h.Guests = append(h.Guests, fact)
	}
	slices.SortStableFunc(h.Guests, func(a, b facts.Guest) int { return strings.Compare(a.Name, b.Name) })
	nameHarvester(m, h)
	assignOwners(h)
}

// mostUnverified is how many processes that only have the name are listed, and longestClaim how many characters of the
// name they claim: any user can start thousands, with names of any length.
const (
	mostUnverified = 16
	longestClaim   = 64
)

// mostUnmanaged is how many guests without libvirt are looked into: more than a host runs, and what is made of them
// takes seconds.
const mostUnmanaged = 2048

// runningGuests returns the QEMU processes of guests, those that libvirt started first. It adds those that only have
// the name to h.Unverified. Beyond mostUnmanaged, processes that libvirt did not start are counted and not read.
func runningGuests(m *tree.Tree, h *facts.Host, all []trust.Process) []qemu {
	var started, others []qemu
	more := 0
	for _, p := range trust.QEMUs(m, all) {
		if len(others) == mostUnmanaged && !p.OfLibvirt() {
			more++
			continue
		}
		q, ok := readQEMU(m, p)
		switch {
		case !ok:
		case q.doubt != "" && len(h.Unverified) < mostUnverified:
			name := []rune(q.Title())
			h.Unverified = append(h.Unverified, facts.Unverified{PID: p.PID, Comm: p.Name(),
				Guest: string(name[:min(len(name), longestClaim)]), Why: q.doubt})
		case q.doubt != "":
		case q.libvirt:
			started = append(started, q)
		default:
			others = append(others, q)
		}
	}
	if more > 0 {
		h.Unseen = append(h.Unseen, facts.Unseen{What: "guests without libvirt", Part: facts.UnseenGuests,
			Why: fmt.Sprintf("%d are looked into, %d more processes have QEMU's name", mostUnmanaged, more)})
	}
	return append(started, others...)
}

// findMonitors notes the programs that run other virtual machines than QEMU's, once each, in the order of their PIDs.
func findMonitors(m *tree.Tree, h *facts.Host, all []trust.Process) {
	var programs []string
	first, count := map[string]int{}, map[string]int{}
	for _, p := range trust.Monitors(m, all) {
		name := p.Name()
		if count[name]++; count[name] == 1 {
			programs, first[name] = append(programs, name), p.PID
		}
	}
	for _, name := range programs[:min(len(programs), mostUnverified)] {
		h.Unseen = append(h.Unseen, facts.MachinesUnseen(name, count[name], first[name]))
	}
}

// GuestsOf returns the names of running guests by the PID of their QEMU.
func GuestsOf(m *tree.Tree, all []trust.Process) map[int]string {
	guests := map[int]string{}
	for _, q := range runningGuests(m, &facts.Host{}, all) {
		guests[q.pid] = q.Title()
	}
	return guests
}

// assignOwners replaces nil lists, notes what could not be read, and sets the guests of taps and VFs.
func assignOwners(h *facts.Host) {
	taps, functions := map[string]string{}, map[string]string{}
	for i := range h.Guests {
		g := &h.Guests[i]
		if g.State == "running" && g.PID == 0 {
			h.Unseen = append(h.Unseen, facts.ThreadsUnseen(g.Name))
		}
		for _, nic := range g.NICs() {
			if tap := g.TapHere(&nic); tap != "" {
				taps[tap] = g.Name
			}
		}
		for _, address := range g.Hostdevs {
			if _, taken := functions[address]; !taken || g.Active() {
				functions[address] = g.Name
			}
		}
		withoutNil(g)
	}
	// Several definitions may have the same function: it belongs to the guest that runs with it.
	for i := range h.Guests {
		for _, address := range h.Guests[i].Functions {
			functions[address] = h.Guests[i].Name
		}
	}
	h.Guests = tree.OrEmpty(h.Guests)
	for i := range h.Taps {
		if guest, found := taps[h.Taps[i].Name]; found {
			h.Taps[i].Guest = guest
		}
	}
	for i := range h.VFs {
		if guest, found := functions[h.VFs[i].PCI]; found {
			h.VFs[i].Guest = guest
		}
	}
}

// managedGuest is a guest of libvirt.
type managedGuest struct {
	fact facts.Guest
	live *domain.Guest // the definition it runs with; nil if it does not run
}

// matches reports whether a QEMU process is this guest.
func (g *managedGuest) matches(q qemu) bool {
	if g.live == nil {
		return false
	}
	if q.uuid != "" && g.fact.UUID != "" {
		return q.uuid == g.fact.UUID
	}
	return q.name == g.fact.Name
}

// managedGuests reads libvirt's guests and the versions of libvirt and QEMU.
func managedGuests(ctx context.Context, m *tree.Tree, h *facts.Host, cache *Definitions) []managedGuest {
	l, err := Open(m)
	if errors.Is(err, errNoLibvirt) {
		return nil
	}
	stamps := map[string]stamp{}
	for _, file := range m.List(DefinedFolder) {
		name, isXML := strings.CutSuffix(file, ".xml")
		if s, visible := stampOf(m, name); isXML && visible {
			stamps[name] = s
		}
	}
	var found guestList
	if err == nil {
		found, err = l.all(ctx)
	}
	if err != nil {
		h.Unseen = append(h.Unseen, facts.GuestsUnseen(err.Error()))
	}
	h.Unseen = append(h.Unseen, found.Unread...)
	h.KVM.Libvirt, h.KVM.QEMU = found.libvirt, found.qemu
	var list []managedGuest
	for _, guest := range found.Guests {
		g := managedGuest{fact: facts.Guest{Name: guest.Name, Managed: true, State: guest.state}}
		var defined, running *domain.Doc
		if guest.defined != "" {
			if defined, err = domain.Parse([]byte(guest.defined)); err != nil {
				h.Unseen = append(h.Unseen, facts.DefinitionUnseen(guest.Name, err.Error()))
			}
		}
		if guest.Running != "" {
			if running, err = domain.Parse([]byte(guest.Running)); err != nil {
				h.Unseen = append(h.Unseen, facts.Unseen{What: "running definition of guest " + guest.Name,
					Why: err.Error(), Part: facts.UnseenDefinition, Of: guest.Name})
			}
		}
		switch {
		case defined != nil:
			g.fact.Definition = guest.defined
			describeGuest(&g.fact, defined.Guest())
			if s, visible := stamps[guest.Name]; visible {
				cache.remember(guest.Name, defined, s)
			}
		case running != nil:
			describeGuest(&g.fact, running.Guest())
		}
		if running != nil {
			live := running.Guest()
			g.live = &live
			mergeLive(&g.fact, live)
			if defined != nil {
				g.fact.Pending = pendingPaths(running, defined, h.Topology.Online)
			}
		}
		list = append(list, g)
	}
	return list
}

// describeGuest sets a guest's facts from a definition.
func describeGuest(fact *facts.Guest, g domain.Guest) {
	fact.UUID, fact.Machine, fact.CPUMode, fact.Agent = g.UUID, g.Machine, g.CPU.Mode, g.Agent
	owner := facts.OwnerOf(g)
	fact.Owner = &owner
	fact.VCPUs, fact.MaxVCPUs = clamp(g.VCPUs.Current, maxVCPUs), clamp(g.VCPUs.Max, maxVCPUs)
	if threads := g.CPU.Topology.Threads; threads > 1 {
		fact.CoreThreads = clamp(threads, maxVCPUs)
	}
	fact.Memory, fact.Hugepages = g.MemoryKiB<<10, g.Backing.HugePages
	fact.EmulatorPin, fact.MemoryNodes = parseCPUs(g.EmulatorPin), parseCPUs(g.NUMA.Nodes)
	if len(g.Pins) > 0 {
		fact.Pins = make([]setting.CPUSet, fact.MaxVCPUs)
		for _, pin := range g.Pins {
			if pin.ID >= 0 && pin.ID < len(fact.Pins) {
				fact.Pins[pin.ID] = parseCPUs(pin.CPUs)
			}
		}
	}
	for _, nic := range g.Interfaces {
		fact.Interfaces = append(fact.Interfaces, describeNIC(nic))
	}
	fact.Hostdevs = FunctionsOf(g)
}

// FunctionsOf returns the PCI addresses that a definition passes through.
func FunctionsOf(g domain.Guest) []string {
	var all []string
	for _, nic := range g.Interfaces {
		if nic.PCI != "" { // of type hostdev, or from a pool while the guest runs
			all = append(all, nic.PCI)
		}
	}
	for _, device := range g.HostDevs {
		if device.PCI != "" {
			all = append(all, device.PCI)
		}
	}
	return all
}

// maxVCPUs is more than any machine type of QEMU supports (4096 on q35 with KVM since 9.0).
const maxVCPUs = 8192

// clamp limits an unchecked number in a definition to 0 … most, since loops count up to it.
func clamp(n, most int) int { return min(max(n, 0), most) }

func describeNIC(nic domain.Interface) facts.Interface {
	fact := facts.Interface{
		MAC: nic.MAC, Type: nic.Type, Source: nic.Source, Model: nic.Model, Backend: nic.Driver.Name,
		Queues: max(clamp(nic.Driver.Queues, tree.MaxQueues), 1), RxQueueSize: nic.Driver.RxQueueSize,
		TxQueueSize: nic.Driver.TxQueueSize,
		Coalesce:    nic.RxFrames, Function: nic.PCI, Teaming: nic.Teaming, VirtualPort: nic.VirtualPort,
	}
	switch nic.Type {
	case "direct":
		fact.Mode = cmp.Or(nic.SourceMode, "vepa") // docs/formatdomain.rst, "Direct attachment to physical interface"
	case "user", "vhostuser":
		fact.Backend = nic.Backend
	}
	if strings.HasPrefix(nic.Alias, "ua-") { // others are assigned by libvirt for one run
		fact.Alias = nic.Alias
	}
	if nic.Type == "hostdev" {
		fact.Source = nic.PCI
	}
	if len(nic.VLANs) == 1 {
		fact.VLAN = nic.VLANs[0]
	}
	return fact
}

// mergeLive sets the host devices of a running guest's interfaces, and adds interfaces that were plugged in.
func mergeLive(fact *facts.Guest, live domain.Guest) {
	fact.Functions = FunctionsOf(live)
	for _, running := range live.Interfaces {
		at := slices.IndexFunc(fact.Interfaces, func(nic facts.Interface) bool {
			return nic.MAC == running.MAC && nic.Teaming == running.Teaming
		})
		if at >= 0 {
			nic := &fact.Interfaces[at]
			nic.Tap = running.Target
			if nic.Type == "network" {
				nic.Function = running.PCI
			}
			continue
		}
		nic := describeNIC(running)
		nic.Tap = running.Target
		fact.Plugged = append(fact.Plugged, nic)
	}
	for _, pci := range fact.Functions {
		if !slices.Contains(fact.Hostdevs, pci) {
			fact.Hostdevs = append(fact.Hostdevs, pci)
		}
	}
}

// parseCPUs parses a set in libvirt's format ("0-3,^2"); empty if it is malformed.
func parseCPUs(text string) setting.CPUSet {
	set, err := domain.ParseSet(text)
	if err != nil {
		return nil
	}
	return setting.CPUs(set...)
}
