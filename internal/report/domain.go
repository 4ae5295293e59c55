package report

import (
	"fmt"
	"strings"

	"mpps/internal/domain"
)

// Domain draws what a definition says about packets and latency: CPUs, memory, NICs, devices.
func Domain(t *Text, state string, g domain.Guest, pending []string) {
	head := fmt.Sprintf("%s, %s of %s", cpusOf(g.VCPUs), formatKiB(g.MemoryKiB), backing(g.Backing))
	if state != "" {
		head = state + ", " + head
	}
	t.Wrapped(t.In(Bold, g.Name)+"  ", head)
	rows := [][]string{{"machine", join(g.Virt, g.Arch, g.Machine)}, {"cpu", guestCPU(g.CPU)}}
	for _, c := range g.CPU.Cells {
		rows = append(rows, []string{fmt.Sprintf("cell %d", c.ID), join("vCPUs "+orNone(c.CPUs), formatKiB(c.KiB), c.Access)})
	}
	rows = append(rows, []string{"vcpus", pins(g.Pins, g.VCPUs.Set)}, []string{"emulator", emulator(g)})
	if g.IOThreads > 0 || len(g.IOThreadPins) > 0 {
		rows = append(rows, []string{"iothreads", fmt.Sprintf("%d, %s", g.IOThreads, pins(g.IOThreadPins, ""))})
	}
	for _, line := range schedules(g.Sched) {
		rows = append(rows, []string{"scheduler", line})
	}
	if g.NUMA.Nodes != "" || g.NUMA.Mode != "" || g.NUMA.Placement != "" {
		rows = append(rows, []string{"memory", join(g.NUMA.Mode, g.NUMA.Placement, node(g.NUMA.Nodes))})
	}
	for _, c := range g.NUMA.Cells {
		rows = append(rows, []string{"memory", join(fmt.Sprintf("of cell %d:", c.Cell), c.Mode, node(c.Nodes))})
	}
	for _, timer := range g.Timers {
		rows = append(rows, []string{"timer", timer.Name + " " + map[string]string{"": "as the hypervisor likes", "yes": "present", "no": "absent"}[timer.Present]})
	}
	for _, n := range g.Interfaces {
		rows = append(rows, []string{fmt.Sprintf("nic %d", n.Index), nicLine(n)})
	}
	for _, h := range g.HostDevs {
		managed := "unmanaged"
		if h.Managed {
			managed = "managed"
		}
		rows = append(rows, []string{"hostdev", join(h.Type, h.PCI, managed)})
	}
	if g.Agent {
		rows = append(rows, []string{"agent", "channel of the QEMU guest agent"})
	}
	if g.QEMUArgs {
		rows = append(rows, []string{"arguments", "has arguments for QEMU of its own (qemu:commandline), which are not looked into"})
	}
	t.Table(indented(rows))
	if len(pending) > 0 {
		t.Wrapped(t.In(Yellow, "pending: "), count(len(pending), "value takes", "values take")+" effect when the guest is started anew: "+strings.Join(pending, ", "))
	}
}

// DomainValues draws every value by its path.
func DomainValues(t *Text, values []domain.Value) {
	t.Blank()
	t.Heading("values")
	rows := make([][]string, 0, len(values))
	for _, v := range values {
		rows = append(rows, []string{v.Path, v.Value})
	}
	t.Table(indented(rows))
}

// DomainEdits draws edits as a diff.
func DomainEdits(t *Text, edits []domain.Edit, verbose bool) {
	same := 0
	for _, e := range edits {
		if e.From == e.To && e.HasFrom == e.HasTo {
			if same++; !verbose {
				continue
			}
		}
		t.Line("%s", t.In(Bold, e.Path))
		if e.HasFrom {
			t.Value(Red, "  - ", e.From)
		}
		if e.HasTo {
			t.Value(Green, "  + ", e.To)
		}
	}
	if same > 0 && !verbose {
		t.Line("%s already as wanted (-v shows them)", count(same, "value"))
	}
	if len(edits) == same {
		t.Line("nothing to change")
	}
}

func indented(rows [][]string) [][]string {
	for _, r := range rows {
		r[0] = "  " + r[0]
	}
	return rows
}

