package libvirt

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// qemu is a running QEMU process, from its command line.
type qemu struct {
	pid  int
	name string
	uuid string
	// of Proxmox VE's virtual machine; empty: it has none
	number  string
	pidFile string            // where it says that its PID is; empty: nowhere
	system  domain.SystemInfo // what the guest is shown as its maker
	owner   *facts.Owner
	nics    []qemuNIC // in the order of creation
	cpus    int
	mem     uint64 // bytes
	mach    string
	kvm     bool

	libvirt bool   // libvirt started it for the guest of this name
	doubt   string // why it is not known to be a guest's; empty: it is

	cpuMode string   // as libvirt calls it: host-passthrough or custom
	pages   bool     // its memory is in huge pages
	nodes   []string // its memory's nodes on the host, as lists; empty: any

	functions []string // PCI addresses that are passed through
	elsewhere bool     // it runs in another network namespace
}

// Title returns the guest's name, or one from its PID if it has none. It can be an element of an address.
func (q qemu) Title() string {
	if q.name == "" || q.name == "." || q.name == ".." {
		return q.byPID()
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, q.name)
}

// byPID returns a name for a process that has none of its own.
func (q qemu) byPID() string { return "qemu-" + strconv.Itoa(q.pid) }

// qemuNIC is one NIC of a QEMU process with a back end.
type qemuNIC struct {
	id     string // of the back end; libvirt's hostnet0 belongs to its alias net0
	mac    string
	model  string // driver of the device: virtio-net-pci, e1000 …
	kind   string // tap, vhost-user, user …
	source string // bridge, socket, NIC or device file of the back end
	tap    string
	vhost  bool
	queues int  // of the back end
	single bool // the device uses the first queue alone

	elsewhere facts.Answer // of the tap, where QEMU is not in its namespace: facts.Interface.TapElsewhere
	space     uint64
	placed    bool // they are looked up

	rxSize, txSize int // descriptors; 0: QEMU's default
}

// readQEMU reads a process's command line. If Doubt is not empty it is no guest's, and only the name is read that it
// claims; false if it cannot be read.
func readQEMU(m *tree.Tree, p trust.QEMU) (qemu, bool) {
	doubt := p.Doubt(m, "")
	if doubt != "" && !p.OfLibvirt() {
		name, read := p.Claim(m)
		return qemu{pid: p.PID, name: name, doubt: doubt}, read
	}
	args := p.Arguments(m)
	if args == nil {
		return qemu{}, false
	}
	q := parseQEMU(args)
	q.pid, q.libvirt = p.PID, p.Libvirt(q.name)
	if doubt != "" && !q.libvirt {
		q.doubt = doubt
		return q, true
	}
	q.elsewhere = trust.Elsewhere(m, p.PID, "net")
	q.owner = q.findOwner(m, p)
	in := spacesOf(m, p.PID)
	for i := range q.nics {
		if nic := &q.nics[i]; strings.HasPrefix(nic.tap, "fd:") {
			fd := strings.TrimPrefix(nic.tap, "fd:")
			nic.tap, nic.placed = tapOf(m, p.PID, fd), true
			nic.place(m, p.PID, fd, in)
		}
	}
	return q, true
}

// tapOf returns the device of a process's tap descriptor; empty if it has none. That of a tun device shows in fdinfo
// ("iff: vnet0"; drivers/net/tun.c, tun_chr_show_fdinfo), that of a macvtap is the file /dev/tapN, where N is the
// device's index (drivers/net/macvtap.c, macvtap_device_event).
func tapOf(m *tree.Tree, pid int, fd string) string {
	if _, err := strconv.Atoi(fd); err != nil {
		return ""
	}
	process := "proc/" + strconv.Itoa(pid)
	if text, err := m.Read(process + "/fdinfo/" + fd); err == nil {
		if _, rest, is := strings.Cut(text, "iff:"); is {
			line, _, _ := strings.Cut(rest, "\n")
			if line = strings.TrimSpace(line); strings.ContainsFunc(line, unicode.IsControl) {
				return "" // whoever has a network namespace chooses the names there
			}
			return line
		}
	}
	index, is := strings.CutPrefix(m.Target(process+"/fd/"+fd), "tap")
	if _, err := strconv.Atoi(index); !is || err != nil {
		return ""
	}
	if trust.Elsewhere(m, pid, "net") { // the index counts in the process's namespace
		return nameThere(m, process, index)
	}
	for _, name := range m.List(tree.ClassNet) {
		if m.Line(path.Join(tree.ClassNet, name, "ifindex")) == index {
			return name
		}
	}
	return ""
}

