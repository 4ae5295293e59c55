package cpu

import (
	"strconv"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

const Dir = "sys/devices/system/cpu"

// processors are the CPUs as devices/system/cpu shows them, or /proc/cpuinfo if sysfs has no topology.
type processors struct {
	present mask // every CPU, offline ones too
	online  mask
	known   mask              // online and with a topology
	ids     map[int]cpuNumber // of known CPUs
	objects *objects          // cores, packages, dies and caches as CPU sets
	suspect []string
}

// cpuNumber holds the kernel's numbers of a CPU; −1 if unknown.
type cpuNumber struct{ pkg, die, core int }

// siblingFiles are the names of the files with the CPU sets of a core and a package. Linux 5.3 renamed them
// (Documentation/ABI/stable/sysfs-devices-system-cpu): thread_siblings became core_cpus, core_siblings became
// package_cpus. The old names are deprecated but still there. A machine is read with one naming only.
type siblingFiles struct{ core, pkg string }

var (
	newSiblings = siblingFiles{core: "core_cpus", pkg: "package_cpus"}
	oldSiblings = siblingFiles{core: "thread_siblings", pkg: "core_siblings"}
)

// naming returns the file names that a machine uses, from CPU 0 or, as that may be offline, the first online CPU. It is
// false if sysfs has no topology.
func naming(cpus *tree.Folder, online mask) (siblingFiles, bool) {
	for _, cpu := range []int{0, online.first()} {
		if cpu < 0 {
			continue
		}
		topology := cpus.Folder("cpu" + strconv.Itoa(cpu) + "/topology")
		if topology == nil {
			continue
		}
		defer topology.Close()
		for _, files := range []siblingFiles{newSiblings, oldSiblings} {
			for _, name := range []string{files.core, files.pkg, files.core + "_list", files.pkg + "_list"} {
				if _, there := topology.Text(name); there {
					return files, true
				}
			}
		}
	}
	return siblingFiles{}, false
}

// readProcessors reads the topology of the CPUs from sysfs; false if sysfs has none.
func readProcessors(cpus *tree.Folder, units bool) (*processors, bool) {
	p := &processors{ids: map[int]cpuNumber{}, objects: newObjects()}
	cpus.ListMalformed(&p.suspect)
	for _, cpu := range cpus.Numbers("cpu") {
		p.present = p.present.with(cpu)
	}
	online, listed := listFile(cpus, "online")
	files, found := naming(cpus, online)
	if !found {
		return nil, false
	}
	type opened struct {
		number   int
		cpu      *tree.Folder
		topology *tree.Folder
	}
	var known []opened
	for number := range p.present.members {
		cpu := cpus.Folder("cpu" + strconv.Itoa(number))
		if listed && !online.has(number) || !listed && cpu.Line("online") == "0" {
			cpu.Close()
			continue
		}
		p.online = p.online.with(number)
		topology := cpu.Folder("topology")
		if topology == nil {
			cpu.Close()
			continue
		}
		p.known = p.known.with(number)
		known = append(known, opened{number, cpu, topology})
	}
	coreCPUs := make(map[int]mask, len(known))
	for _, k := range known {
		p.ids[k.number] = cpuNumber{
			pkg:  k.topology.Number("physical_package_id", -1),
			die:  k.topology.Number("die_id", -1),
			core: k.topology.Number("core_id", -1),
		}
		if set, ok := maskOrList(k.topology, files.core, files.core+"_list"); ok {
			coreCPUs[k.number] = set.and(p.known)
		}
	}
	halves := units && p.separateCores(coreCPUs)
	for _, k := range known {
		p.add(k.number, k.topology, files, coreCPUs, halves)
		p.addCaches(k.number, k.cpu, coreCPUs[k.number])
		k.topology.Close()
		k.cpu.Close()
	}
	return p, true
}

// separateCores reports whether siblings of a core have different core numbers: AMD's families 15h and 16h list the two
// cores of a compute unit as siblings. The first core with siblings decides.
func (p *processors) separateCores(coreCPUs map[int]mask) bool {
	for cpu := range p.known.members {
		for sibling := range coreCPUs[cpu].members {
			if sibling != cpu && coreCPUs[cpu].count() > 1 {
				return p.ids[sibling].core != p.ids[cpu].core
			}
		}
	}
	return false
}

// add adds the core, die and package whose first CPU is cpu. Only the first member of a set is asked for it: what its
// other members say is ignored.
func (p *processors) add(cpu int, topology *tree.Folder, files siblingFiles, coreCPUs map[int]mask, halves bool) {
	firstOfCore := true
	if core, known := coreCPUs[cpu]; known {
		firstOfCore = core.first() == cpu
		switch {
		case halves:
			p.insert(object{kind: kindCore, cpus: mask{}.with(cpu), id: p.ids[cpu].core})
		case firstOfCore:
			p.insert(object{kind: kindCore, cpus: core, id: p.ids[cpu].core})
		}
	}
	if !firstOfCore {
		return
	}
	if cluster, known := maskOrList(topology, "cluster_cpus", "cluster_cpus_list"); known {
		if cluster = cluster.and(p.known); cluster.count() > 1 && cluster.first() != cpu {
			return
		}
	}
	die, hasDie := maskOrList(topology, "die_cpus", "die_cpus_list")
	if hasDie {
		// Architectures without dies show each CPU as one (the default of drivers/base/topology.c).
		die = die.and(p.known)
		if hasDie = die.count() > 1; hasDie && die.first() != cpu {
			return
		}
	}
	if pkg, found := maskOrList(topology, files.pkg, files.pkg+"_list"); found {
		if pkg = pkg.and(p.known); pkg.first() == cpu {
			p.insert(object{kind: kindPackage, cpus: pkg, id: p.ids[cpu].pkg})
		}
		hasDie = hasDie && !die.equal(pkg) // the only die of its package
	}
	if hasDie {
		p.insert(object{kind: kindDie, cpus: die, id: p.ids[cpu].die})
	}
}

func (p *processors) insert(o object) {
	if contradiction := p.objects.insert(o); contradiction != "" {
		p.suspect = append(p.suspect, contradiction)
	}
}

// list returns the facts of every present CPU. Its callers fill in node and cache.
func (p *processors) list() []facts.CPU {
	var list []facts.CPU
	owner := map[kind]map[int]int{} // by kind of object: CPU → index in objects.all
	for i, o := range p.objects.all {
		if owner[o.kind] == nil {
			owner[o.kind] = map[int]int{}
		}
		for cpu := range o.cpus.members {
			owner[o.kind][cpu] = i
		}
	}
	cores := map[int]int{}
	for number := range p.present.or(p.online).members {
		cpu := facts.CPU{ID: number, Online: p.online.has(number), Package: -1, Die: -1, Core: -1, CoreID: -1, Node: -1,
			L3: -1}
		if ids, known := p.ids[number]; known {
			cpu.Package, cpu.Die, cpu.CoreID = ids.pkg, ids.die, ids.core
		}
		if i, known := owner[kindCore][number]; known {
			if _, seen := cores[i]; !seen {
				cores[i] = len(cores)
			}
			cpu.Core = cores[i]
			cpu.Siblings = p.objects.all[i].cpus.set()
		}
		list = append(list, cpu)
	}
	return list
}
