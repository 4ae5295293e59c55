package report

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// Domain draws what a definition says about packets and latency: CPUs, memory, NICs, devices.
func Domain(t *Text, state string, g domain.Guest, pending []string) {
	vcpus := words.If(g.VCPUs.Current != g.VCPUs.Max, "%d of ", g.VCPUs.Current) + words.Count(g.VCPUs.Max, "vCPU")
	memory := formatKiB(g.MemoryKiB) + " of " + backingText(g.Backing)
	t.Wrap(t.In(Bold, g.Name)+"  ", words.Join(", ", state, vcpus, memory))
	var rows [][]string
	add := func(name string, values ...string) {
		rows = append(rows, []string{"  " + name, joinDistinct(values...)})
	}
	add("machine", g.Virt, g.Arch, g.Machine)
	add("cpu", cmp.Or(cpuText(g.CPU), "the hypervisor's default model"))
	for _, c := range g.CPU.Cells {
		add(fmt.Sprintf("cell %d", c.ID), "vCPUs "+words.Or(c.CPUs), formatKiB(c.KiB), c.Access)
	}
	add("vcpus", pinsText(g.Pins, g.VCPUs.Set))
	add("emulator", emulatorText(g))
	if g.IOThreads > 0 || len(g.IOThreadPins) > 0 {
		add("iothreads", fmt.Sprintf("%d, %s", g.IOThreads, pinsText(g.IOThreadPins, "")))
	}
	for _, line := range scheduleLines(g.Sched) {
		add("scheduler", line)
	}
	if g.NUMA.Nodes != "" || g.NUMA.Mode != "" || g.NUMA.Placement != "" {
		add("memory", g.NUMA.Mode, g.NUMA.Placement, nodeText(g.NUMA.Nodes))
	}
	for _, c := range g.NUMA.Cells {
		add("memory", fmt.Sprintf("of cell %d:", c.Cell), c.Mode, nodeText(c.Nodes))
	}
	for _, timer := range g.Timers {
		present := map[string]string{"": "as the hypervisor likes", "yes": "present", "no": "absent"}[timer.Present]
		rows = append(rows, []string{"  timer", timer.Name + " " + present})
	}
	for _, n := range g.Interfaces {
		add(fmt.Sprintf("nic %d", n.Index), nicLine(n))
	}
	for _, h := range g.HostDevs {
		add("hostdev", h.Type, h.PCI, words.Either(h.Managed, "managed", "unmanaged"))
	}
	if g.Agent {
		add("agent", "channel of the QEMU guest agent")
	}
	if g.QEMUArgs {
		add("arguments", "has arguments for QEMU of its own (qemu:commandline), which are not looked into")
	}
	t.Table(rows)
	t.WrapIf(len(pending) > 0, t.In(Yellow, "pending: "), "%s effect when the guest restarts: %s",
		words.Count(len(pending), "value takes", "values take"), strings.Join(pending, ", "))
}

// DomainValues draws every value by its path.
func DomainValues(t *Text, values []domain.Value) {
	t.Section("values")
	rows := facts.Map(values, func(v domain.Value) []string { return []string{"  " + v.Path, v.Value} })
	t.Table(rows)
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
		t.Heading(e.Path)
		if e.HasFrom {
			t.Value(Red, "  - ", e.From)
		}
		if e.HasTo {
			t.Value(Green, "  + ", e.To)
		}
	}
	t.LineIf(same > 0 && !verbose, "%s already as wanted (-v shows them)", words.Count(same, "value"))
	t.LineIf(len(edits) == same, "nothing to change")
}

func backingText(b domain.Backing) string {
	locked := words.If(b.Locked, "locked")
	if !b.HugePages {
		return joinDistinct("ordinary pages", locked)
	}
	sizes := words.Each(b.Pages, func(p domain.HugePage) string {
		return formatKiB(p.KiB) + words.If(p.Cells != "", " (cells %s)", p.Cells)
	})
	return joinDistinct("huge pages", strings.Join(sizes, ", "), locked)
}

func cpuText(c domain.CPU) string {
	n := c.Topology
	return joinDistinct(c.Mode, c.Model, words.If(c.Cache != "", "cache %s", c.Cache),
		words.If(n.Sockets > 0, "%d × %d × %d (sockets, cores, threads)", n.Sockets, n.Cores, n.Threads))
}

func pinsText(all []domain.Pin, set string) string {
	if len(all) == 0 {
		return words.Either(set != "", "on CPUs "+set+" together", "not pinned")
	}
	each := words.Each(all, func(p domain.Pin) string { return fmt.Sprintf("%d→%s", p.ID, words.Or(p.CPUs)) })
	return "pinned " + strings.Join(each, " ")
}

func emulatorText(g domain.Guest) string {
	pin := words.Either(g.EmulatorPin != "", "on CPUs "+g.EmulatorPin, "not pinned")
	return pin + words.If(g.EmulatorSched.Policy != "", ", %s", scheduleText(g.EmulatorSched))
}

// scheduleLines puts the vCPUs of one policy together: libvirt writes each on its own.
func scheduleLines(all []domain.Sched) []string {
	var lines []string
	for _, group := range Group(all, scheduleText) {
		text := strings.Join(words.Each(group, func(s domain.Sched) string { return s.VCPUs }), ",")
		if set, err := domain.ParseSet(text); err == nil {
			text = domain.FormatSet(set)
		}
		lines = append(lines, "vCPUs "+text+": "+scheduleText(group[0]))
	}
	return lines
}

func scheduleText(s domain.Sched) string {
	return s.Policy + words.If(s.Priority > 0, " %d", s.Priority)
}

func nodeText(set string) string { return words.If(set != "", "node %s", set) }

func nicLine(n domain.Interface) string {
	number := func(n int, what string) string { return words.Either(n > 0, words.Count(n, what), "") }
	return joinDistinct(n.MAC, n.Type, n.Source, n.PCI, n.Model, n.Driver.Name, number(n.Driver.Queues, "queue"),
		number(n.Driver.RxQueueSize, "rx descriptor"), number(n.Driver.TxQueueSize, "tx descriptor"),
		number(n.RxFrames, "coalesced frame"), words.If(n.MTU > 0, "MTU %d", n.MTU),
		words.If(len(n.VLANs) > 0, "VLAN %s", strings.Trim(fmt.Sprint(n.VLANs), "[]")))
}

// joinDistinct puts the words that are there side by side, each once where it comes twice in a row.
func joinDistinct(parts ...string) string {
	var there []string
	for _, p := range parts {
		if p != "" && (len(there) == 0 || there[len(there)-1] != p) {
			there = append(there, p)
		}
	}
	return strings.Join(there, " ")
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
