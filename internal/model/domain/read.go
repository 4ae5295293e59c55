package domain

import (
	"slices"
	"strconv"
	"strings"
)

// Guest summarizes the document, edits included.
func (d *Doc) Guest() Guest {
	r := &reader{doc: d}
	root := d.root
	g := Guest{
		Name: root.first("name").text(), UUID: strings.ToLower(root.first("uuid").text()), Virt: root.get("type"),
		ID: r.number(root, "domain", "id"), Emulator: root.first("devices", "emulator").text(),
		Arch: root.first("os", "type").get("arch"), Machine: root.first("os", "type").get("machine"),
		QEMUArgs: slices.ContainsFunc(root.elements(), isCommandLine),
	}
	r.vcpus(&g)
	g.MemoryKiB = r.memory(root, "memory")
	g.CurrentKiB = r.memory(root, "currentMemory")
	g.LaunchSecurity = root.first("launchSecurity").get("type")
	if g.HardLimitKiB = r.memory(root.first("memtune"), "hard_limit"); g.HardLimitKiB >= unlimitedKiB {
		g.HardLimitKiB = 0
	}
	g.Backing = r.backing(root.first("memoryBacking"))
	g.CPU = r.cpu(root.first("cpu"))
	r.cputune(&g, root.first("cputune"))
	g.NUMA = r.numatune(root.first("numatune"))
	for i, e := range d.interfaces().all {
		g.Interfaces = append(g.Interfaces, r.nic(i, e))
	}
	for _, devices := range root.all("devices") {
		for _, e := range devices.all("hostdev") {
			g.HostDevs = append(g.HostDevs, r.hostdev(e))
		}
		for _, e := range devices.all("channel") {
			g.Agent = g.Agent || e.first("target").get("name") == "org.qemu.guest_agent.0"
		}
	}
	for _, e := range root.first("clock").all("timer") {
		g.Timers = append(g.Timers, Timer{Name: e.get("name"), Present: e.get("present")})
	}
	g.Marks, g.System = r.marks(root), systemInfo(root)
	g.Unclear = r.unclear
	return g
}

// unlimitedKiB means no memory limit (libvirt include/libvirt/libvirt-domain.h, VIR_DOMAIN_MEMORY_PARAM_UNLIMITED).
const unlimitedKiB = 1<<53 - 1

// isCommandLine reports whether an element is commandline in libvirt's QEMU name space, whatever the prefix.
func isCommandLine(e *element) bool {
	_, name, prefixed := strings.Cut(e.name, ":")
	return prefixed && name == "commandline"
}

// reader collects what it cannot understand instead of failing: one odd value must not hide the rest of a guest.
type reader struct {
	doc     *Doc
	unclear []Misstatement
}

func (r *reader) addUnclear(where, found string) {
	r.unclear = append(r.unclear, Misstatement{Where: where, Found: clip(found)})
}

// number returns an attribute, 0 if it is absent or unclear.
func (r *reader) number(e *element, where, name string) int {
	n, _ := strconv.Atoi(r.attr(e, where, name, canonInt))
	return n
}

// set returns an attribute that is a set of numbers, in canonical form.
func (r *reader) set(e *element, where, name string) string {
	return r.attr(e, where, name, canonSet)
}

func (r *reader) attr(e *element, where, name string, canon func(string) (string, bool)) string {
	a := e.attr(name)
	if a == nil {
		return ""
	}
	return r.canonical(where+" "+name, decode(a.raw), canon)
}

// canonical returns the canonical form of a text, "" if it is unclear.
func (r *reader) canonical(where, text string, canon func(string) (string, bool)) string {
	v, ok := canon(text)
	if !ok {
		r.addUnclear(where, text)
		return ""
	}
	return v
}

