package handover

import (
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// instance is Incus or LXD, by its program, which writes QEMU's configuration from the instance's at each start
// (internal/server/instance/drivers/driver_qemu.go, generateQemuConfig).
func instance(program string) platform {
	source := words.Either(program == "incus", "incus", "lxd") + ", doc/reference/instance_options.md"
	option := func(where, text string) said { return said{where: where, text: text, source: source} }
	return platform{
		effect: "when the instance is stopped and started",
		join: func(g *facts.Guest, where string, texts []string) string {
			command, name := program+" config set ", g.Owner.ID
			if project, of, found := strings.Cut(name, "/"); found {
				command, name = command+"--project "+project+" ", of
			}
			if where == "limits.cpu" {
				texts = []string{"limits.cpu=" + cpuList(unionOf(texts))}
			}
			return command + name + " " + strings.Join(texts, " ")
		},
		always: []Unsaid{noVhost},
		say: func(g *facts.Guest, h plan.Handed) said {
			if !isInstance(g.Owner.ID) { // it becomes part of a command
				return said{unsaid: "its name is not known"}
			}
			switch h.ID {
			case "domain.queues": // driver_qemu.go, configureQueues
				return said{unsaid: "it makes a queue for each vCPU, at least two"}
			case "domain.vcpupin":
				return instancePins(g, h, option)
			case "domain.numatune":
				s := option("limits.cpu.nodes", "limits.cpu.nodes="+h.Value.Value)
				s.note = "a list in limits.cpu decides about the memory too, and this is not needed then"
				return s
			case "domain.hugepages":
				return option("limits.memory.hugepages", "limits.memory.hugepages=true")
			case "domain.backend":
				return said{unsaid: "it uses vhost wherever the kernel has it"}
			}
			return said{}
		},
	}
}

// isInstance reports whether a text is INSTANCE or PROJECT/INSTANCE. Both are letters, digits, dashes and dots, and do
// not begin like an option.
func isInstance(id string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for name := range strings.SplitSeq(id, "/") {
		if name == "" || strings.Trim(name, letters+"-.") != "" || strings.Trim(name[:1], letters) != "" {
			return false
		}
	}
	return strings.Count(id, "/") < 2
}

// instancePins returns the setting for pinned vCPUs: a list of as many CPUs as vCPUs, one for each.
func instancePins(g *facts.Guest, h plan.Handed, option func(where, text string) said) said {
	cpus, err := setting.ParseCPUs(h.Value.Value)
	switch {
	case err != nil || len(cpus) != 1:
		return said{unsaid: "a list of CPUs gives each vCPU one: several for a vCPU cannot be said"}
	case ownCPUs(g):
		return said{unsaid: "each vCPU has a CPU already: which vCPU has which cannot be said"}
	}
	s := option("limits.cpu", strconv.Itoa(cpus[0]))
	s.note = "as many CPUs as vCPUs: the list is their number too"
	return s
}

// cpuList returns a list of CPUs; one CPU as a range, since a number alone is how many.
func cpuList(cpus setting.CPUSet) string {
	if len(cpus) == 1 {
		return cpus.String() + "-" + cpus.String()
	}
	return cpus.String()
}
