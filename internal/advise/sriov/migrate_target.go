package sriov

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/model/facts"
)

// askTarget lists what is to be asked on the other host, of which nothing is known.
func (p *migration) askTarget() {
	over := func(words ...string) string { return shellLine(append([]string{"ssh", "root@" + p.To}, words...)...) }
	unseen := "no snapshot of " + p.To
	p.check(p.To, MigrateUnknown, "everything below, looked at here", unseen,
		over("mpps snapshot")+" > "+quoted(p.To+".json")+"   # then --to-snapshot "+quoted(p.To+".json"))
	p.check(p.To, MigrateUnknown, count(len(p.Functions), "free virtual function")+", IOMMU on", unseen,
		over("mpps sriov list"))
	p.check(p.To, MigrateUnknown, "machine type "+p.guest.Machine, unseen, over("qemu-system-x86_64 -machine help")+
		" | grep -w "+quoted(p.guest.Machine))
	p.check(p.To, MigrateUnknown, "a processor that the guest can go on with ("+
		cmp.Or(p.guest.CPUMode, "the hypervisor's default")+")", unseen,
		p.compare())
	p.check(p.To, MigrateUnknown, size(p.guest.Memory)+" of memory"+pages(p.guest), unseen, over("numactl -H"))
	for _, bridge := range p.bridges() {
		p.check(p.To, MigrateUnknown, "bridge "+bridge+" of the guest's other NICs", unseen,
			over("ip link show "+bridge))
	}
}

func pages(g *facts.Guest) string {
	if g.Hugepages {
		return " in huge pages"
	}
	return ""
}

// checkHost wants programs that are no older, a processor of the same kind, CPUs and memory.
func (p *migration) checkHost(h *facts.Host) {
	on, g := p.To, p.guest
	for _, program := range []struct{ name, here, there string }{{"QEMU", p.from.KVM.QEMU, h.KVM.QEMU},
		{"libvirt", p.from.KVM.Libvirt, h.KVM.Libvirt}} {
		if program.here == "" || program.there == "" {
			p.check(on, MigrateUnknown, program.name+" is no older than here",
				fmt.Sprintf("here %s, there %s", cmp.Or(program.here, "not seen"), cmp.Or(program.there, "not seen")),
				shellLine("virsh", "-c", p.address(), "version"))
			continue
		}
		p.check(on, judged(facts.CompareVersions(program.there, program.here) >= 0), program.name+
			" is no older than here", fmt.Sprintf("here %s, there %s", program.here, program.there),
			"an older one may not know the machine type, and migration to an older one is not supported")
	}
	machine := "machine type " + p.guest.Machine
	switch want := machineVersion(p.guest.Machine); {
	case want == "" || h.KVM.QEMU == "":
		p.check(on, MigrateUnknown, machine, "QEMU's version or the type's is not known",
			shellLine("ssh", "root@"+p.To, "qemu-system-x86_64 -machine help"))
	default:
		p.check(on, judged(facts.CompareVersions(h.KVM.QEMU, want) >= 0), machine, "QEMU "+h.KVM.QEMU+" there",
			"a newer QEMU there, or 'define anew' with an older type")
	}
	p.checkProcessor(h)
	online, pinned := h.Topology.Online, 0
	for _, pin := range g.Pins {
		pinned += len(pin.Minus(online))
	}
	p.check(on, judged(len(online) >= g.VCPUs && pinned == 0), fmt.Sprintf("%s, and the CPUs that it is pinned to",
		count(g.VCPUs, "vCPU")),
		fmt.Sprintf("CPUs %s, %d of the pinned ones not there", online, pinned), "with --xml and --persistent-xml "+
			"'virsh migrate' takes other pins: virsh dumpxml --migratable "+quoted(g.Name)+
			" | mpps domain tune - --vcpupin LIST -o FILE")
	p.checkMemory(h)
}

// machineVersion is the QEMU that a machine type is of: 10.0 of pc-q35-10.0; empty of an alias such as q35, which is
// another type with each QEMU.
func machineVersion(machine string) string {
	version := machine[strings.LastIndexByte(machine, '-')+1:]
	if version == "" || version[0] < '0' || version[0] > '9' || !strings.Contains(machine, "-") {
		return ""
	}
	return version
}

// compare asks libvirt of the other host whether it can give a guest the processor that this one has.
func (p *migration) compare() string {
	what := shellLine("virsh", "dumpxml", "--migratable", p.guest.Name)
	if p.guest.CPUMode == "host-passthrough" || !p.guest.Active() {
		what = shellLine("virsh", "domcapabilities")
	}
	return what + " | " + shellLine("virsh", "-c", p.address(), "hypervisor-cpu-compare", "/dev/stdin")
}

// checkProcessor compares the processors: a guest with host-passthrough goes on only with the very same.
func (p *migration) checkProcessor(h *facts.Host) {
	here, there := p.from.Topology.Model, h.Topology.Model
	found := fmt.Sprintf("here %s, there %s", cmp.Or(here, "not seen"), cmp.Or(there, "not seen"))
	what := "a processor that the guest can go on with (" + cmp.Or(p.guest.CPUMode, "the hypervisor's default") + ")"
	compare := p.compare()
	state := MigrateUnknown
	switch {
	case here == "" || there == "":
	case here == there:
		state = MigrateOK
	case h.Topology.Vendor != p.from.Topology.Vendor || h.KVM.Vendor != p.from.KVM.Vendor && h.KVM.Vendor != "" &&
		p.from.KVM.Vendor != "":
		state = MigrateMissing
	case p.guest.CPUMode == "host-passthrough":
		state, compare = MigrateMissing, "host-passthrough shows the guest this very processor: it must be the same "+
			"there, microcode too; or define anew"
	}
	if !h.KVM.Loaded {
		p.check(p.To, MigrateMissing, "KVM", "not loaded", "modprobe kvm_intel or kvm_amd")
	}
	p.check(p.To, state, what, found, compare)
}

// checkMemory wants room for the guest's memory: every page of it is pinned when a function is attached.
func (p *migration) checkMemory(h *facts.Host) {
	var free uint64
	nodes, missing := []string{}, []string{}
	for _, n := range h.Topology.Nodes {
		if len(p.guest.MemoryNodes) > 0 && !p.guest.MemoryNodes.Has(n.ID) {
			continue
		}
		nodes = append(nodes, fmt.Sprint(n.ID))
		if !p.guest.Hugepages {
			free += n.Free
			continue
		}
		for _, pool := range n.Hugepages {
			free += pool.Free * pool.Size
		}
	}
	for _, id := range p.guest.MemoryNodes {
		if _, found := h.Topology.Node(id); !found {
			missing = append(missing, fmt.Sprint(id))
		}
	}
	found := fmt.Sprintf("%s free on nodes %s", size(free), strings.Join(nodes, ","))
	if len(missing) > 0 {
		found += ", no node " + strings.Join(missing, ",")
	}
	p.check(p.To, judged(free >= p.guest.Memory && len(missing) == 0), size(p.guest.Memory)+" of memory"+pages(p.guest)+
		", all of which an attached function pins", found,
		shellLine("ssh", "root@"+p.To, "numactl -H"))
}
