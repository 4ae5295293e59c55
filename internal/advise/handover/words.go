package handover

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// spaced joins what stands side by side on a line.
func spaced(_ *facts.Guest, _ string, texts []string) string { return strings.Join(texts, " ") }

// Places that nova is told something in.
const (
	novaFlavor = "flavor extra specs (openstack flavor set FLAVOR --property …)"
	novaConf   = "nova.conf of the host"
	novaDocs   = "nova, doc/source/configuration/extra-specs.rst"
	confDocs   = "nova, nova/conf/libvirt.py and nova/conf/compute.py"
)

// nova regenerates the domain at power-on and hard reboot (nova/virt/libvirt/driver.py, power_on, _hard_reboot). A
// flavor is copied into a server: a resize takes a changed one, a new server has it.
var nova = platform{
	effect: "when the server is resized to the flavor or rebuilt; nova.conf when nova-compute was restarted " +
		"and the server is rebooted hard",
	join: spaced,
	always: []Unsaid{{Setting: "vhost threads", Value: "dedicated CPUs", Why: "nova places them with the emulator"},
		{Setting: "vcpupin", Value: "CPUs by number", Why: "nova chooses them from cpu_dedicated_set"}},
	say: func(g *facts.Guest, h plan.Handed) said {
		flavor := func(text string) said { return said{where: novaFlavor, text: text, source: novaDocs} }
		conf := func(text string) said { return said{where: novaConf, text: text, source: confDocs} }
		switch h.ID {
		case "domain.queues": // nova/virt/libvirt/vif.py, _get_max_tap_queues; designer.set_vif_guest_frontend_config
			s := flavor("hw:vif_multiqueue_enabled=true")
			s.note = fmt.Sprintf("the number cannot be said: nova makes one queue for each of its %d vCPUs, at most "+
				"[libvirt] max_queues", g.VCPUs)
			return s
		case "domain.vcpupin":
			return flavor("hw:cpu_policy=dedicated")
		case "domain.emulatorpin":
			return flavor("hw:emulator_threads_policy=share")
		case "domain.numatune":
			return flavor("hw:numa_nodes=" + strconv.Itoa(nodes(h)))
		case "domain.hugepages":
			return flavor("hw:mem_page_size=large")
		case "domain.locked", "domain.vfio_memory":
			return flavor("hw:locked_memory=true")
		case "domain.vcpusched":
			return flavor("hw:cpu_realtime=yes hw:cpu_realtime_mask=^0")
		case "domain.nosharepages": // driver.py, _get_guest_memory_backing_config
			return said{unsaid: "nova does it for realtime guests alone (hw:cpu_realtime)"}
		case "domain.pmu":
			return flavor("hw:pmu=false")
		case "domain.nic_model":
			return said{where: "image properties (openstack image set IMAGE --property …)",
				text: "hw_vif_model=virtio", source: "nova, nova/objects/image_meta.py"}
		case "domain.rx_queue_size":
			return conf("[libvirt] rx_queue_size=" + h.Value.Value)
		case "domain.tx_queue_size":
			return conf("[libvirt] tx_queue_size=" + h.Value.Value)
		case "domain.cpu_model":
			if strings.HasSuffix(h.Setting, "cpu/mode") {
				return conf("[libvirt] cpu_mode=" + h.Value.Value)
			}
		case "domain.backend":
			return said{unsaid: "nova chooses it: vhost for virtio with KVM"}
		}
		return said{}
	},
}

// nodes returns how many nodes a value names, at least 1.
func nodes(h plan.Handed) int {
	set, err := setting.ParseCPUs(h.Value.Value)
	if err != nil {
		return 1
	}
	return max(1, len(set))
}

