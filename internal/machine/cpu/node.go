package cpu

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

const nodeFolder = "sys/devices/system/node"

// readNodes reads the NUMA nodes. Of two nodes that claim the same CPU the lower-numbered one stands: the kernel never
// makes such a table, broken firmware read by old kernels did. Emulated nodes (numa=fake=) do overlap. Nodes without
// CPUs (memory only) and without memory both count.
func readNodes(m *tree.Tree, commandLine string) (nodes []facts.Node, suspect []string) {
	folder := m.Folder(nodeFolder)
	if folder == nil {
		return nil, nil
	}
	defer folder.Close()
	folder.ListMalformed(&suspect)
	var numbers []int
	if online, told := listOf(folder, "online"); told && !online.empty() {
		numbers = online.set()
	} else {
		numbers = folder.Numbers("node")
	}
	hidden := gpuNodes(m)
	fake := strings.Contains(commandLine, "numa=fake=")
	var taken mask
	var columns []int // of the kept nodes in the kernel's distance rows
	for column, number := range numbers {
		at := folder.Folder("node" + strconv.Itoa(number))
		cpus, told := eitherOf(at, "cpumap", "cpulist")
		switch {
		case !told:
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
	// A node tells no MemAvailable: what it has free, and what the kernel gives up without writing to swap
	// (mm/show_mem.c, si_mem_available, counts the like for the whole machine).
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

// pick is the values of a distance row at the given columns; nil where the row does not have one value for every
// online node, for then it is not known which value is whose.
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

// wholeMachine is the one node of a machine whose kernel tells of none: all CPUs and all memory.
func wholeMachine(m *tree.Tree, cpus mask, totals []facts.Hugepages) facts.Node {
	text, _ := m.Read("proc/meminfo")
	return facts.Node{
		CPUs: cpus.set(), Memory: Meminfo(text, "MemTotal:"), Free: Meminfo(text, "MemFree:"),
		Available: Meminfo(text, "MemAvailable:"),
		Distances: []int{10}, Hugepages: totals,
	}
}

// Meminfo is a line's value of a meminfo file in bytes, 0 where there is none: "MemTotal: 8386704 kB", of a node
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
		if !isPool || err != nil {
			continue
		}
		pool := pools.Folder(name)
		list = append(list, facts.Hugepages{
			Size: kilobytes << 10, Total: sizeOf(pool, "nr_hugepages", 1), Free: sizeOf(pool, "free_hugepages", 1),
			Surplus: sizeOf(pool, "surplus_hugepages", 1), Reserved: sizeOf(pool, "resv_hugepages", 1),
		})
		pool.Close()
	}
	sortPools(list)
	return list
}

// gpuNodes are the nodes that are memory of an NVIDIA GPU on a POWER machine: no place for a guest.
func gpuNodes(m *tree.Tree) map[int]bool {
	const folder = "proc/driver/nvidia/gpus"
	gpus := m.List(folder)
	if len(gpus) == 0 || !strings.Contains(m.Line("proc/cpuinfo"), "POWER") {
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
