package handover

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
)

// Where nova's settings belong, and the sources.
const (
	novaFlavor = "flavor extra specs (openstack flavor set FLAVOR --property …)"
	novaConf   = "nova.conf of the host"
	// policies that others demand; hw:cpu_policy is dedicated, shared or mixed
	novaDedicated = "hw:cpu_policy=dedicated"
	novaDocs      = "nova, doc/source/configuration/extra-specs.rst"
	confDocs      = "nova, nova/conf/libvirt.py and nova/conf/compute.py"
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
			return novaPins(g, flavor(novaDedicated))
		case "domain.emulatorpin": // nova/virt/hardware.py, get_emulator_thread_policy_constraint
			s := flavor("hw:emulator_threads_policy=share")
			s.needs = []string{novaDedicated}
			s.note = "they go to [compute] cpu_shared_set of nova.conf; without it they stay on the CPUs of the vCPUs"
			return s
		case "domain.numatune":
			return flavor("hw:numa_nodes=" + strconv.Itoa(nodes(h)))
		case "domain.hugepages":
			return flavor("hw:mem_page_size=large")
		case "domain.locked", "domain.vfio_memory": // hardware.py, get_locked_memory_constraint
			s := flavor("hw:locked_memory=true")
			s.note = "nova refuses it without hw:mem_page_size, for which small will do"
			return s
		case "domain.vcpusched": // hardware.py, get_realtime_cpu_constraint
			s := flavor("hw:cpu_realtime=yes")
			s.needs = []string{novaDedicated, "hw:cpu_realtime_mask=^0"}
			return s
		case "domain.ring_features":
			if strings.HasSuffix(h.Setting, "packed") {
				s := flavor("hw:virtio_packed_ring=true")
				s.note = "hw:virtio_packed_ring since 2023.2"
				return s
			}
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

// novaPins returns nova's setting for pinned vCPUs. With hw:cpu_policy=mixed some vCPUs have a dedicated CPU, and
// the others float.
func novaPins(g *facts.Guest, dedicated said) said {
	if ownCPUs(g) {
		return said{unsaid: "each vCPU has a dedicated CPU already: which one, nova chooses from cpu_dedicated_set"}
	}
	own, floating := 0, 0
	for _, cpus := range vcpuPlaces(g) {
		if len(cpus) == 1 {
			own++
		} else {
			floating++
		}
	}
	if own > 0 && floating > 0 {
		dedicated.note = fmt.Sprintf("its policy is mixed now, with %d of %d vCPUs dedicated: hw:cpu_dedicated_mask "+
			"must go, or name the vCPUs that carry packets", own, own+floating)
	}
	return dedicated
}
