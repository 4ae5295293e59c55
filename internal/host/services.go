package host

import (
	"context"
	"slices"
	"strconv"

	"mpps/internal/facts"
)

// watchedServices are the daemons that set values which mpps would set too, as /proc/PID/comm has them. Python
// programs run under their own name (tuned sets it).
var watchedServices = []string{"irqbalance", "tuned", "NetworkManager", "numad", "ksmtuned", "systemd-networkd", "tuned-ppd"}

// process is one process as far as its name tells.
type process struct {
	pid  int
	comm string
}

// processes lists the processes in the order of their numbers.
func (m *Machine) processes() []process {
	proc := m.folder("proc")
	defer proc.close()
	var list []process
	for _, name := range proc.names() {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if comm := proc.line(name + "/comm"); comm != "" {
			list = append(list, process{pid, comm})
		}
	}
	slices.SortFunc(list, func(a, b process) int { return a.pid - b.pid })
	return list
}

// services tells which daemons run that own settings.
func (m *Machine) services(_ context.Context, h *facts.Host) {
	running := map[string]int{}
	for _, p := range m.processes() {
		if _, seen := running[p.comm]; !seen {
			running[p.comm] = p.pid
		}
	}
	for _, name := range watchedServices {
		// comm holds 15 bytes (TASK_COMM_LEN).
		pid, found := running[name[:min(len(name), 15)]]
		h.Services = append(h.Services, facts.Service{Name: name, Running: found, PID: pid})
	}
}
