package cpu

import (
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
)

// cpuinfoHead is enough for the first CPU of /proc/cpuinfo: the whole file of a large machine is slow to make (the
// kernel samples every CPU's frequency).
const cpuinfoHead = 8 << 10

// FirstCPU is the lines of the first processor in /proc/cpuinfo (and what stands before it) by name; empty where there
// is none.
func FirstCPU(m *tree.Tree) map[string]string {
	text, err := m.Head("proc/cpuinfo", cpuinfoHead)
	if err != nil {
		return nil
	}
	lines := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, seen := lines[name]; seen && name == "processor" {
			break
		}
		if found {
			if _, seen := lines[name]; !seen {
				lines[name] = strings.TrimSpace(value)
			}
		}
	}
	return lines
}

// Model is the processor's name: the line differs by architecture (arch/*/kernel/setup.c, show_cpuinfo).
func Model(cpu map[string]string) string {
	for _, name := range []string{"model name", "Processor", "cpu model", "Model Name", "cpu", "family"} {
		if value := cpu[name]; value != "" {
			return value
		}
	}
	return ""
}

// vendor is the processor's maker as the kernel names it.
func vendor(cpu map[string]string) string {
	for _, name := range []string{"vendor_id", "vendor", "CPU implementer"} {
		if value := cpu[name]; value != "" {
			return value
		}
	}
	return ""
}

// computeUnits reports whether the processor may be one of AMD's with two cores to a compute unit (families 15h, 16h).
func computeUnits(cpu map[string]string) bool {
	return cpu["vendor_id"] == "AuthenticAMD" && (cpu["cpu family"] == "21" || cpu["cpu family"] == "22")
}

// parseCpuinfo is the topology in /proc/cpuinfo, for machines whose sysfs has none: packages by "physical id", cores by
// package and "core id". A CPU without these lines has neither. CPUs that are not listed are not known of.
func parseCpuinfo(text string) *processors {
	p := &processors{ids: map[int]cpuNumber{}, objects: newObjects()}
	packages, cores := map[int]mask{}, map[[2]int]mask{}
	cpu := -1
	var id cpuNumber
	end := func() {
		if cpu < 0 {
			return
		}
		p.present = p.present.with(cpu)
		p.ids[cpu] = id
		if id.pkg >= 0 {
			packages[id.pkg] = packages[id.pkg].with(cpu)
		}
		if id.core >= 0 {
			key := [2]int{id.pkg, id.core}
			cores[key] = cores[key].with(cpu)
		}
		cpu = -1
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		number, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if err != nil {
			continue
		}
		switch strings.TrimSpace(name) {
		case "processor":
			end()
			if number < 16384 {
				cpu, id = int(number), cpuNumber{-1, -1, -1}
			}
		case "physical id":
			id.pkg = int(number)
		case "core id":
			id.core = int(number)
		}
	}
	end()
	p.online, p.known = p.present, p.present
	p.present.members(func(cpu int) bool {
		id := p.ids[cpu]
		if set := packages[id.pkg]; id.pkg >= 0 && set.first() == cpu {
			p.insert(object{kind: kindPackage, cpus: set, id: id.pkg})
		}
		if set := cores[[2]int{id.pkg, id.core}]; id.core >= 0 && set.first() == cpu {
			p.insert(object{kind: kindCore, cpus: set, id: id.core})
		}
		return true
	})
	return p
}

// parseStatCPUs is the online CPUs of /proc/stat, for machines that tell nothing else ("cpu0 …" lines).
func parseStatCPUs(text string) mask {
	var cpus mask
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, " ")
		digits, found := strings.CutPrefix(name, "cpu")
		if n, err := strconv.ParseUint(digits, 10, 14); found && err == nil {
			cpus = cpus.with(int(n))
		}
	}
	return cpus
}
