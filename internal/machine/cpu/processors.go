package cpu

import (
	"strconv"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

const Dir = "sys/devices/system/cpu"

// processors is what devices/system/cpu (or, where that has no topology, /proc/cpuinfo) tells of the CPUs.
type processors struct {
	present mask // every CPU there is, offline ones too
	online  mask
	known   mask              // online and with a topology
	ids     map[int]cpuNumber // of known CPUs
	objects *objects          // cores, packages, dies and caches as CPU sets
	suspect []string
}

// cpuNumber is the kernel's numbers of a CPU; −1 where it does not tell.
type cpuNumber struct{ pkg, die, core int }

// siblingFiles are the names of the files with the CPU sets of a core and a package. Linux 5.3 renamed them
// (Documentation/ABI/stable/sysfs-devices-system-cpu): thread_siblings became core_cpus, core_siblings became
// package_cpus. The old names are still there but deprecated; one machine is read with one naming only.
type siblingFiles struct{ core, pkg string }

var (
	newSiblings = siblingFiles{core: "core_cpus", pkg: "package_cpus"}
	oldSiblings = siblingFiles{core: "thread_siblings", pkg: "core_siblings"}
)

// naming finds which names a machine uses by its first CPU with a topology: CPU 0, or the first one that is online,
// for CPU 0 may be offline. None: sysfs has no topology.
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

// readProcessors reads the topology of the CPUs from sysfs; false where sysfs has none.
func readProcessors(cpus *tree.Folder, units bool) (*processors, bool) {
	p := &processors{ids: map[int]cpuNumber{}, objects: newObjects()}
	cpus.ListMalformed(&p.suspect)
	for _, cpu := range cpus.Numbers("cpu") {
		p.present = p.present.with(cpu)
	}
	online, listed := listOf(cpus, "online")
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
	p.present.members(func(number int) bool {
		cpu := cpus.Folder("cpu" + strconv.Itoa(number))
		if listed && !online.has(number) || !listed && cpu.Line("online") == "0" {
			cpu.Close()
			return true
		}
		p.online = p.online.with(number)
		topology := cpu.Folder("topology")
		if topology == nil {
			cpu.Close()
			return true
		}
		p.known = p.known.with(number)
		known = append(known, opened{number, cpu, topology})
		return true
	})
	coreCPUs := make(map[int]mask, len(known))
	for _, k := range known {
		p.ids[k.number] = cpuNumber{
			pkg:  k.topology.Number("physical_package_id", -1),
			die:  k.topology.Number("die_id", -1),
			core: k.topology.Number("core_id", -1),
		}
		if set, ok := eitherOf(k.topology, files.core, files.core+"_list"); ok {
			coreCPUs[k.number] = set.and(p.known)
		}
	}
	halves := units && p.halves(coreCPUs)
	for _, k := range known {
		p.add(k.number, k.topology, files, coreCPUs, halves)
		p.addCaches(k.number, k.cpu, coreCPUs[k.number])
		k.topology.Close()
		k.cpu.Close()
	}
	return p, true
}

// halves reports whether the threads of a core have core numbers of their own: AMD's families 15h and 16h list the two
// cores of a compute unit as siblings. The first core with siblings decides.
func (p *processors) halves(coreCPUs map[int]mask) bool {
	answer := false
	p.known.members(func(cpu int) bool {
		if coreCPUs[cpu].count() < 2 {
			return true
		}
		coreCPUs[cpu].members(func(sibling int) bool {
			if sibling == cpu {
				return true
			}
			answer = p.ids[sibling].core != p.ids[cpu].core
			return false
		})
		return false
	})
	return answer
}

// add adds the core, die and package that a CPU is the first one of. A set counts where its first member names it;
// what the other members say of it is not asked, as long as they are not the first of what they name.
func (p *processors) add(cpu int, topology *tree.Folder, files siblingFiles, coreCPUs map[int]mask, halves bool) {
	firstOfCore := true
	if core, told := coreCPUs[cpu]; told {
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
	if cluster, told := eitherOf(topology, "cluster_cpus", "cluster_cpus_list"); told {
		if cluster = cluster.and(p.known); cluster.count() > 1 && cluster.first() != cpu {
			return
		}
	}
	die, told := eitherOf(topology, "die_cpus", "die_cpus_list")
	if told {
		// Architectures without dies say that each CPU is one (the default of drivers/base/topology.c).
		die = die.and(p.known)
		if told = die.count() > 1; told && die.first() != cpu {
			return
		}
	}
	if pkg, found := eitherOf(topology, files.pkg, files.pkg+"_list"); found {
		if pkg = pkg.and(p.known); pkg.first() == cpu {
			p.insert(object{kind: kindPackage, cpus: pkg, id: p.ids[cpu].pkg})
		}
		told = told && !die.equal(pkg) // a die that is its package tells nothing
	}
	if told {
		p.insert(object{kind: kindDie, cpus: die, id: p.ids[cpu].die})
	}
}

func (p *processors) insert(o object) {
	if contradiction := p.objects.insert(o); contradiction != "" {
		p.suspect = append(p.suspect, contradiction)
	}
}

// list makes the facts of every present CPU. Node and cache are filled in by those who know them.
func (p *processors) list() []facts.CPU {
	var list []facts.CPU
	owner := map[kind]map[int]int{} // by kind of object: CPU → index in objects.all
	for i, o := range p.objects.all {
		if owner[o.kind] == nil {
			owner[o.kind] = map[int]int{}
		}
		o.cpus.members(func(cpu int) bool { owner[o.kind][cpu] = i; return true })
	}
	cores := map[int]int{}
	p.present.or(p.online).members(func(number int) bool {
		cpu := facts.CPU{ID: number, Online: p.online.has(number), Package: -1, Die: -1, Core: -1, CoreID: -1, Node: -1,
			L3: -1}
		if ids, told := p.ids[number]; told {
			cpu.Package, cpu.Die, cpu.CoreID = ids.pkg, ids.die, ids.core
		}
		if i, told := owner[kindCore][number]; told {
			if _, seen := cores[i]; !seen {
				cores[i] = len(cores)
			}
			cpu.Core = cores[i]
			cpu.Siblings = p.objects.all[i].cpus.set()
		}
		list = append(list, cpu)
		return true
	})
	return list
}
