package handover

import (
	"encoding/json"
	"fmt"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

const kubevirtPatch = "kubectl patch"

// Settings that others are refused without (vmi-create-admitter.go): an isolated emulator thread and NUMA passthrough
// need dedicated CPUs, NUMA passthrough huge pages, realtime all of them.
const (
	kubevirtDedicated = "cpu.dedicatedCpuPlacement=true"
	kubevirtNUMA      = "cpu.numa.guestMappingPassthrough={}"
)

// kubevirtPages returns the setting of huge pages of a size that divides the guest's memory.
func kubevirtPages(g *facts.Guest) string {
	return words.Either(g.Memory > 0 && g.Memory%(1<<30) == 0, `memory.hugepages.pageSize="1Gi"`,
		`memory.hugepages.pageSize="2Mi"`)
}

// kubevirt makes the domain of the VirtualMachine in a new pod (kubevirt, staging/src/kubevirt.io/api/core/v1,
// schema.go). The texts are paths below spec.template.spec.domain, with their values.
var kubevirt = platform{
	effect: "when the virtual machine is restarted (virtctl restart)",
	join:   patchOf,
	always: []Unsaid{{Setting: "vhost threads", Value: "dedicated CPUs", Why: "nobody pins them in the pod"},
		{Setting: "vcpupin", Value: "CPUs by number", Why: "the kubelet's CPU manager chooses them"}},
	say: func(g *facts.Guest, h plan.Handed) said {
		if id := g.Owner.ID; facts.KubeVirtID(strings.Replace(id, "/", "_", 1)) != id {
			return said{unsaid: "the name of its VirtualMachine is not known here"}
		}
		patch := func(text string, needs ...string) said {
			return said{where: kubevirtPatch, text: text, needs: needs, source: "kubevirt, api/core/v1/schema.go"}
		}
		switch h.ID {
		case "domain.queues": // converter.go: min(vCPUs, 256)
			s := patch("devices.networkInterfaceMultiqueue=true")
			s.note = fmt.Sprintf("the number cannot be said: it makes one queue for each of its %d vCPUs", g.VCPUs)
			return s
		case "domain.nic_model": // a merge patch would replace the whole list
			return said{where: "kubectl edit vm", source: "kubevirt, api/core/v1/schema.go, Interface",
				text: "model: virtio at the interface of " + strings.TrimSuffix(h.Setting, "/model")}
		case "domain.vcpupin":
			if ownCPUs(g) {
				return said{unsaid: "each vCPU has a dedicated CPU already: which one, the kubelet chooses"}
			}
			return patch(kubevirtDedicated)
		case "domain.emulatorpin":
			return patch("cpu.isolateEmulatorThread=true", kubevirtDedicated)
		case "domain.numatune":
			return patch(kubevirtNUMA, kubevirtDedicated, kubevirtPages(g))
		case "domain.hugepages":
			return patch(kubevirtPages(g))
		case "domain.vcpusched": // converter.go: fifo:1, locked, nosharepages
			return patch("cpu.realtime={}", kubevirtDedicated, kubevirtNUMA, kubevirtPages(g))
		case "domain.nosharepages", "domain.locked":
			return said{unsaid: "it does it for realtime guests alone (cpu.realtime)"}
		case "domain.cpu_model":
			if strings.HasSuffix(h.Setting, "cpu/mode") {
				return patch(`cpu.model="` + h.Value.Value + `"`)
			}
		}
		return said{}
	},
}

// patchOf returns the command that patches the VirtualMachine.
func patchOf(g *facts.Guest, where string, texts []string) string {
	if where != kubevirtPatch {
		return strings.Join(texts, "; ")
	}
	domain := map[string]any{}
	for _, text := range texts {
		path, value, _ := strings.Cut(text, "=")
		at, elements := domain, strings.Split(path, ".")
		for _, element := range elements[:len(elements)-1] {
			next, _ := at[element].(map[string]any)
			if next == nil {
				next = map[string]any{}
				at[element] = next
			}
			at = next
		}
		at[elements[len(elements)-1]] = json.RawMessage(value)
	}
	spec := map[string]any{"domain": domain}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}})
	if err != nil { // its values are ours
		return ""
	}
	namespace, name, _ := strings.Cut(g.Owner.ID, "/")
	return fmt.Sprintf("kubectl patch vm %s -n %s --type merge -p '%s'", name, namespace, patch)
}
