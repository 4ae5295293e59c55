package handover

import (
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// spaced joins texts to a line.
func spaced(_ *facts.Guest, _ string, texts []string) string { return strings.Join(texts, " ") }

// nodes returns how many nodes a value names, at least 1.
func nodes(h plan.Handed) int {
	set, err := setting.ParseCPUs(h.Value.Value)
	if err != nil {
		return 1
	}
	return max(1, len(set))
}

// pageMiB returns the size of huge pages in MiB that divides the guest's memory (qemu-server, PVE/QemuServer/Memory.pm,
// hugepages_size).
func pageMiB(g *facts.Guest) string {
	return words.Either(g.Memory > 0 && g.Memory%(1<<30) == 0, "1024", "2")
}

// cloudStack writes a virtual machine's settings into the domain at each start (VmDetailConstants.java,
// LibvirtComputingResource.java).
var cloudStack = platform{
	effect: "when the virtual machine is stopped and started in CloudStack",
	join: func(_ *facts.Guest, where string, texts []string) string {
		if where == extraConfig {
			return "memoryBacking: <memoryBacking>" + strings.Join(texts, "") + "</memoryBacking>"
		}
		return strings.Join(highest(texts), ", ")
	},
	always: []Unsaid{noVhost},
	say: func(_ *facts.Guest, h plan.Handed) said {
		switch h.ID {
		case "domain.queues":
			return said{where: "settings of the virtual machine", text: "nic.multiqueue.number=" + h.Value.Value,
				source: "cloudstack, VmDetailConstants.java, NIC_MULTIQUEUE_NUMBER"}
		case "domain.ring_features":
			if strings.HasSuffix(h.Setting, "packed") {
				return said{where: "settings of the virtual machine", text: "nic.packed.virtqueues.enabled=true",
					source: "cloudstack, VmDetailConstants.java, NIC_PACKED_VIRTQUEUES_ENABLED"}
			}
		case "domain.hugepages":
			return cloudStackExtra("<hugepages/>")
		case "domain.nosharepages":
			return cloudStackExtra("<nosharepages/>")
		case "domain.locked":
			return cloudStackExtra("<locked/>")
		case "domain.vcpupin", "domain.emulatorpin":
			return said{unsaid: "extraconfig's cputune would stand beside the one that CloudStack writes"}
		}
		return said{}
	},
}

// highest returns for each name the setting, name=value, with the highest value: the setting is the virtual machine's,
// whose NICs may want different values.
func highest(texts []string) (all []string) {
	number := func(text string) int {
		_, value, _ := strings.Cut(text, "=")
		n, _ := strconv.Atoi(value)
		return n
	}
	for _, text := range texts {
		name, _, _ := strings.Cut(text, "=")
		at := slices.IndexFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"=") })
		switch {
		case at < 0:
			all = append(all, text)
		case number(text) > number(all[at]):
			all[at] = text
		}
	}
	return all
}

// extraConfig takes elements of the definition that CloudStack does not write itself.
const extraConfig = "extraconfig-1, a setting of the virtual machine"

// cloudStackExtra returns an element of memoryBacking, which CloudStack adds to the definition as it stands
// (UserVmManagerImpl.java, persistExtraConfigKvm; LibvirtComputingResource.java, addExtraConfigComponent).
func cloudStackExtra(element string) said {
	return said{where: extraConfig, text: element, source: "cloudstack, UserVmManagerImpl.java, persistExtraConfigKvm",
		note: "only where enable.additional.vm.configuration is true and allow.additional.vm.configuration.list.kvm " +
			"lists memoryBacking"}
}
