package load

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
)

// mostWalked is the largest guest memory in small pages that is read, in bytes: the kernel walks every page, some 10 ms
// per GiB.
const mostWalked = 64 << 30

// readMemory reads on which NUMA nodes the memory of each guest's process is. It runs once, before watching starts.
func (w *Watch) readMemory() {
	w.nodes = map[int]map[int]uint64{}
	if len(w.h.Topology.Nodes) < 2 {
		return
	}
	for i := range w.h.Guests {
		g := &w.h.Guests[i]
		if g.PID == 0 {
			continue
		}
		missing := func(why string) {
			w.unseen = append(w.unseen, facts.Unseen{
				What: "on which NUMA nodes the memory of guest " + g.Name + " is", Why: why})
		}
		if !g.Hugepages && g.Resident > mostWalked {
			missing(fmt.Sprintf("it has %d GiB in small pages, and to look at each takes too long", g.Resident>>30))
			continue
		}
		text, err := w.tree.Read("proc/" + strconv.Itoa(g.PID) + "/numa_maps")
		if err != nil {
			missing(err.Error())
			continue
		}
		w.nodes[g.PID] = parseNUMAMaps(text)
	}
}

// parseNUMAMaps returns the bytes on each node in /proc/PID/numa_maps (proc_pid_numa_maps(5)), which has for each
// mapping N0=PAGES for each node, and its page size.
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