func (r *reader) vcpus(g *Guest) {
	e := r.doc.root.first("vcpu")
	g.VCPUs = VCPUs{Max: 1, Placement: e.get("placement"), Set: r.set(e, "vcpu", "cpuset")}
	if e != nil {
		g.VCPUs.Max = r.count(e)
	}
	g.VCPUs.Current = g.VCPUs.Max
	if e.attr("current") != nil {
		g.VCPUs.Current = r.number(e, "vcpu", "current")
	}
	if e := r.doc.root.first("iothreads"); e != nil {
		g.IOThreads = r.count(e)
	}
}

func (r *reader) count(e *element) int {
	n, _ := strconv.Atoi(r.canonical(e.name, e.text(), canonInt))
	return n
}

// memory reads an element such as <memory unit='GiB'>16</memory>.
func (r *reader) memory(parent *element, name string) uint64 {
	e := parent.first(name)
	if e == nil {
		return 0
	}
	return r.kib(e.text(), e.get("unit"), name)
}

func (r *reader) kib(number, unit, where string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
	kib, ok := scaleKiB(n, strings.TrimSpace(unit))
	if err != nil || !ok {
		r.addUnclear(where, strings.TrimSpace(number+" "+unit))
		return 0
	}
	return kib
}

func (r *reader) backing(e *element) Backing {
	b := Backing{
		HugePages: e.first("hugepages") != nil, NoSharePages: e.first("nosharepages") != nil,
		Locked: e.first("locked") != nil,
		Source: e.first("source").get("type"), Access: e.first("access").get("mode"),
		Allocation: e.first("allocation").get("mode"),
	}
	for _, p := range e.first("hugepages").all("page") {
		b.Pages = append(b.Pages, HugePage{KiB: r.kib(p.get("size"), p.get("unit"), "hugepages page"),
			Cells: r.set(p, "hugepages page", "nodeset")})
	}
	return b
}

func (r *reader) cpu(e *element) CPU {
	c := CPU{Mode: e.get("mode"), Model: e.first("model").text(), Cache: e.first("cache").get("mode")}
	if t := e.first("topology"); t != nil {
		c.Topology = Topology{Sockets: r.number(t, "topology", "sockets"), Dies: r.number(t, "topology", "dies"),
			Clusters: r.number(t, "topology", "clusters"), Cores: r.number(t, "topology", "cores"),
			Threads: r.number(t, "topology", "threads")}
	}
	for i, cell := range e.first("numa").all("cell") {
		id := i // libvirt counts cells without an id in order
		if cell.attr("id") != nil {
			id = r.number(cell, "numa cell", "id")
		}
		c.Cells = append(c.Cells, Cell{ID: id, CPUs: r.set(cell, "numa cell", "cpus"),
			Access: cell.get("memAccess"),
			KiB:    r.kib(cell.get("memory"), cell.get("unit"), "numa cell memory")})
	}
	return c
}

func (r *reader) cputune(g *Guest, e *element) {
	for _, p := range e.all("vcpupin") {
		g.Pins = append(g.Pins, Pin{ID: r.number(p, "vcpupin", "vcpu"), CPUs: r.set(p, "vcpupin", "cpuset")})
	}
	for _, p := range e.all("iothreadpin") {
		g.IOThreadPins = append(g.IOThreadPins, Pin{ID: r.number(p, "iothreadpin", "iothread"),
			CPUs: r.set(p, "iothreadpin", "cpuset")})
	}
	g.EmulatorPin = r.set(e.first("emulatorpin"), "emulatorpin", "cpuset")
	for _, s := range e.all("vcpusched") {
		g.Sched = append(g.Sched, Sched{VCPUs: r.set(s, "vcpusched", "vcpus"), Policy: s.get("scheduler"),
			Priority: r.number(s, "vcpusched", "priority")})
	}
	if s := e.first("emulatorsched"); s != nil {
		g.EmulatorSched = Sched{Policy: s.get("scheduler"), Priority: r.number(s, "emulatorsched", "priority")}
	}
}