func cpusOf(v domain.VCPUs) string {
	if v.Current != v.Max {
		return fmt.Sprintf("%d of %s", v.Current, count(v.Max, "vCPU"))
	}
	return count(v.Max, "vCPU")
}

func backing(b domain.Backing) string {
	if !b.HugePages {
		return join("ordinary pages", has(b.Locked, "locked"))
	}
	var sizes []string
	for _, p := range b.Pages {
		size := formatKiB(p.KiB)
		if p.Cells != "" {
			size += " (cells " + p.Cells + ")"
		}
		sizes = append(sizes, size)
	}
	return join("huge pages", strings.Join(sizes, ", "), has(b.Locked, "locked"))
}

func guestCPU(c domain.CPU) string {
	topology := ""
	if c.Topology.Sockets > 0 {
		topology = fmt.Sprintf("%d × %d × %d (sockets, cores, threads)", c.Topology.Sockets, c.Topology.Cores, c.Topology.Threads)
	}
	cache := ""
	if c.Cache != "" {
		cache = "cache " + c.Cache
	}
	if line := join(c.Mode, c.Model, cache, topology); line != "" {
		return line
	}
	return "the hypervisor's default model"
}

func pins(all []domain.Pin, set string) string {
	if len(all) == 0 {
		if set != "" {
			return "on CPUs " + set + " together"
		}
		return "not pinned"
	}
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = fmt.Sprintf("%d→%s", p.ID, orNone(p.CPUs))
	}
	return "pinned " + strings.Join(words, " ")
}

func emulator(g domain.Guest) string {
	line := "not pinned"
	if g.EmulatorPin != "" {
		line = "on CPUs " + g.EmulatorPin
	}
	if g.EmulatorSched.Policy != "" {
		line += ", " + schedule(g.EmulatorSched)
	}
	return line
}

// schedules puts the vCPUs of one policy together: libvirt writes each on its own.
func schedules(all []domain.Sched) []string {
	var order []string
	of := map[string][]string{}
	for _, s := range all {
		how := schedule(s)
		if of[how] == nil {
			order = append(order, how)
		}
		of[how] = append(of[how], s.VCPUs)
	}
	for i, how := range order {
		set, err := domain.ParseSet(strings.Join(of[how], ","))
		who := domain.FormatSet(set)
		if err != nil {
			who = strings.Join(of[how], ",")
		}
		order[i] = "vCPUs " + who + ": " + how
	}
	return order
}

func schedule(s domain.Sched) string {
	if s.Priority > 0 {
		return fmt.Sprintf("%s %d", s.Policy, s.Priority)
	}
	return s.Policy
}

func node(set string) string {
	if set == "" {
		return ""
	}
	return "node " + set
}

func nicLine(n domain.Interface) string {
	parts := []string{n.MAC, n.Type, n.Source, n.PCI, n.Model, n.Driver.Name}
	for _, number := range []struct {
		is   int
		what string
	}{{n.Driver.Queues, "queue"}, {n.Driver.RxQueueSize, "rx descriptor"}, {n.Driver.TxQueueSize, "tx descriptor"}, {n.RxFrames, "coalesced frame"}} {
		if number.is > 0 {
			parts = append(parts, count(number.is, number.what))
		}
	}
	if n.MTU > 0 {
		parts = append(parts, fmt.Sprintf("MTU %d", n.MTU))
	}
	if len(n.VLANs) > 0 {
		parts = append(parts, "VLAN "+strings.Trim(fmt.Sprint(n.VLANs), "[]"))
	}
	return join(parts...)
}

// join puts words that are there beside each other.
func join(words ...string) string {
	var there []string
	for _, w := range words {
		if w != "" && (len(there) == 0 || there[len(there)-1] != w) {
			there = append(there, w)
		}
	}
	return strings.Join(there, " ")
}

func has(is bool, word string) string {
	if is {
		return word
	}
	return ""
}

func orNone(set string) string {
	if set == "" {
		return "none"
	}
	return set
}

// formatKiB writes an amount of memory in the largest unit that it fills.
func formatKiB(kib uint64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && kib > 0 && kib%1024 == 0 {
		kib, i = kib/1024, i+1
	}
	return fmt.Sprintf("%d %s", kib, units[i])
}
