package host

import (
	"slices"
	"strconv"
	"strings"
)

// process is one process as far as its name tells.
type process struct {
	pid  int
	comm string
}

// processes lists the processes in the order of their numbers.
func (m *Machine) processes() []process {
	proc := m.Folder("proc")
	defer proc.Close()
	var list []process
	for _, name := range proc.Names() {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if comm := proc.Line(name + "/comm"); comm != "" {
			list = append(list, process{pid, comm})
		}
	}
	slices.SortFunc(list, func(a, b process) int { return a.pid - b.pid })
	return list
}

// resident is the memory that a process has in use, in bytes; 0 where that cannot be told.
func (m *Machine) resident(pid int) uint64 {
	status, _ := m.Read("proc/" + strconv.Itoa(pid) + "/status")
	_, rest, _ := strings.Cut(status, "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
