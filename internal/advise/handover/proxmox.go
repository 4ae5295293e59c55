package handover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

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
			return said{unsaid: "which of its NICs it is cannot be determined"}
		}
		if _, err := strconv.ParseUint(g.Owner.ID, 10, 31); err != nil { // it becomes part of a command
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
			if proxmoxPlaced(g, h) {
				return said{unsaid: "the guest is on dedicated CPUs already; one for each vCPU cannot be said"}
			}
			s := word("affinity", h.Value.Value)
			s.note = "it is of the guest as a whole: vCPUs have no CPU each"
			return s
		case "domain.numatune":
			return word("numa", fmt.Sprintf("--numa 1 --numa0 cpus=0-%d,hostnodes=%s,memory=%d,policy=bind",
				max(g.VCPUs-1, 0), h.Value.Value, g.Memory>>20))
		case "domain.hugepages":
			s := word("hugepages", "--numa 1 --hugepages "+pageMiB(g)+" --keephugepages 1")
			s.note = "the size must divide the guest's memory; ballooning goes (--balloon 0)"
			return s
		case "domain.nosharepages":
			return word("allow-ksm", "--allow-ksm 0")
		case "domain.cpu_model":
			if strings.HasSuffix(h.Setting, "cpu/mode") {
				s := word("cpu", "--cpu host")
				s.note = "flags that the option has now are to be repeated"
				return s
			}
		case "domain.backend":
			return said{unsaid: "it uses vhost for virtio wherever the kernel has it"}
		}
		return said{}
	},
}

// proxmoxPlaced reports whether a guest's affinity holds the CPU that is wanted and leaves room for no more vCPUs and
// an emulator than it has: setting it again would say the same.
func proxmoxPlaced(g *facts.Guest, h plan.Handed) bool {
	want, err := setting.ParseCPUs(h.Value.Value)
	places := vcpuPlaces(g)
	if err != nil || len(places) == 0 || len(want.Minus(places[0])) > 0 {
		return false
	}
	same := func(cpus setting.CPUSet) bool { return cpus.Equal(places[0]) }
	return len(places[0]) <= g.VCPUs+2 && !slices.ContainsFunc(places, func(c setting.CPUSet) bool { return !same(c) })
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
