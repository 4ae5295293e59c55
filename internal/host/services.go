package host

import (
	"context"
	"slices"

	"mpps/internal/facts"
)

// watchedServices are the daemons that set values which mpps would set too, as /proc/PID/comm has them. Python
// programs run under their own name (tuned sets it).
var watchedServices = []string{"irqbalance", "tuned", "NetworkManager", "numad", "ksmtuned", "systemd-networkd", "tuned-ppd"}

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