func (r *reader) numatune(e *element) NUMA {
	m := e.first("memory")
	n := NUMA{Mode: m.get("mode"), Nodes: r.set(m, "numatune memory", "nodeset"), Placement: m.get("placement")}
	for _, c := range e.all("memnode") {
		n.Cells = append(n.Cells, MemNode{Cell: r.number(c, "memnode", "cellid"), Mode: c.get("mode"),
			Nodes: r.set(c, "memnode", "nodeset")})
	}
	return n
}

func (r *reader) nic(index int, e *element) Interface {
	d := r.doc
	source, where := e.first("source"), "interface "+strconv.Itoa(index)
	n := Interface{
		Index: index, Path: "interface/" + d.interfaces().key(index), Alias: e.first("alias").get("name"),
		MAC:  d.interfaces().macs[index],
		Type: e.get("type"), SourceMode: source.get("mode"), Bridge: source.get("bridge"),
		Target: e.first("target").get("dev"), Model: e.first("model").get("type"),
		MTU: r.number(e.first("mtu"), where+" mtu", "size"), LinkState: e.first("link").get("state"),
		RxFrames: r.number(e.first("coalesce", "rx", "frames"), where+" coalesce", "max"),
		Trunk:    e.first("vlan").get("trunk") == "yes",
		Backend:  e.first("backend").get("type"), VirtualPort: e.first("virtualport").get("type"),
	}
	for _, name := range []string{"network", "bridge", "dev", "path", "address", "name", "switchid"} {
		if n.Source = source.get(name); n.Source != "" {
			break
		}
	}
	if a := source.first("address"); a != nil && n.Type == "hostdev" {
		n.PCI = r.pci(a, where)
	}
	// only in status files; dumpxml shows it in place of the network
	if actual := e.first("actual"); actual.get("type") == "hostdev" {
		if a := actual.first("source", "address"); a != nil {
			n.PCI = r.pci(a, where)
		}
	}
	n.Teaming, n.Persistent = e.first("teaming").get("type"), e.first("teaming").get("persistent")
	if m := e.first("mac"); m != nil && n.MAC == "" {
		r.addUnclear(where+" mac", m.get("address"))
	}
	if drv := e.first("driver"); drv != nil {
		where += " driver"
		n.Driver = Driver{Name: drv.get("name"), Queues: r.number(drv, where, "queues"),
			RxQueueSize: r.number(drv, where, "rx_queue_size"), TxQueueSize: r.number(drv, where, "tx_queue_size"),
			Packed: drv.get("packed") == "on", Off: switchedOff(drv)}
	}
	for _, tag := range e.first("vlan").all("tag") {
		n.VLANs = append(n.VLANs, r.number(tag, where+" vlan tag", "id"))
	}
	n.Trunk = n.Trunk || len(n.VLANs) > 1
	return n
}

// offloads are what <host> and <guest> of a NIC's driver can switch off and today's drivers still have (libvirt
// formatdomain, "Setting NIC driver-specific options").
var offloads = map[string][]string{
	"host": {"csum", "gso", "tso4", "tso6", "mrg_rxbuf"}, "guest": {"csum", "tso4", "tso6"},
}

// switchedOff returns the offloads that a NIC's driver has off, as host.tso4.
func switchedOff(driver *element) []string {
	var off []string
	for _, side := range []string{"host", "guest"} {
		for _, name := range offloads[side] {
			if e := driver.first(side); e != nil && e.get(name) == "off" {
				off = append(off, side+"."+name)
			}
		}
	}
	return off
}

func (r *reader) hostdev(e *element) HostDev {
	h := HostDev{Type: e.get("type"), Managed: e.get("managed") == "yes", Alias: e.first("alias").get("name")}
	if a := e.first("source", "address"); a != nil && h.Type == "pci" {
		h.PCI = r.pci(a, "hostdev")
	}
	return h
}

// pci returns a PCI address in the kernel's form: 0000:01:10.0.
func (r *reader) pci(e *element, where string) string {
	raw := pciOf(e)
	address, ok := CanonPCI(raw)
	if !ok {
		r.addUnclear(where+" pci address", raw)
	}
	return address
}
