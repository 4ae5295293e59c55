package handover

import (
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
)

// templateNIC begins where the words of a NIC go; its MAC address follows.
const templateNIC = "template, NIC with MAC "

// openNebula writes a definition at each deployment from the virtual machine's template (src/vmm/LibVirtDriverKVM.cc).
// A virtual machine keeps the topology that it was instantiated with (src/vm/VirtualMachineTemplate.cc,
// UPDATECONF_ATTRS has none).
var openNebula = platform{
	effect: "when a virtual machine is instantiated from the template (onetemplate update)",
	join: func(_ *facts.Guest, where string, texts []string) string {
		if slices.Contains(texts, threadPolicy) { // src/vm/VirtualMachineParser.cc, parse_topology: not both
			texts = slices.DeleteFunc(texts, func(t string) bool { return strings.HasPrefix(t, "NODE_AFFINITY") })
		}
		section, of := strings.CutPrefix(where, "template, ")
		if !of {
			return strings.Join(texts, " ")
		}
		name, _, _ := strings.Cut(section, " ")
		return name + " = [ " + strings.Join(texts, ", ") + " ]"
	},
	always: []Unsaid{noVhost,
		{Setting: "vcpupin", Value: "CPUs by number", Why: "its scheduler chooses them"}},
	say: func(g *facts.Guest, h plan.Handed) said {
		word := func(where, text string) said {
			return said{where: where, text: text, source: "one, src/vmm/LibVirtDriverKVM.cc"}
		}
		switch h.ID {
		case "domain.queues", "domain.nic_model":
			return openNebulaNIC(g, h, word)
		case "domain.vcpupin":
			if ownCPUs(g) {
				return said{unsaid: "each vCPU has a dedicated CPU already: which one, the scheduler chooses"}
			}
			return word("template, TOPOLOGY", threadPolicy)
		case "domain.emulatorpin": // of the host, else of its cluster
			return word("attributes of the host (onehost update)", `EMULATOR_CPUS = "`+h.Value.Value+`"`)
		case "domain.numatune":
			if ownCPUs(g) {
				return said{unsaid: "it is refused beside a PIN_POLICY, with which the scheduler chooses the node"}
			}
			s := word("template, TOPOLOGY", `NODE_AFFINITY = "`+h.Value.Value+`"`)
			s.note = "with a PIN_POLICY the scheduler chooses the node"
			return s
		case "domain.hugepages":
			return word("template, TOPOLOGY", `HUGEPAGE_SIZE = "`+pageMiB(g)+`"`)
		case "domain.cpu_model":
			if strings.HasSuffix(h.Setting, "cpu/mode") {
				return word("template, CPU_MODEL", `MODEL = "`+h.Value.Value+`"`)
			}
		case "domain.nosharepages", "domain.locked":
			return said{unsaid: "RAW's <memoryBacking> would stand beside the one that it writes for huge pages"}
		}
		return said{}
	},
}

// threadPolicy gives each vCPU a CPU that no other virtual machine has.
const threadPolicy = `PIN_POLICY = "THREAD"`

// openNebulaNIC returns what a NIC's template says; the model is needed for queues.
func openNebulaNIC(g *facts.Guest, h plan.Handed, word func(where, text string) said) said {
	for _, nic := range g.NICs() {
		if nic.MAC == "" || !strings.Contains(h.Setting, nic.MAC) {
			continue
		}
		s := word(templateNIC+nic.MAC, `MODEL = "virtio"`)
		if h.ID == "domain.queues" {
			s.needs, s.text = []string{s.text}, `VIRTIO_QUEUES = "`+h.Value.Value+`"`
		}
		return s
	}
	return said{unsaid: "which of its NICs it is cannot be determined"}
}
