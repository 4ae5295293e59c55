package cpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// files are the files of a made-up machine.
type files map[string]string

// plus returns the files with some changed or added; an empty text removes one.
func (f files) plus(others files) files {
	all := maps.Clone(f)
	for name, text := range others {
		if text == "" {
			delete(all, name)
		} else {
			all[name] = text
		}
	}
	return all
}

// cpuFiles returns one CPU's files in sysfs: the members of its core and package, and their numbers.
func cpuFiles(id, core, pkg int, coreCPUs, pkgCPUs string) files {
	at := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", id)
	return files{
		at + "core_id": fmt.Sprint(core), at + "physical_package_id": fmt.Sprint(pkg),
		at + "core_cpus": set(coreCPUs).Mask(), at + "package_cpus": set(pkgCPUs).Mask(),
	}
}

// fourCPUs returns two packages of two cores each, CPUs 0–1 and 2–3, with one NUMA node per package.
func fourCPUs() files {
	all := files{
		"sys/devices/system/cpu/online": "0-3", "sys/devices/system/node/online": "0-1",
		"sys/devices/system/node/node0/cpumap":   "3",
		"sys/devices/system/node/node0/meminfo":  "Node 0 MemTotal:  2048 kB\nNode 0 MemFree:  1024 kB",
		"sys/devices/system/node/node1/cpumap":   "c",
		"sys/devices/system/node/node1/meminfo":  "Node 1 MemTotal:  4096 kB\nNode 1 MemFree:  1024 kB",
		"sys/devices/system/node/node0/distance": "10 21", "sys/devices/system/node/node1/distance": "21 10",
		"proc/meminfo": "MemTotal: 6144 kB\nMemFree: 2048 kB",
	}
	for id := range 4 {
		pkg := id / 2
		maps.Copy(all, cpuFiles(id, id%2, pkg, fmt.Sprint(id), fmt.Sprintf("%d-%d", 2*pkg, 2*pkg+1)))
	}
	return all
}

func l3(cpu int, cpus string) files {
	at := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index3/", cpu)
	return files{at + "level": "3", at + "type": "Unified", at + "size": "16384K", at +
		"shared_cpu_map": set(cpus).Mask()}
}

// oldNames gives a machine the file names of Linux before 5.3.
func (f files) oldNames() files {
	old := files{}
	for name, text := range f {
		name = strings.Replace(name, "core_cpus", "thread_siblings", 1)
		old[strings.Replace(name, "package_cpus", "core_siblings", 1)] = text
	}
	return old
}

// asLists gives a machine lists instead of masks.
func (f files) asLists(t *testing.T) files {
	lists := files{}
	for name, text := range f {
		base, found := strings.CutSuffix(name, "_cpus")
		if found {
			m := must.Get(parseMask(text))(t)
			name, text = base+"_cpus_list", m.set().String()
		}
		lists[name] = text
	}
	return lists
}

func look(t *testing.T, f files) facts.Topology {
	t.Helper()
	var h facts.Host
	Topology(t.Context(), treetest.Lines(t, f), &h)
	consistent(t, &h.Topology)
	return h.Topology
}

