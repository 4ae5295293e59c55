package handover

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// Paths of two NICs.
const (
	first  = "interface/52:54:00:00:00:01"
	second = "interface/52:54:00:00:00:02"
)

// guestOf returns a guest of a platform with two NICs, whose vCPUs may use these CPUs, and whose memory is in MiB.
func guestOf(p facts.Platform, id string, mib uint64, vcpus ...string) *facts.Guest {
	g := &facts.Guest{Name: "vm", VCPUs: len(vcpus), Memory: mib << 20, Owner: &facts.Owner{Platform: p, ID: id},
		Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Tap: "tap101i0"}, {MAC: "52:54:00:00:00:02",
			Tap: "tap101i1"}}}
	for i, cpus := range vcpus {
		set, err := setting.ParseCPUs(cpus)
		if err != nil {
			panic(err)
		}
		g.Threads = append(g.Threads, facts.Thread{Role: "vcpu", Index: i, Affinity: set})
	}
	return g
}

// hand returns values that are wanted: "id path value".
func hand(all ...string) (list []plan.Handed) {
	for _, text := range all {
		id, rest, _ := strings.Cut(text, " ")
		path, value, _ := strings.Cut(rest, " ")
		list = append(list, plan.Handed{ID: id, Guest: "vm", Setting: path, Value: setting.Value(value), Why: "why"})
	}
	return list
}

// queuesOf writes a NIC's number of queues with 'qm set', and keeps the rest of the option.
func queuesOf(nic, n string) string {
	return `qm set 101 --` + nic + ` "$(qm config 101 | sed -n 's/^` + nic + `: //;T;s/,queues=[^,]*//;p'),queues=` + n + `"`
}

