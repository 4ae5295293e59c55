package cpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

const nodeFolder = "sys/devices/system/node"

// readNodes reads the NUMA nodes, including those without CPUs and those without memory. If two nodes claim the same
// CPU, it keeps the lower-numbered one: old kernels had such tables from broken firmware, current ones never do.
// Emulated nodes (numa=fake=) do overlap.
func readNodes(m *tree.Tree, commandLine string) (nodes []facts.Node, suspect []string) {
	folder := m.Folder(nodeFolder)
	if folder == nil {
		return nil, nil
	}
	defer folder.Close()
	folder.ListMalformed(&suspect)
	var numbers []int
	if online, known := listFile(folder, "online"); known && !online.empty() {
		numbers = online.set()
	} else {
		numbers = folder.Numbers("node")
	}
	hidden := gpuNodes(m)
	fake := strings.Contains(commandLine, "numa=fake=")
	var taken mask
	var columns []int // of the nodes that are kept, in the kernel's distance rows
	for column, number := range numbers {
		at := folder.Folder("node" + strconv.Itoa(number))
		cpus, known := maskOrList(at, "cpumap", "cpulist")
		switch {
		case !known:
			suspect = append(suspect, fmt.Sprintf("NUMA node %d has no CPU map: left out", number))
		case cpus.intersects(taken) && !fake:
			suspect = append(suspect, fmt.Sprintf("NUMA node %d claims CPUs %s of nodes before it: left out", number,
				cpus.and(taken).set()))
		case hidden[number]:
			suspect = append(suspect, fmt.Sprintf("NUMA node %d is the memory of a GPU: left out", number))
		default:
			taken = taken.or(cpus)
			columns = append(columns, column)
			nodes = append(nodes, readNode(at, number, cpus))
		}
		at.Close()
	}
	for i, node := range nodes {
		if len(node.Distances) != 0 && len(node.Distances) != len(numbers) {
			suspect = append(suspect, fmt.Sprintf("NUMA node %d has %d distances, expected one for each of %d nodes: "+
				"left out", node.ID, len(node.Distances), len(numbers)))
		}
		nodes[i].Distances = pick(node.Distances, columns, len(numbers))
	}
	return nodes, suspect
}

func readNode(at *tree.Folder, number int, cpus mask) facts.Node {
	node := facts.Node{ID: number, CPUs: cpus.set(), Hugepages: readHugepages(at.Folder("hugepages"))}
	text, _ := at.Text("meminfo")
	node.Memory, node.Free = Meminfo(text, "MemTotal:"), Meminfo(text, "MemFree:")
	// A node has no MemAvailable. Estimate it as free memory plus what the kernel can reclaim without swap, as
	// si_mem_available does for the whole machine (mm/show_mem.c).
	node.Available = node.Free
	for _, cache := range []string{"Active(file):", "Inactive(file):", "SReclaimable:"} {
		node.Available += Meminfo(text, cache)
	}
	distances := at.Line("distance")
	for field := range strings.FieldsSeq(distances) {
		distance, err := strconv.Atoi(field)
		if err != nil {
			at.AddMalformed("distance", "numbers", distances)
			node.Distances = nil
			break
		}
		node.Distances = append(node.Distances, distance)
	}
	return node
}

// pick returns the values of a distance row at the given columns. It is nil if the row does not have one value for each
// online node: then the columns are unknown.
func pick(row, columns []int, online int) []int {
	if len(row) != online {
		return nil
	}
	picked := make([]int, len(columns))
	for i, column := range columns {
		picked[i] = row[column]
	}
	return picked
}

// wholeMachine returns the only node of a machine whose kernel shows none, with all CPUs and all memory.
func wholeMachine(m *tree.Tree, cpus mask, totals []facts.Hugepages) facts.Node {
	text, _ := m.Read("proc/meminfo")
	return facts.Node{
		CPUs: cpus.set(), Memory: Meminfo(text, "MemTotal:"), Free: Meminfo(text, "MemFree:"),
		Available: Meminfo(text, "MemAvailable:"),
		Distances: []int{10}, Hugepages: totals,
	}
}

// Meminfo returns the value of a meminfo line in bytes, 0 if there is none: "MemTotal: 8386704 kB", for a node
// "Node 0 MemTotal: 8386704 kB".
func Meminfo(text, name string) uint64 {
	_, rest, found := strings.Cut(text, name)
	if !found {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	number, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.ParseUint(number, 10, 53)
	if err != nil {
		return 0
	}
	return n << 10
}

// readHugepages reads the pools below a hugepages directory, smallest page first, and closes it.
func readHugepages(pools *tree.Folder) []facts.Hugepages {
	defer pools.Close()
	var list []facts.Hugepages
	for _, name := range pools.Names() {
		text, isPool := strings.CutPrefix(name, "hugepages-")
		kilobytes, err := strconv.ParseUint(strings.TrimSuffix(text, "kB"), 10, 40)
		if !isPool || err != nil || kilobytes == 0 { // a guest may report pages of no size
			continue
		}
		pool := pools.Folder(name)
		list = append(list, facts.Hugepages{
			Size: kilobytes << 10, Total: sizeOf(pool, "nr_hugepages", 1), Free: sizeOf(pool, "free_hugepages", 1),
			Surplus: sizeOf(pool, "surplus_hugepages", 1), Reserved: sizeOf(pool, "resv_hugepages", 1),
		})
		pool.Close()
	}
	slices.SortFunc(list, func(a, b facts.Hugepages) int { return cmp.Compare(a.Size, b.Size) })
	return list
}

// gpuNodes returns the nodes that are the memory of an NVIDIA GPU on a POWER machine. Guests cannot use them.
func gpuNodes(m *tree.Tree) map[int]bool {
	const folder = "proc/driver/nvidia/gpus"
	gpus := m.List(folder)
	if len(gpus) == 0 {
		return nil
	}
	if info, _ := m.Head("proc/cpuinfo", cpuinfoHead); !strings.Contains(info, "POWER") {
		return nil
	}
	hidden := map[int]bool{}
	for _, gpu := range gpus {
		_, rest, found := strings.Cut(m.Line(folder+"/"+gpu+"/numa_status"), "Node:")
		line, _, _ := strings.Cut(rest, "\n")
		if number, err := strconv.Atoi(strings.TrimSpace(line)); found && err == nil {
			hidden[number] = true
		}
	}
	return hidden
}