// proxmox starts QEMU by what stands in /etc/pve; 'qm set' writes it (qemu-server, PVE/QemuServer.pm, PVE/QemuServer/
// Network.pm and Memory.pm, the schemas of the options).
var proxmox = platform{
	effect: "when the guest is shut down and started ('qm reboot' takes pending changes too, a reboot inside does not)",
	join: func(g *facts.Guest, where string, texts []string) string {
		command := "qm set " + g.Owner.ID
		if strings.HasPrefix(where, "net") {
			// the option is written as a whole: what stands there now stays
			edits, more := "", ""
			for _, text := range texts {
				key, _, _ := strings.Cut(text, "=")
				if key == "model" {
					edits += "s/^[a-z0-9-]*=/virtio=/;"
				} else {
					edits, more = edits+"s/,"+key+"=[^,]*//;", more+","+text
				}
			}
			return fmt.Sprintf(`%s --%s "$(qm config %s | sed -n 's/^%s: //;T;%sp')%s"`, command, where, g.Owner.ID,
				where, edits, more)
		}
		if where == "affinity" {
			return command + " --affinity " + unionOf(texts).String()
		}
		return command + " " + strings.Join(texts, " ")
	},
	always: []Unsaid{{Setting: "vhost threads", Value: "dedicated CPUs", Why: "a hook script has to pin them"}},
	say: func(g *facts.Guest, h plan.Handed) said {
		word := func(where, text string) said {
			return said{where: where, text: text, source: "qemu-server, PVE/QemuServer.pm; qm(1)"}
		}
		net := func(text string) said {
			if name := proxmoxNIC(g, h); name != "" {
				return word(name, text)
			}
			return said{unsaid: "which of its NICs it is cannot be told"}
		}
		if _, err := strconv.ParseUint(g.Owner.ID, 10, 31); err != nil { // it stands in a command
			return said{unsaid: "its number is not known"}
		}
		switch h.ID {
		case "domain.queues":
			if n, err := strconv.Atoi(h.Value.Value); err == nil {
				return net("queues=" + strconv.Itoa(min(n, 64))) // its maximum
			}
		case "domain.nic_model":
			return net("model=virtio")
		case "domain.vcpupin", "domain.emulatorpin":
			s := word("affinity", h.Value.Value)
			s.note = "it is of the guest as a whole: vCPUs have no CPU each"
			return s
		case "domain.numatune":
			return word("numa", fmt.Sprintf("--numa 1 --numa0 cpus=0-%d,hostnodes=%s,memory=%d,policy=bind",
				max(g.VCPUs-1, 0), h.Value.Value, g.Memory>>20))
		case "domain.hugepages":
			return word("hugepages", "--numa 1 --hugepages 1024 --keephugepages 1")
		case "domain.nosharepages":
			return word("allow-ksm", "--allow-ksm 0")
		case "domain.cpu_model":
			if strings.HasSuffix(h.Setting, "cpu/mode") {
				return word("cpu", "--cpu host")
			}
		case "domain.backend":
			return said{unsaid: "it uses vhost for virtio wherever the kernel has it"}
		}
		return said{}
	},
}

// unionOf returns the CPUs of several lists.
func unionOf(texts []string) (all setting.CPUSet) {
	for _, text := range texts {
		if set, err := setting.ParseCPUs(text); err == nil {
			all = all.Or(set)
		}
	}
	return all
}

// proxmoxNIC returns the name of a NIC in Proxmox's configuration, from its tap (tapIDiN is netN: PVE/QemuServer.pm,
// print_netdev_full); empty if it is none of these.
func proxmoxNIC(g *facts.Guest, h plan.Handed) string {
	for _, nic := range g.NICs() {
		number, is := strings.CutPrefix(nic.Tap, "tap"+g.Owner.ID+"i")
		if n, err := strconv.Atoi(number); is && err == nil && n >= 0 && n < 32 && nic.MAC != "" &&
			strings.Contains(h.Setting, nic.MAC) {
			return "net" + strconv.Itoa(n)
		}
	}
	return ""
}

const kubevirtPatch = "kubectl patch"

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
		patch := func(text string) said {
			return said{where: kubevirtPatch, text: text, source: "kubevirt, api/core/v1/schema.go"}
		}
		switch h.ID {
		case "domain.queues": // converter.go: min(vCPUs, 256)
			s := patch("devices.networkInterfaceMultiqueue=true")
			s.note = fmt.Sprintf("the number cannot be said: it makes one queue for each of its %d vCPUs", g.VCPUs)
			return s
		case "domain.vcpupin":
			return patch("cpu.dedicatedCpuPlacement=true")
		case "domain.emulatorpin":
			return patch("cpu.isolateEmulatorThread=true")
		case "domain.numatune":
			return patch("cpu.numa.guestMappingPassthrough={}")
		case "domain.hugepages":
			return patch(`memory.hugepages.pageSize="1Gi"`)
		case "domain.vcpusched":
			return patch("cpu.realtime={}") // converter.go: fifo:1, locked, nosharepages
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
func patchOf(g *facts.Guest, _ string, texts []string) string {
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

// cloudStack writes a virtual machine's settings into the domain at each start (VmDetailConstants.java,
// LibvirtComputingResource.java).
var cloudStack = platform{
	effect: "when the virtual machine is stopped and started in CloudStack",
	join: func(_ *facts.Guest, _ string, texts []string) string {
		return strings.Join(slices.Compact(texts), ", ")
	},
	always: []Unsaid{{Setting: "vhost threads", Value: "dedicated CPUs", Why: "it has no word for it"}},
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
		}
		return said{}
	},
}
