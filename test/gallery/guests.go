package gallery

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/libvirt"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// owners are the programs that make definitions, with what they write into them.
var owners = map[string]string{
	"nova": `<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"><nova:name>vm</nova:name>` +
		`</nova:instance>`,
	"ovirt":      `<ovirt-vm:vm xmlns:ovirt-vm="http://ovirt.org/vm/1.0"/>`,
	"zstack":     `<zs:zstack xmlns:zs="http://zstack.org"><internalId>7</internalId></zs:zstack>`,
	"kubevirt":   `<kubevirt xmlns="http://kubevirt.io"><uid>7</uid></kubevirt>`,
	"opennebula": `<one:vm xmlns:one="http://opennebula.org/xmlns/libvirt/1.0"/>`,
}

// makers are the manufacturers and products that programs without metadata write (CloudStack: LibvirtVMDef.java,
// GuestDef).
var makers = map[string][2]string{
	"cloudstack": {"Apache Software Foundation", "CloudStack KVM Hypervisor"}, "nutanix": {"Nutanix", "AHV"},
}

// addGuests adds the guests with their taps.
func (s *Spec) addGuests(h *facts.Host) error {
	number := 0
	for _, name := range sorted(s.Guests) {
		like := s.Guests[name]
		seats, err := setting.ParseCPUs(like.CPUs)
		if err != nil {
			return fmt.Errorf("guests %s: %w", name, err)
		}
		for i := range max(1, like.Count) {
			g := guest{Guests: like, name: name, number: number, index: i, arch: s.Arch}
			if like.Count > 1 {
				g.name += strconv.Itoa(i + 1)
			}
			g.pins = seats
			if !like.Floating && len(seats) > 0 {
				pins := cmp.Or(like.Pinned, like.VCPUs)
				if (i+1)*pins > len(seats) {
					return fmt.Errorf("guest %s: no CPU of %s is left for it", g.name, like.CPUs)
				}
				g.pins = seats[i*pins : (i+1)*pins]
			}
			if err := g.add(h); err != nil {
				return fmt.Errorf("guest %s: %w", g.name, err)
			}
			number++
		}
	}
	slices.SortStableFunc(h.Guests, func(a, b facts.Guest) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// guest is one of several guests.
type guest struct {
	Guests
	name   string
	number int // on the host
	index  int // among those of its kind
	arch   string
	pins   setting.CPUSet
}

func (g *guest) mac(nic int) string {
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", nic, g.number>>8, g.number&255)
}

func (g *guest) uuid() string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", g.number) }

func (g *guest) gib() int { return cmp.Or(g.GiB, 2*g.VCPUs) }

func (g *guest) add(h *facts.Host) error {
	var f facts.Guest
	if owner, process := g.processOwner(); process {
		f = g.process()
		f.Owner = owner
	} else {
		text, err := g.text(h)
		if err != nil {
			return err
		}
		doc, err := domain.Parse([]byte(text))
		if err != nil {
			return err
		}
		f = libvirt.DescribeDefinition(doc.Guest(), text)
	}
	g.Elsewhere = g.Elsewhere || g.Namespace != 0
	f.Elsewhere, f.Namespace = g.Elsewhere, g.Namespace
	for i, v := range g.NICs {
		if v.Type == "user" {
			f.Interfaces[i].Backend = v.Source
		}
	}
	if g.Pages {
		takePages(h, &f)
	}
	if !g.Stopped {
		f.State = "running"
		if g.Paused {
			f.State = "paused"
		}
		if err := g.start(h, &f); err != nil {
			return err
		}
	}
	h.Guests = append(h.Guests, f)
	return nil
}

// processOwner returns the owner of a guest that libvirt does not know on the host; false if libvirt knows it.
func (g *guest) processOwner() (*facts.Owner, bool) {
	switch g.By {
	case "qemu":
		return &facts.Owner{Platform: facts.QEMU}, true
	case "proxmox":
		return facts.ProxmoxOwner(strconv.Itoa(100 + g.number)), true
	case "incus":
		return facts.InstanceOwner(facts.Incus, g.name), true
	case "pod", "harvester":
		platform := map[string]facts.Platform{"pod": facts.KubeVirt, "harvester": facts.Harvester}[g.By]
		return &facts.Owner{Platform: platform, ID: "default/" + g.name, Evidence: "its parent is virt-launcher"}, true
	}
	return nil, false
}

// text returns the guest's definition, recorded or made.
func (g *guest) text(h *facts.Host) (string, error) {
	if g.Recorded == "" {
		return g.definition(h)
	}
	text, err := os.ReadFile("definitions/" + g.Recorded)
	return string(text), err
}

// process returns a QEMU process that libvirt does not know.
func (g *guest) process() facts.Guest {
	f := facts.Guest{Name: g.name, UUID: g.uuid(), VCPUs: g.VCPUs, MaxVCPUs: g.VCPUs, Memory: uint64(g.gib()) << 30,
		Machine: cmp.Or(g.Machine, "pc-q35-9.0"), Hostdevs: []string{}, Pending: []string{}, Hugepages: g.Pages}
	for i, v := range g.NICs {
		kind := v.Type
		if kind == "bridge" {
			kind = "tap"
		}
		f.Interfaces = append(f.Interfaces, facts.Interface{MAC: g.mac(i), Type: kind,
			Model: cmp.Or(v.Model, "virtio-net-pci"), Backend: cmp.Or(v.Backend, "vhost"), Queues: max(1, v.Queues)})
	}
	return f
}

// takePages takes a running guest's memory from the pools of the default size, node by node.
func takePages(h *facts.Host, g *facts.Guest) {
	size := h.DefaultHugepage()
	if size == 0 {
		return
	}
	need := g.Memory / size
	for i := range h.Topology.Nodes {
		for j := range h.Topology.Nodes[i].Hugepages {
			p := &h.Topology.Nodes[i].Hugepages[j]
			if p.Size == size && (len(g.MemoryNodes) == 0 || g.MemoryNodes.Has(h.Topology.Nodes[i].ID)) {
				taken := min(need, p.Free)
				p.Free, need = p.Free-taken, need-taken
				for k := range h.Topology.Hugepages {
					if h.Topology.Hugepages[k].Size == size {
						h.Topology.Hugepages[k].Free -= taken
					}
				}
			}
		}
	}
}

// start gives a guest a process, threads and taps.
func (g *guest) start(h *facts.Host, f *facts.Guest) error {
	f.PID = 10000 + 100*g.number
	emulator, err := setting.ParseCPUs(g.Emulator)
	if err != nil {
		return err
	}
	vhost, err := setting.ParseCPUs(g.Vhost)
	if err != nil {
		return err
	}
	rest := h.Topology.Online.Minus(h.Topology.Isolated)
	if len(emulator) == 0 {
		emulator = rest
	}
	addThread(f, facts.Thread{Comm: "qemu-system-x86", Role: "emulator", Queue: -1, Affinity: emulator})
	fifo, err := setting.ParseCPUs(g.FIFO)
	if err != nil {
		return err
	}
	for v := range f.VCPUs {
		affinity := rest
		if v < len(g.pins) && !g.Floating {
			affinity = setting.CPUs(g.pins[v])
		} else if g.Floating && len(g.pins) > 0 {
			affinity = g.pins
		}
		policy, priority := "SCHED_OTHER", 0
		if fifo.Has(v) {
			policy, priority = "SCHED_FIFO", 1
		}
		addThread(f, facts.Thread{Comm: fmt.Sprintf("CPU %d/KVM", v), Role: "vcpu", Index: v, Queue: -1,
			Affinity: affinity, Policy: policy, Priority: priority})
	}
	for i := range g.IOThreads {
		addThread(f, facts.Thread{Comm: fmt.Sprintf("IO iothread%d", i+1), Role: "iothread", Index: i + 1, Queue: -1,
			Affinity: rest})
	}
	for i := range f.Interfaces {
		nic := &f.Interfaces[i]
		if nic.Tap = g.tapName(nic, i); nic.Tap == "" {
			continue
		}
		if g.Elsewhere {
			continue
		}
		v := VNIC{Type: nic.Type, Source: nic.Source}
		if i < len(g.NICs) {
			v = g.NICs[i]
		}
		h.Taps = append(h.Taps, g.tap(h, f, nic, v))
	}
	addVhostThreads(h, f, emulator, vhost)
	return nil
}

func addThread(f *facts.Guest, t facts.Thread) {
	t.TID = f.PID + len(f.Threads)
	t.Policy = cmp.Or(t.Policy, "SCHED_OTHER")
	if len(t.Affinity) > 0 {
		t.CPU = t.Affinity[0]
	}
	f.Threads = append(f.Threads, t)
}

// addVhostThreads adds the vhost threads that a guest's interfaces need and that are not there yet: on the next of some
// CPUs, else where the emulator is.
func addVhostThreads(h *facts.Host, f *facts.Guest, emulator, own setting.CPUSet) {
	count := 0
	for _, nic := range f.NICs() {
		if nic.Tap == "" || !strings.HasPrefix(nic.Model, "virtio") || nic.Backend == "qemu" || !h.KVM.Vhost {
			continue
		}
		for q := range max(1, nic.Queues) {
			there := slices.ContainsFunc(f.Threads, func(t facts.Thread) bool {
				return t.Role == "vhost" && t.NIC == nic.MAC && t.Queue == q
			})
			affinity := emulator
			if len(own) > 0 {
				affinity = setting.CPUs(own[count%len(own)])
			}
			count++
			if !there {
				addThread(f, facts.Thread{Comm: fmt.Sprintf("vhost-%d", f.PID), Role: "vhost", Index: count - 1,
					NIC: nic.MAC, Queue: q, Sure: facts.ByOrder, Affinity: affinity})
			}
		}
	}
}

// tapName returns the device of an interface on the host, "" if it has none.
func (g *guest) tapName(nic *facts.Interface, index int) string {
	if g.Namespace != 0 && nic.Type != "hostdev" {
		return fmt.Sprintf("tap%d", index)
	}
	switch nic.Type {
	case "bridge", "network", "ethernet":
		return fmt.Sprintf("vnet%d", 4*g.number+index)
	case "direct":
		return fmt.Sprintf("macvtap%d", 4*g.number+index)
	case "tap":
		return fmt.Sprintf("tap%di%d", 100+g.number, index)
	}
	return ""
}

// tap returns the tap of an interface, and makes it a port of its bridge.
func (g *guest) tap(h *facts.Host, f *facts.Guest, nic *facts.Interface, v VNIC) facts.Tap {
	queues := max(1, nic.Queues)
	t := facts.Tap{
		Name: nic.Tap, Type: "tap", Owner: -1, MultiQueue: queues > 1, TxQueues: queues, RxQueues: queues,
		XPS: make([]setting.CPUSet, queues), RPS: make([]setting.CPUSet, queues), TxQueueLen: 1000, Up: true,
		Guest: f.Name, Stats: map[string]uint64{},
	}
	if nic.Type == "direct" {
		t.Type, t.Lower, t.Mode, t.TxQueueLen = "macvtap", v.Source, cmp.Or(v.Mode, "vepa"), 500
		return t
	}
	t.Master = v.Master
	if v.Type == "bridge" && t.Master == "" {
		t.Master = v.Source
	}
	if b := facts.Find(h.Bridges, func(b *facts.Bridge) bool { return b.Name == t.Master }); b != nil {
		b.Ports = append(b.Ports, t.Name)
	}
	return t
}