// nameThere returns the name of a device in a process's network namespace by its index; empty if it is not to be found.
// /proc/PID/net/dev_mcast has a line of index, name, users, global users and address for each multicast address
// (net/core/dev_addr_lists.c, dev_mc_seq_show): every device that is up and has IPv6 or IGMP has one.
func nameThere(m *tree.Tree, process, index string) string {
	text, err := m.Read(process + "/net/dev_mcast")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == index &&
			!strings.ContainsFunc(fields[1], unicode.IsControl) {
			return fields[1]
		}
	}
	return ""
}

// findTaps finds the taps that a process's command line does not name: it made them, got them from a helper, or was
// given them since it started.
func (q *qemu) findTaps(m *tree.Tree) {
	open := q.openTaps(m)
	in := spacesOf(m, q.pid)
	for i := range q.nics {
		n := &q.nics[i]
		at := slices.IndexFunc(open, func(t openTap) bool { return t.name == n.tap })
		if n.placed || at < 0 {
			continue
		}
		n.place(m, q.pid, open[at].fd, in)
		open = slices.Delete(open, at, at+1)
	}
	open = slices.DeleteFunc(open, func(t openTap) bool { return q.hasTap(t.name) })
	var without []*qemuNIC
	for i := range q.nics {
		if n := &q.nics[i]; (n.kind == "tap" || n.kind == "bridge") && n.tap == "" {
			without = append(without, n)
		}
	}
	if len(without) == 1 && len(open) == 1 {
		without[0].tap = open[0].name
		without[0].place(m, q.pid, open[0].fd, in)
		return
	}
	for _, tap := range open { // which NIC has which cannot be determined
		n := qemuNIC{id: "fd", kind: "tap", tap: tap.name, queues: 1}
		n.place(m, q.pid, tap.fd, in)
		q.nics = append(q.nics, n)
	}
}

// openTap is a tap that a process has open, by one of its descriptors.
type openTap struct{ name, fd string }

// openTaps returns the taps of the process's descriptors.
func (q *qemu) openTaps(m *tree.Tree) []openTap {
	var open []openTap
	files := "proc/" + strconv.Itoa(q.pid) + "/fd"
	for _, fd := range m.List(files) {
		if file := m.Target(path.Join(files, fd)); file != tunFile && !strings.HasPrefix(file, "tap") {
			continue
		}
		tap := tapOf(m, q.pid, fd)
		if tap != "" && !slices.ContainsFunc(open, func(t openTap) bool { return t.name == tap }) {
			open = append(open, openTap{tap, fd})
		}
	}
	return open
}

func (q *qemu) hasTap(tap string) bool {
	return slices.ContainsFunc(q.nics, func(n qemuNIC) bool { return n.tap == tap })
}

// guest returns the facts of a QEMU process that libvirt does not know.
func (q *qemu) guest() facts.Guest {
	fact := facts.Guest{
		Name: q.Title(), UUID: q.uuid, Owner: q.owner, State: "running", PID: q.pid, VCPUs: q.cpus, MaxVCPUs: q.cpus,
		Memory: q.mem, Machine: q.mach, CPUMode: cmp.Or(q.cpuMode, "custom"), Hugepages: q.pages,
		MemoryNodes: q.memoryNodes(), Hostdevs: q.functions, Functions: q.functions, Elsewhere: q.elsewhere,
	}
	for _, nic := range q.nics {
		fact.Interfaces = append(fact.Interfaces, nic.fact())
	}
	return fact
}

// memoryNodes returns the host's nodes that the memory is bound to; empty: any.
func (q *qemu) memoryNodes() (nodes setting.CPUSet) {
	for _, list := range q.nodes {
		nodes = nodes.Or(parseCPUs(list))
	}
	return nodes
}

func (n qemuNIC) fact() facts.Interface {
	i := facts.Interface{
		MAC: n.mac, Type: n.kind, Source: n.source, Tap: n.tap, Model: libvirtModel(n.model), Queues: n.queues,
		RxQueueSize: n.rxSize, TxQueueSize: n.txSize, TapElsewhere: n.elsewhere, TapNamespace: n.space,
	}
	if n.single {
		i.Queues = 1
	}
	switch {
	case n.vhost:
		i.Backend = "vhost"
	case n.kind == "tap" || n.kind == "bridge":
		i.Backend = "qemu"
	}
	return i
}

// libvirtModel returns libvirt's name of a device driver of QEMU: those of virtio differ by the bus (hw/virtio,
// virtio-net-pci.c, virtio-mmio's virtio-net-device, hw/s390x/virtio-ccw-net.c).
func libvirtModel(driver string) string {
	switch driver {
	case "virtio-net-pci", "virtio-net-device", "virtio-net-ccw", "virtio-net":
		return "virtio"
	case "virtio-net-pci-transitional":
		return "virtio-transitional"
	case "virtio-net-pci-non-transitional":
		return "virtio-non-transitional"
	}
	return driver
}
