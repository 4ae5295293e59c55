package machine

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
)

// mostWalked is up to which size the memory of a guest in small pages is looked at: the kernel walks every page, some
// 10 ms for each GiB.
const mostWalked = 64 << 30

// memory is on which NUMA nodes the memory of each guest's process is, by process. It is read once, before watching
// begins.
func (w *LoadWatch) memory() {
	w.nodes = map[int]map[int]uint64{}
	if len(w.h.Topology.Nodes) < 2 {
		return
	}
	for i := range w.h.Guests {
		g := &w.h.Guests[i]
		if g.PID == 0 {
			continue
		}
		if !g.Hugepages && g.Resident > mostWalked {
			w.unseen = append(w.unseen, facts.Unseen{What: "on which NUMA nodes the memory of guest " + g.Name + " is",
				Why: fmt.Sprintf("it has %d GiB in small pages, and to look at each takes too long", g.Resident>>30)})
			continue
		}
		text, err := w.m.Read("proc/" + strconv.Itoa(g.PID) + "/numa_maps")
		if err != nil {
			w.unseen = append(w.unseen, facts.Unseen{What: "on which NUMA nodes the memory of guest " + g.Name + " is",
				Why: err.Error()})
			continue
		}
		w.nodes[g.PID] = parseNUMAMaps(text)
	}
}

// parseNUMAMaps adds up /proc/PID/numa_maps (proc_pid_numa_maps(5)): of each mapping N0=PAGES for each node, and the
// size of its pages.
func parseNUMAMaps(text string) map[int]uint64 {
	sums := map[int]uint64{}
	for line := range strings.Lines(text) {
		size := uint64(4)
		pages := map[int]uint64{}
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				continue
			}
			if name == "kernelpagesize_kB" {
				size = n
			}
			if node, err := strconv.Atoi(strings.TrimPrefix(name, "N")); err == nil && strings.HasPrefix(name, "N") {
				pages[node] += n
			}
		}
		for node, n := range pages {
			sums[node] += n * size << 10
		}
	}
	maps.DeleteFunc(sums, func(_ int, n uint64) bool { return n == 0 })
	return sums
}