func TestTopologyCases(t *testing.T) {
	four := facts.Counts{Packages: 2, NUMANodes: 2, Cores: 4, CPUsOnline: 4}
	const cpu, node = "sys/devices/system/cpu/", "sys/devices/system/node/"
	cases := map[string]struct {
		files   files
		counts  facts.Counts
		offline string
		suspect string
	}{
		"new names": {files: fourCPUs(), counts: four},
		"old names": {files: fourCPUs().oldNames(), counts: four},
		"lists":     {files: fourCPUs().asLists(t), counts: four},
		"no list of online CPUs": {
			files:  fourCPUs().plus(files{cpu + "online": "", cpu + "cpu3/online": "0", cpu + "cpu2/online": "1"}),
			counts: facts.Counts{Packages: 2, NUMANodes: 2, Cores: 3, CPUsOnline: 3, CPUsOffline: 1}, offline: "3",
		},
		"CPU 0 is offline and without a topology": {
			files: fourCPUs().plus(files{
				cpu + "online": "1-3", cpu + "cpu0/topology/core_id": "", cpu + "cpu0/topology/physical_package_id": "",
				cpu + "cpu0/topology/core_cpus": "", cpu + "cpu0/topology/package_cpus": "", cpu + "cpu0/online": "0",
			}),
			counts: facts.Counts{Packages: 2, NUMANodes: 2, Cores: 3, CPUsOnline: 3, CPUsOffline: 1}, offline: "0",
		},
		"node without CPUs": {
			files: fourCPUs().plus(files{
				node + "online": "0-2", node + "node2/cpumap": "0", node + "node2/meminfo": "Node 2 MemTotal: 1024 kB",
				node + "node0/distance": "10 21 17", node + "node1/distance": "21 10 28",
			}),
			counts: facts.Counts{Packages: 2, NUMANodes: 3, Cores: 4, CPUsOnline: 4},
		},
		"overlapping nodes": {
			files:   fourCPUs().plus(files{node + "node1/cpumap": "e"}),
			counts:  facts.Counts{Packages: 2, NUMANodes: 1, Cores: 4, CPUsOnline: 4},
			suspect: "NUMA node 1 claims CPUs 1",
		},
		"overlapping nodes that are emulated": {
			files: fourCPUs().plus(files{node + "node1/cpumap": "f", node + "node0/cpumap": "f",
				"proc/cmdline": "ro numa=fake=2"}),
			counts: four,
		},
		"node without a map": {
			files:   fourCPUs().plus(files{node + "node1/cpumap": ""}),
			counts:  facts.Counts{Packages: 2, NUMANodes: 1, Cores: 4, CPUsOnline: 4},
			suspect: "NUMA node 1 has no CPU map",
		},
		"no NUMA": {
			files: fourCPUs().plus(files{
				node + "online": "", node + "node0/cpumap": "", node + "node0/meminfo": "", node + "node0/distance": "",
				node + "node1/cpumap": "", node + "node1/meminfo": "", node + "node1/distance": "",
			}),
			counts: facts.Counts{Packages: 2, NUMANodes: 1, Cores: 4, CPUsOnline: 4},
		},
		"package number −1": {
			files: fourCPUs().plus(files{cpu + "cpu0/topology/physical_package_id": "-1", cpu +
				"cpu2/topology/physical_package_id": "-1"}),
			counts: four,
		},
		"packages with the same number": {
			files: fourCPUs().plus(files{cpu + "cpu2/topology/physical_package_id": "0", cpu +
				"cpu3/topology/physical_package_id": "0"}),
			counts: four,
		},
		"no packages": {
			files: fourCPUs().plus(files{
				cpu + "cpu0/topology/package_cpus": "", cpu + "cpu1/topology/package_cpus": "",
				cpu + "cpu2/topology/package_cpus": "", cpu + "cpu3/topology/package_cpus": "",
			}),
			counts: facts.Counts{NUMANodes: 2, Cores: 4, CPUsOnline: 4},
		},
		"a cache that some CPUs lack": {
			files:  fourCPUs().plus(l3(0, "0-1")).plus(l3(1, "0-1")).plus(l3(3, "3")),
			counts: facts.Counts{Packages: 2, NUMANodes: 2, L3Caches: 2, Cores: 4, CPUsOnline: 4},
		},
		"a cache across packages": {
			files:  fourCPUs().plus(l3(1, "1-2")).plus(l3(2, "1-2")),
			counts: four, suspect: "L3 cache of CPUs 1-2 overlaps with package 0",
		},
		"one core to two packages": {
			files:   fourCPUs().plus(files{cpu + "cpu1/topology/core_cpus": "6", cpu + "cpu2/topology/core_cpus": "6"}),
			counts:  facts.Counts{Packages: 1, NUMANodes: 2, Cores: 2, CPUsOnline: 4},
			suspect: "core 1 of CPUs 1-2 overlaps",
		},
		"dies": {
			files: fourCPUs().plus(files{
				cpu + "cpu0/topology/package_cpus": "f", cpu + "cpu1/topology/package_cpus": "f", cpu +
					"cpu2/topology/package_cpus": "f", cpu + "cpu3/topology/package_cpus": "f",
				cpu + "cpu0/topology/die_cpus": "3", cpu + "cpu1/topology/die_cpus": "3", cpu +
					"cpu2/topology/die_cpus": "c", cpu + "cpu3/topology/die_cpus": "c",
			}),
			counts: facts.Counts{Packages: 1, Dies: 2, NUMANodes: 2, Cores: 4, CPUsOnline: 4},
		},
		"each CPU its own die, as other architectures say": {
			files: fourCPUs().plus(files{
				cpu + "cpu0/topology/die_cpus": "1", cpu + "cpu1/topology/die_cpus": "2", cpu +
					"cpu2/topology/die_cpus": "4", cpu + "cpu3/topology/die_cpus": "8",
			}),
			counts: four,
		},
		"cpuset": {
			files: fourCPUs().plus(files{"proc/self/cpuset": "/some", "dev/cpuset/cpus": "0-3",
				"dev/cpuset/some/cpus": "0,2-3", "dev/cpuset/some/mems": "0"}),
			counts: facts.Counts{Packages: 2, NUMANodes: 1, Cores: 3, CPUsOnline: 3, CPUsOffline: 1},
		},
		"cpuset that empties a package but not its node": {
			files: fourCPUs().plus(files{"proc/self/cgroup": "0::/some", "sys/fs/cgroup/cpuset.cpus.effective": "0-3",
				"sys/fs/cgroup/some/cpuset.cpus.effective": "0-1", "sys/fs/cgroup/some/cpuset.mems.effective": "0-1"}),
			counts: facts.Counts{Packages: 2, NUMANodes: 2, Cores: 2, CPUsOnline: 2, CPUsOffline: 2},
		},
		"cpuset that empties a package and its node": {
			files: fourCPUs().plus(files{"proc/self/cpuset": "/a", "proc/mounts": "x /cg cgroup rw,cpuset 0 0",
				"cg/a/cpuset.cpus": "0-1", "cg/a/cpuset.mems": "0"}),
			counts: facts.Counts{Packages: 1, NUMANodes: 1, Cores: 2, CPUsOnline: 2, CPUsOffline: 2},
		},
		"cpuset that would lead out of the tree": {
			files: fourCPUs().plus(files{"proc/self/cpuset": "/../../..", "dev/cpuset/cpus": "0-3",
				"dev/cpuset/mems": "0-1"}),
			counts: four,
		},
		"GPU memory on POWER": {
			files: fourCPUs().plus(files{
				"proc/cpuinfo": "processor\t: 0\ncpu\t\t: POWER9, altivec supported", node + "online": "0-1,255", node +
					"node255/cpumap": "0",
				"proc/driver/nvidia/gpus/0004:04:00.0/numa_status": "Node: 255\nStatus: online",
			}),
			counts: four, suspect: "NUMA node 255 is the memory of a GPU",
		},
		"only /proc/cpuinfo": {
			files: files{"proc/cpuinfo": "processor : 0\nphysical id : 0\ncore id : 0\n\nprocessor : 4\nphysical id " +
				": 0\ncore id : 0\n\nprocessor : 2\nphysical id : 196611\ncore id : 0\n",
				"proc/meminfo": "MemTotal: 1024 kB"},
			counts: facts.Counts{Packages: 2, NUMANodes: 1, Cores: 2, CPUsOnline: 3},
		},
		"only /proc/stat": {
			files:  files{"proc/stat": "cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5"},
			counts: facts.Counts{NUMANodes: 1, CPUsOnline: 2},
		},
		"nothing": {files: files{"proc/x": "y"}, counts: facts.Counts{NUMANodes: 1}},
		"nonsense": {
			files: fourCPUs().plus(files{
				cpu + "online": "zzz", cpu + "cpu1/topology/core_cpus": "q", cpu +
					"cpu99999999999/topology/core_cpus": "1",
				node + "node1/distance": "a b", node + "node0/meminfo": "MemTotal: 99999999999999999999 kB",
				"proc/cpuinfo": "\x00\xff:",
			}),
			counts:  facts.Counts{Packages: 2, NUMANodes: 2, Cores: 3, CPUsOnline: 4},
			suspect: `sys/devices/system/cpu/online: expected a list of CPUs or nodes, found "zzz"`,
		},
		"nonsense in the list of online CPUs": {
			files:  fourCPUs().plus(files{cpu + "online": "0-1,,x"}),
			counts: four, suspect: `sys/devices/system/cpu/online: expected a list of CPUs or nodes, found "0-1,,x"`,
		},
		"nonsense in the list of online nodes": {
			files:  fourCPUs().plus(files{node + "online": "0-"}),
			counts: four, suspect: `sys/devices/system/node/online: expected a list of CPUs or nodes, found "0-"`,
		},
		"nonsense for a package": {
			files:  fourCPUs().plus(files{cpu + "cpu1/topology/physical_package_id": "xx"}),
			counts: four, suspect: `sys/devices/system/cpu/cpu1/topology/physical_package_id: expected a number, found "xx"`,
		},
		"nonsense for a core's CPUs": {
			files: fourCPUs().plus(files{cpu + "cpu1/topology/core_cpus": "q", cpu +
				"cpu1/topology/core_cpus_list": "1"}),
			counts: four, suspect: `sys/devices/system/cpu/cpu1/topology/core_cpus: expected a CPU mask, found "q"`,
		},
		"nonsense for a cache's size": {
			files:   fourCPUs().plus(l3(2, "2-3")).plus(files{cpu + "cpu2/cache/index3/size": "16384Q"}),
			counts:  facts.Counts{Packages: 2, NUMANodes: 2, L3Caches: 1, Cores: 4, CPUsOnline: 4},
			suspect: `index3/size: expected a size, found "16384Q"`,
		},
		"nonsense for isolated CPUs": {
			files:  fourCPUs().plus(files{cpu + "isolated": "3-2"}),
			counts: four, suspect: `sys/devices/system/cpu/isolated: expected a list of CPUs or nodes, found "3-2"`,
		},
		"nonsense for a distance": {
			files:  fourCPUs().plus(files{node + "node1/distance": "21 near"}),
			counts: four, suspect: `sys/devices/system/node/node1/distance: expected numbers, found "21 near"`,
		},
		"two distances to three nodes": {
			files:   fourCPUs().plus(files{node + "online": "0-2", node + "node2/cpumap": "0"}),
			counts:  facts.Counts{Packages: 2, NUMANodes: 3, Cores: 4, CPUsOnline: 4},
			suspect: "NUMA node 0 has 2 distances, expected one for each of 3 nodes: left out",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			top := look(t, c.files)
			must.Hold(t, top.Counts == c.counts, "expected %+v, found %+v", c.counts, top.Counts)
			must.Hold(t, top.Offline.String() == c.offline,
				"expected CPUs %q offline, found %q", c.offline, top.Offline)
			if found := strings.Join(top.Suspect, "; "); c.suspect == "" && found != "" ||
				!strings.Contains(found, c.suspect) {
				t.Errorf("expected %q to be suspect, found %q", c.suspect, found)
			}
		})
	}
}

