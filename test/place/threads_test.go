//go:build lab

package place

import (
	"strconv"
	"strings"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// seats is where a guest's threads may run, as the host's kernel says; mpps has no part in it.
type seats struct {
	vcpus, vhost []setting.CPUSet
	// QEMU's main loop; its workers come and go, and start where the thread is that wants them
	main setting.CPUSet
}

// seats reads the threads of a guest's QEMU, which since 6.4 are those of vhost too.
func (s *scene) seats(guest string) seats {
	s.Helper()
	var all seats
	for line := range strings.Lines(s.Must(`pid=$(cat /run/libvirt/qemu/` + guest + `.pid)
awk -v main=$pid '/^Name:/ { name = substr($0, 7) } /^Pid:/ && $2 == main { name = "main" } /^Cpus_allowed_list:/ { print name "|" $2 }' \
	$(ls -d /proc/$pid/task/* | sort -V | sed 's|$|/status|')`)) {
		name, list, _ := strings.Cut(strings.TrimSpace(line), "|")
		cpus, err := setting.ParseCPUs(list)
		must.Need(s, err == nil, "%s: thread %q on CPUs %q: %v", guest, name, list, err)
		switch {
		case strings.HasPrefix(name, "CPU "):
			all.vcpus = append(all.vcpus, cpus)
		case strings.HasPrefix(name, "vhost-"):
			all.vhost = append(all.vhost, cpus)
		case name == "main":
			all.main = cpus
		}
	}
	return all
}

// memoryOn is how many pages of a guest's memory, the largest mapping of its QEMU, are on each node.
func (s *scene) memoryOn(guest string) map[int]int {
	s.Helper()
	most, total := map[int]int{}, 0
	for line := range strings.Lines(s.Must("cat /proc/$(cat /run/libvirt/qemu/" + guest + ".pid)/numa_maps")) {
		pages, sum := map[int]int{}, 0
		for _, word := range strings.Fields(line) {
			node, count, found := strings.Cut(word, "=")
			id, err := strconv.Atoi(strings.TrimPrefix(node, "N"))
			if n, e := strconv.Atoi(count); found && err == nil && e == nil {
				pages[id] += n
				sum += n
			}
		}
		if sum > total {
			most, total = pages, sum
		}
	}
	must.Need(s, total != 0, "%s has no memory", guest)
	return most
}

// nodeOf is the node of some CPUs of this host: four on each.
func nodeOf(cpus setting.CPUSet) int {
	if len(cpus) == 0 || cpus[0]/4 != cpus[len(cpus)-1]/4 {
		return -1
	}
	return cpus[0] / 4
}
