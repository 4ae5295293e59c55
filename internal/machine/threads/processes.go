package threads

import (
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
)

// Process is the PID and name of a process.
type Process struct {
	PID  int
	Comm string
}

// Processes returns the processes, sorted by PID.
func Processes(m *tree.Tree) []Process {
	proc := m.Folder("proc")
	defer proc.Close()
	var list []Process
	for _, name := range proc.Names() {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if comm := proc.Line(name + "/comm"); comm != "" {
			list = append(list, Process{pid, comm})
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return a.PID - b.PID })
	return list
}

// Resident returns the resident memory of a process in bytes; 0 if unknown.
func Resident(m *tree.Tree, pid int) uint64 {
	status, _ := m.Read("proc/" + strconv.Itoa(pid) + "/status")
	_, rest, _ := strings.Cut(status, "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