func TestTopologyDetails(t *testing.T) {
	f := fourCPUs().plus(l3(2, "2-3")).plus(l3(3, "2-3")).plus(files{
		"sys/devices/system/cpu/smt/control": "notsupported", "sys/devices/system/cpu/isolated": "2-3",
		"sys/devices/system/cpu/nohz_full":                                         "  (null)",
		"sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages":    "512",
		"sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages":  "500",
		"sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages": "4",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":                    "512",
		"sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages":                  "12",
		"proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Made Up\n\nprocessor\t: 1\nmodel " +
			"name\t: Other\n",
	})
	top := look(t, f)
	if top.SMT != "notsupported" || !top.Isolated.Equal(setting.CPUs(2, 3)) || len(top.NohzFull) != 0 ||
		top.Model != "Made Up" || top.Vendor != "GenuineIntel" {
		t.Errorf("found SMT %q, isolated %s, nohz_full %s, model %q of %q", top.SMT, top.Isolated, top.NohzFull,
			top.Model, top.Vendor)
	}
	node, _ := top.Node(1)
	must.Hold(t, node.Memory == 4<<20 && node.Free == 1<<20 && slices.Equal(node.Distances, []int{21, 10}),
		"node 1: %+v", node)
	want := []facts.Hugepages{{Size: 2 << 20, Total: 512, Free: 500}, {Size: 1 << 30, Total: 4}}
	must.Hold(t, slices.Equal(node.Hugepages, want) && len(top.Hugepages) == 1 && top.Hugepages[0].Reserved == 12,
		"huge pages of node 1: %+v, of the host: %+v", node.Hugepages, top.Hugepages)
	cpu, _ := top.CPU(3)
	must.Hold(t, cpu.Node == 1 && cpu.L3 == 0 && cpu.Package == 1 && cpu.CoreID == 1 && cpu.Core == 3,
		"CPU 3: %+v", cpu)
	if first, _ := top.CPU(0); first.L3 != -1 {
		t.Errorf("CPU 0 has L3 cache %d, expected none", first.L3)
	}
}