// TestPlatforms compares the text for each platform, and the settings that it has no text for.
func TestPlatforms(t *testing.T) {
	pin := hand("domain.vcpupin vcpu/0/pin 8", "domain.vcpupin vcpu/1/pin 9")
	emulator := hand("domain.emulatorpin emulatorpin 2-3")
	for name, c := range map[string]struct {
		guest  *facts.Guest
		handed []plan.Handed
		words  map[string]string // by place
		unsaid []string          // settings
		notes  []string          // parts of notes
	}{
		"nova, floating": {guestOf(facts.Nova, "u", 4096, "0-15", "0-15"), slices.Concat(pin, emulator), map[string]string{
			novaFlavor: "hw:cpu_policy=dedicated hw:emulator_threads_policy=share"}, nil, []string{"cpu_shared_set"}},
		"nova, policy dedicated already": {guestOf(facts.Nova, "u", 4096, "4", "5"), pin, nil,
			[]string{"vcpu/0/pin", "vcpu/1/pin"}, nil},
		"nova, policy mixed": {guestOf(facts.Nova, "u", 4096, "4", "0-3"), pin, map[string]string{
			novaFlavor: "hw:cpu_policy=dedicated"}, nil, []string{"mixed now, with 1 of 2", "hw:cpu_dedicated_mask"}},
		"nova, the emulator alone: nova refuses its policy without dedicated CPUs": {guestOf(facts.Nova, "u", 4096, "4",
			"5"), emulator, map[string]string{novaFlavor: "hw:cpu_policy=dedicated hw:emulator_threads_policy=share"}, nil, nil},
		"nova, realtime, locked memory and packed rings": {guestOf(facts.Nova, "u", 4096, "4", "5"), hand(
			"domain.vcpusched vcpu/1/scheduler fifo:1", "domain.locked memoryBacking/locked on",
			"domain.ring_features "+first+"/driver.packed on"), map[string]string{novaFlavor: "hw:cpu_policy=dedicated " +
			"hw:cpu_realtime_mask=^0 hw:cpu_realtime=yes hw:locked_memory=true hw:virtio_packed_ring=true"}, nil,
			[]string{"hw:mem_page_size"}},
		"Proxmox, two NICs": {guestOf(facts.Proxmox, "101", 4096, "0-15", "0-15"), hand("domain.queues "+first+"/queues 2",
			"domain.queues "+second+"/queues 4"), map[string]string{"net0": queuesOf("net0", "2"), "net1": queuesOf("net1",
			"4")}, nil, nil},
		"Proxmox, affinity, NUMA and pages of a guest whose memory is no whole GiB": {guestOf(facts.Proxmox, "101", 2560,
			"0-15", "0-15"), slices.Concat(pin, hand("domain.numatune memory/nodes 1", "domain.hugepages memory/pages on")),
			map[string]string{"affinity": "qm set 101 --affinity 8-9",
				"numa":      "qm set 101 --numa 1 --numa0 cpus=0-1,hostnodes=1,memory=2560,policy=bind",
				"hugepages": "qm set 101 --numa 1 --hugepages 2 --keephugepages 1"}, nil, []string{"as a whole"}},
		"Proxmox, whose affinity is these CPUs already": {guestOf(facts.Proxmox, "101", 4096, "8-9", "8-9"), pin, nil,
			[]string{"vcpu/0/pin", "vcpu/1/pin"}, nil},
		"Proxmox, whose number is no number": {guestOf(facts.Proxmox, "101;x", 4096, "0-15"), pin, nil,
			[]string{"vcpu/0/pin", "vcpu/1/pin"}, nil},
		"KubeVirt, the emulator: refused without dedicated CPUs": {guestOf(facts.KubeVirt, "shop/web", 4096, "0-15"),
			emulator, map[string]string{kubevirtPatch: `kubectl patch vm web -n shop --type merge -p '{"spec":{"template":` +
				`{"spec":{"domain":{"cpu":{"dedicatedCpuPlacement":true,"isolateEmulatorThread":true}}}}}}'`}, nil, nil},
		"KubeVirt, dedicated already": {guestOf(facts.KubeVirt, "shop/web", 4096, "4", "5"), pin, nil,
			[]string{"vcpu/0/pin", "vcpu/1/pin"}, nil},
		"Harvester, NUMA: refused without dedicated CPUs and huge pages": {guestOf(facts.Harvester, "default/db", 2560,
			"0-15"), hand("domain.numatune memory/nodes 1"), map[string]string{kubevirtPatch: `kubectl patch vm db -n default ` +
			`--type merge -p '{"spec":{"template":{"spec":{"domain":{"cpu":{"dedicatedCpuPlacement":true,"numa":` +
			`{"guestMappingPassthrough":{}}},"memory":{"hugepages":{"pageSize":"2Mi"}}}}}}}'`}, nil, nil},
		"KubeVirt, an e1000": {guestOf(facts.KubeVirt, "shop/web", 4096, "0-15"), hand("domain.nic_model " + first +
			"/model virtio"), map[string]string{"kubectl edit vm": "model: virtio at the interface of " + first}, nil, nil},
		"CloudStack, two NICs: the setting is the virtual machine's": {guestOf(facts.CloudStack, "u", 4096, "0-15"),
			hand("domain.queues "+first+"/queues 2", "domain.queues "+second+"/queues 4"), map[string]string{
				"settings of the virtual machine": "nic.multiqueue.number=4"}, nil, nil},
		"CloudStack, extraconfig": {guestOf(facts.CloudStack, "u", 4096, "0-15"), slices.Concat(pin,
			hand("domain.hugepages memory/pages on", "domain.nosharepages memoryBacking/nosharepages on")), map[string]string{
			extraConfig: "memoryBacking: <memoryBacking><hugepages/><nosharepages/></memoryBacking>"},
			[]string{"vcpu/0/pin", "vcpu/1/pin"}, []string{"allow.additional.vm.configuration.list.kvm"}},
		"Incus, in a project": {guestOf(facts.Incus, "shop/web", 4096, "0-15", "0-15"), slices.Concat(pin, emulator,
			hand("domain.queues "+first+"/queues 2", "domain.hugepages memory/pages on")), map[string]string{
			"limits.cpu":              "incus config set --project shop web limits.cpu=8-9",
			"limits.memory.hugepages": "incus config set --project shop web limits.memory.hugepages=true"},
			[]string{first + "/queues", "emulatorpin"}, []string{"their number"}},
		"LXD, one vCPU: a number alone would be how many": {guestOf(facts.LXD, "web", 4096, "0-15"),
			hand("domain.vcpupin vcpu/0/pin 8", "domain.numatune memory/nodes 1"), map[string]string{
				"limits.cpu":       "lxc config set web limits.cpu=8-8",
				"limits.cpu.nodes": "lxc config set web limits.cpu.nodes=1"}, nil, nil},
		"Incus, whose name would be more than a word": {guestOf(facts.Incus, "web;x", 4096, "0-15"), pin, nil,
			[]string{"vcpu/0/pin", "vcpu/1/pin"}, nil},
		"LXD, whose project would be an option": {guestOf(facts.LXD, "-x/web", 4096, "0-15"), pin, nil,
			[]string{"vcpu/0/pin", "vcpu/1/pin"}, nil},
		"Incus, several CPUs for a vCPU": {guestOf(facts.Incus, "web", 4096, "0-15"), hand("domain.vcpupin vcpu/0/pin 8-15"),
			nil, []string{"vcpu/0/pin"}, nil},
		"OpenNebula": {guestOf(facts.OpenNebula, "42", 4096, "0-15", "0-15"), slices.Concat(pin, emulator, hand(
			"domain.queues "+second+"/queues 2", "domain.numatune memory/nodes 1", "domain.hugepages memory/pages on",
			"domain.locked memoryBacking/locked on")), map[string]string{
			templateNIC + "52:54:00:00:00:02":         `NIC = [ MODEL = "virtio", VIRTIO_QUEUES = "2" ]`,
			"template, TOPOLOGY":                      `TOPOLOGY = [ PIN_POLICY = "THREAD", HUGEPAGE_SIZE = "1024" ]`,
			"attributes of the host (onehost update)": `EMULATOR_CPUS = "2-3"`},
			[]string{"memoryBacking/locked"}, []string{"chooses the node"}},
		"OpenNebula, pinned by its scheduler": {guestOf(facts.OpenNebula, "42", 4096, "4", "5"), slices.Concat(pin,
			hand("domain.numatune memory/nodes 1")), nil, []string{"vcpu/0/pin", "memory/nodes"}, nil},
		"OpenNebula, on a node": {guestOf(facts.OpenNebula, "42", 2560, "0-15"), hand("domain.numatune memory/nodes 1"),
			map[string]string{"template, TOPOLOGY": `TOPOLOGY = [ NODE_AFFINITY = "1" ]`}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sheets := Of(&facts.Host{Guests: []facts.Guest{*c.guest}}, c.handed, "")
			must.Need(t, len(sheets) == 1, "%d sheets", len(sheets))
			found, notes := map[string]string{}, ""
			for _, w := range sheets[0].Words {
				found[w.Where] = w.Text
				notes += w.Note + "\n"
				must.Hold(t, w.Source != "", "%s has no source", w.Where)
			}
			for where, text := range c.words {
				must.Equal(t, found[where], text, "%s", where)
			}
			must.Hold(t, len(found) == len(c.words), "expected %d words, found %q", len(c.words), found)
			for _, setting := range c.unsaid {
				if !slices.ContainsFunc(sheets[0].Unsaid, func(u Unsaid) bool { return u.Setting == setting && u.Why != "" }) {
					t.Errorf("%s is not among what cannot be said: %+v", setting, sheets[0].Unsaid)
				}
			}
			must.Contain(t, notes, c.notes...)
		})
	}
}

// TestNoPlatform: guests that no platform regenerates, however they are called, have no sheet; those of platforms whose
// words are not known have the plain values.
func TestNoPlatform(t *testing.T) {
	values := hand("domain.queues " + first + "/queues 4")
	for platform, plain := range map[facts.Platform]int{facts.Libvirt: -1, facts.QEMU: -1, facts.OVirt: 1,
		facts.ZStack: 1, facts.Nutanix: 1} {
		g := guestOf(platform, "7", 1024, "0-3")
		sheets := Of(&facts.Host{Guests: []facts.Guest{*g}}, values, "")
		switch {
		case plain < 0 && len(sheets) > 0:
			t.Errorf("%s: %+v", platform, sheets)
		case plain > 0 && (len(sheets) != 1 || len(sheets[0].Plain) != plain || len(sheets[0].Words) > 0):
			t.Errorf("%s: %+v", platform, sheets)
		}
	}
}
