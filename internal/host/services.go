package host

import (
	"context"
	"slices"
	"strconv"
	"strings"

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

// services tells which daemons run that own settings.
func (m *Machine) services(_ context.Context, h *facts.Host) {
	running := map[string]int{}
	for _, p := range m.processes() {
		if slices.Contains(storageDaemons, p.comm) {
			m.storage(h, p)
		}
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

// storageDaemons serve disks from hosts that have guests too, each for one disk: they want a CPU each (founding experience: the
// number of OSDs decides how many vCPUs fit beside them).
var storageDaemons = []string{"ceph-osd", "glusterfsd", "beegfs-storage"}

// storage counts one such daemon, on the node that its CPUs are of.
func (m *Machine) storage(h *facts.Host, p process) {
	if len(h.Topology.Nodes) == 0 {
		return
	}
	node := h.Topology.Nodes[0].ID
	bound := m.affinity(p.pid, p.pid)
	for _, n := range h.Topology.Nodes {
		if len(bound) > 0 && len(bound.Minus(n.CPUs)) == 0 {
			node = n.ID
		}
	}
	at := slices.IndexFunc(h.Storage, func(s facts.Storage) bool { return s.Name == p.comm && s.Node == node })
	if at < 0 {
		at = len(h.Storage)
		h.Storage = append(h.Storage, facts.Storage{Name: p.comm, Node: node})
	}
	h.Storage[at].Count++
	h.Storage[at].Memory += m.resident(p.pid)
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