// TestDistancesOfKeptNodes drops the middle one of three nodes: its column goes too.
func TestDistancesOfKeptNodes(t *testing.T) {
	const node = "sys/devices/system/node/"
	top := look(t, fourCPUs().plus(files{
		node + "online": "0-2", node + "node1/cpumap": "1", node + "node2/cpumap": "c",
		node + "node0/distance": "10 20 30", node + "node1/distance": "20 10 40", node + "node2/distance": "30 40 10",
	}))
	must.Hold(t, len(top.Nodes) == 2 && slices.Equal(top.Nodes[0].Distances, []int{10, 30}) &&
		slices.Equal(top.Nodes[1].Distances, []int{30, 10}), "found %+v", top.Nodes)
}

// TestSuspectIsBounded: a tree with garbage in every file does not make the result as long as the tree. mostSuspect is
// the most suspect files that may be reported.
const mostSuspect = 64

func TestSuspectIsBounded(t *testing.T) {
	f := files{"sys/devices/system/cpu/online": "0-199"}
	for id := range 200 {
		maps.Copy(f, cpuFiles(id, id, 0, fmt.Sprint(id), "0-199"))
		f[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/core_id", id)] = strings.Repeat("x", 1000)
	}
	top := look(t, f)
	must.Hold(t, len(top.Suspect) == mostSuspect && len(top.Suspect[0]) <= 200,
		"found %d entries, the first %q; expected %d short ones", len(top.Suspect), top.Suspect[0], mostSuspect)
}

// TestComputeUnits: AMD's family 15h has two cores per compute unit, which the kernel lists as siblings with different
// core numbers; other processors' siblings are threads.
func TestComputeUnits(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	f := fourCPUs().plus(files{
		cpu + "cpu0/topology/core_cpus": "3", cpu + "cpu1/topology/core_cpus": "3", cpu +
			"cpu2/topology/core_cpus": "c", cpu + "cpu3/topology/core_cpus": "c",
	})
	family := func(n string) files {
		return files{"proc/cpuinfo": "processor: 0\nvendor_id: AuthenticAMD\ncpu family: " + n}
	}
	must.Equal(t, look(t, f.plus(family("21"))).Counts.Cores, 4, "family 15h cores")
	must.Equal(t, look(t, f.plus(family("25"))).Counts.Cores, 2, "family 19h cores")
}

// TestCoreKinds: hybrid processors list each kind's CPUs, ARM's tell a capacity; one kind alone is none.
func TestCoreKinds(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	capacities := func(all ...string) files {
		f := files{}
		for id, c := range all {
			f[fmt.Sprintf("%scpu%d/cpu_capacity", cpu, id)] = c
		}
		return f
	}
	for name, c := range map[string]struct {
		more files
		want []string
	}{
		"hybrid": {files{"sys/devices/cpu_core/cpus": "0-1", "sys/devices/cpu_atom/cpus": "2-3"},
			[]string{"core", "core", "atom", "atom"}},
		"big.LITTLE":  {capacities("459", "1024", "1024", "1024"), []string{"459", "1024", "1024", "1024"}},
		"all alike":   {capacities("1024", "1024", "1024", "1024"), []string{"", "", "", ""}},
		"no capacity": {files{}, []string{"", "", "", ""}},
	} {
		top := look(t, fourCPUs().plus(c.more))
		must.Same(t, facts.Map(top.CPUs, func(c facts.CPU) string { return c.Kind }), c.want, "%s", name)
	}
	top := facts.Topology{CPUs: []facts.CPU{{Kind: "459", Online: true}, {Kind: "1024", Online: true}, {}}}
	must.Same(t, top.Kinds(), []string{"1024", "459"}, "kinds")
}

func TestLargeMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 8,000 files")
	}
	const cpus, cores = 1088, 544 // more than the 1024 of glibc's cpu_set_t
	list := func(first, n int) string {
		return fmt.Sprintf("%d-%d,%d-%d", first, first+n-1, first+cores, first+cores+n-1)
	}
	f := files{"sys/devices/system/cpu/online": "0-1087", "sys/devices/system/node/online": "0-3"}
	for id := range cpus {
		core := id % cores
		pkg := core / 136
		maps.Copy(f, cpuFiles(id, core%136, pkg, list(core, 1), list(pkg*136, 136)))
		maps.Copy(f, l3(id, list(core/8*8, 8)))
	}
	for n := range 4 {
		f[fmt.Sprintf("sys/devices/system/node/node%d/cpumap", n)] = set(list(n*136, 136)).Mask()
	}
	m := treetest.Lines(t, f)
	var h facts.Host
	start := time.Now()
	Topology(t.Context(), m, &h)
	if want := (facts.Counts{Packages: 4, NUMANodes: 4, L3Caches: 68, Cores: cores,
		CPUsOnline: cpus}); h.Topology.Counts != want {
		t.Errorf("expected %+v, found %+v", want, h.Topology.Counts)
	}
	t.Logf("%d CPUs in %v", cpus, time.Since(start))
	consistent(t, &h.Topology)
}

func FuzzParseMask(f *testing.F) {
	for _, text := range []string{"0", "ff", "00000000,0000000f\n", "1,00000000", "zz", ",",
		"ffffffff,ffffffff,ffffffff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMask(text)
		if err != nil {
			return
		}
		set := m.set()
		again, err := parseMask(set.Mask())
		if err != nil || !again.equal(m) || m.count() != len(set) {
			t.Errorf("%q became %s, and that %s (%v)", text, set, again.set(), err)
		}
		if slow, err := setting.ParseCPUMask(text); err == nil && !slow.Equal(set) && len(slow)+len(set) > 0 {
			t.Errorf("%q: found %s, package setting says %s", text, set, slow)
		}
	})
}

func FuzzParseCpuinfo(f *testing.F) {
	f.Add("processor : 0\nphysical id : 0\ncore id : 1\n")
	f.Add("processor 0: version = FF\n# processors : 2")
	f.Fuzz(func(t *testing.T, text string) {
		p := parseCpuinfo(text)
		if len(p.list()) != p.present.count() {
			t.Errorf("%d CPUs listed of %d", len(p.list()), p.present.count())
		}
	})
}
