package sriov

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// addTargetQuestions adds the checks to make on the target without a snapshot of it.
func (p *migration) addTargetQuestions() {
	over := func(words ...string) string { return quoted(append([]string{"ssh", "root@" + p.To}, words...)...) }
	unseen := "no snapshot of " + p.To
	p.addCheck(p.To, MigrateUnknown, "everything below, looked at here", unseen,
		over("mpps snapshot")+" > "+quoted(p.To+".json")+"   # then --to-snapshot "+quoted(p.To+".json"))
	p.addCheck(p.To, MigrateUnknown, words.Count(len(p.Functions), "free virtual function")+", IOMMU on", unseen,
		over("mpps sriov list"))
	p.addCheck(p.To, MigrateUnknown, "machine type "+p.guest.Machine, unseen, over("qemu-system-x86_64 -machine help")+
		" | grep -w "+quoted(p.guest.Machine))
	p.addCheck(p.To, MigrateUnknown, "a processor that the guest can go on with ("+
		cmp.Or(p.guest.CPUMode, "the hypervisor's default")+")", unseen, p.compareCPUs())
	p.addCheck(p.To, MigrateUnknown, size(p.guest.Memory)+" of memory"+pages(p.guest), unseen, over("numactl -H"))
	for _, bridge := range p.bridges() {
		p.addCheck(p.To, MigrateUnknown, "bridge "+bridge+" of the guest's other NICs", unseen,
			over("ip link show "+bridge))
	}
}

func pages(g *facts.Guest) string { return words.Either(g.Hugepages, " in huge pages", "") }

// checkHost checks versions, processor, CPUs and memory of the target.
func (p *migration) checkHost(h *facts.Host) {
	on, g := p.To, p.guest
	for _, program := range []struct{ name, here, there string }{{"QEMU", p.from.KVM.QEMU, h.KVM.QEMU},
		{"libvirt", p.from.KVM.Libvirt, h.KVM.Libvirt}} {
		if program.here == "" || program.there == "" {
			p.addCheck(on, MigrateUnknown, program.name+" is no older than here",
				fmt.Sprintf("here %s, there %s", cmp.Or(program.here, "not seen"), cmp.Or(program.there, "not seen")),
				quoted("virsh", "-c", p.targetURI(), "version"))
			continue
		}
		p.addCheck(on, stateOf(facts.CompareVersions(program.there, program.here) >= 0), program.name+
			" is no older than here", fmt.Sprintf("here %s, there %s", program.here, program.there),
			"an older one may not know the machine type, and migration to an older one is not supported")
	}
	machine := "machine type " + p.guest.Machine
	switch want := machineVersion(p.guest.Machine); {
	case want == "" || h.KVM.QEMU == "":
		p.addCheck(on, MigrateUnknown, machine, "QEMU's version or the type's is not known",
			quoted("ssh", "root@"+p.To, "qemu-system-x86_64 -machine help"))
	default:
		p.addCheck(on, stateOf(facts.CompareVersions(h.KVM.QEMU, want) >= 0), machine, "QEMU "+h.KVM.QEMU+" there",
			"a newer QEMU there, or 'redefine' with an older type")
	}
	p.checkProcessor(h)
	online, pinned := h.Topology.Online, 0
	for _, pin := range g.Pins {
		pinned += len(pin.Minus(online))
	}
	p.addCheck(on, stateOf(len(online) >= g.VCPUs && pinned == 0), fmt.Sprintf("%s, and the CPUs that it is pinned to",
		words.Count(g.VCPUs, "vCPU")),
		fmt.Sprintf("CPUs %s, %d of the pinned ones not there", online, pinned), "with --xml and --persistent-xml "+
			"'virsh migrate' takes other pins: virsh dumpxml --migratable "+quoted(g.Name)+
			" | mpps domain tune - --vcpupin LIST -o FILE")
	p.checkMemory(h)
}

// machineVersion returns the QEMU version of a machine type: 10.0 for pc-q35-10.0; empty for an alias such as q35,
// which means another type in each QEMU.
func machineVersion(machine string) string {
	version := machine[strings.LastIndexByte(machine, '-')+1:]
	if version == "" || version[0] < '0' || version[0] > '9' || !strings.Contains(machine, "-") {
		return ""
	}
	return version
}

// compareCPUs returns the command that asks the target's libvirt whether it can provide the guest's CPU.
func (p *migration) compareCPUs() string {
	what := words.Either(p.guest.CPUMode == "host-passthrough" || !p.guest.Active(), quoted("virsh", "domcapabilities"),
		quoted("virsh", "dumpxml", "--migratable", p.guest.Name))
	return what + " | " + quoted("virsh", "-c", p.targetURI(), "hypervisor-cpu-compare", "/dev/stdin")
}

// checkProcessor compares the processors. A guest with host-passthrough needs the same model.
func (p *migration) checkProcessor(h *facts.Host) {
	here, there := p.from.Topology.Model, h.Topology.Model
	found := fmt.Sprintf("here %s, there %s", cmp.Or(here, "not seen"), cmp.Or(there, "not seen"))
	what := "a processor that the guest can go on with (" + cmp.Or(p.guest.CPUMode, "the hypervisor's default") + ")"
	compare := p.compareCPUs()
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
			"there, microcode too; or redefine the guest"
	}
	if !h.KVM.Loaded {
		p.addCheck(p.To, MigrateMissing, "KVM", "not loaded", "modprobe kvm_intel or kvm_amd")
	}
	p.addCheck(p.To, state, what, found, compare)
}

// checkMemory checks the free memory of the target: attaching a function pins all memory of the guest.
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
	found := fmt.Sprintf("%s free on nodes %s", size(free), strings.Join(nodes, ",")) + words.Either(len(missing) > 0,
		", no node "+strings.Join(missing, ","), "")
	p.addCheck(p.To, stateOf(free >= p.guest.Memory && len(missing) == 0),
		size(p.guest.Memory)+" of memory"+pages(p.guest)+", all of which an attached function pins", found,
		quoted("ssh", "root@"+p.To, "numactl -H"))
}
