package cpu

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// cpuinfoHead is how many bytes of /proc/cpuinfo are read for the first CPU. On a large machine the whole file is slow:
// the kernel samples every CPU's frequency.
const cpuinfoHead = 8 << 10

// FirstCPU returns the lines of the first processor in /proc/cpuinfo, and those before it, by name.
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

// Model returns the processor's name. The line differs by architecture (arch/*/kernel/setup.c, show_cpuinfo).
func Model(cpu map[string]string) string {
	return cmp.Or(cpu["model name"], cpu["Processor"], cpu["cpu model"], cpu["Model Name"], cpu["cpu"], cpu["family"],
		armModels[[2]string{cpu["CPU implementer"], cpu["CPU part"]}])
}

// armModels are the cores of 64-bit Arm servers by implementer and part, for which /proc/cpuinfo has no name
// (arch/arm64/include/asm/cputype.h, ARM_CPU_IMP_* and *_CPU_PART_*).
var armModels = map[[2]string]string{
	{"0x41", "0xd07"}: "Cortex-A57", {"0x41", "0xd08"}: "Cortex-A72", {"0x41", "0xd0b"}: "Cortex-A76",
	{"0x41", "0xd0c"}: "Neoverse-N1", {"0x41", "0xd40"}: "Neoverse-V1", {"0x41", "0xd49"}: "Neoverse-N2",
	{"0x41", "0xd4f"}: "Neoverse-V2", {"0x41", "0xd84"}: "Neoverse-V3", {"0x41", "0xd8e"}: "Neoverse-N3",
	{"0x42", "0x516"}: "ThunderX2", {"0x43", "0x0a1"}: "ThunderX", {"0x43", "0x0af"}: "ThunderX2",
	{"0x46", "0x001"}: "A64FX", {"0x48", "0xd01"}: "TaiShan-v110", {"0xc0", "0xac3"}: "Ampere-1",
	{"0xc0", "0xac4"}: "Ampere-1a",
}

// vendor returns the kernel's name of the processor's vendor.
func vendor(cpu map[string]string) string {
	return cmp.Or(cpu["vendor_id"], cpu["vendor"], cpu["CPU implementer"])
}

// processor returns the numbers of an x86 processor; nil if these lines do not tell.
func processor(cpu map[string]string) *facts.Processor {
	family, err := strconv.Atoi(cpu["cpu family"])
	model, errModel := strconv.Atoi(cpu["model"])
	if err != nil || errModel != nil {
		return nil
	}
	p := &facts.Processor{Family: family, Model: model}
	flags := strings.Fields(cpu["flags"] + " " + cpu["vmx flags"])
	for _, flag := range facts.ProcessorFlags {
		if slices.Contains(flags, flag) {
			p.Flags = append(p.Flags, flag)
		}
	}
	return p
}

// computeUnits reports whether the processor may have two cores per compute unit (AMD families 15h and 16h).
func computeUnits(cpu map[string]string) bool {
	return cpu["vendor_id"] == "AuthenticAMD" && (cpu["cpu family"] == "21" || cpu["cpu family"] == "22")
}

// parseCpuinfo returns the topology in /proc/cpuinfo, for machines without one in sysfs: packages by "physical id",
// cores by package and "core id". A CPU without these lines has neither. CPUs that are not listed stay unknown.
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
	for cpu := range p.present.members {
		id := p.ids[cpu]
		if set := packages[id.pkg]; id.pkg >= 0 && set.first() == cpu {
			p.insert(object{kind: kindPackage, cpus: set, id: id.pkg})
		}
		if set := cores[[2]int{id.pkg, id.core}]; id.core >= 0 && set.first() == cpu {
			p.insert(object{kind: kindCore, cpus: set, id: id.core})
		}
	}
	return p
}

// parseStatCPUs returns the online CPUs in /proc/stat ("cpu0 …" lines), for machines with no other source.
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
