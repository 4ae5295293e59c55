package systemd

import (
	"context"
	"slices"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
)

// watchedServices are the daemons that set values which mpps sets too, by their process's name. tuned, a Python
// program, sets its own.
var watchedServices = []string{"irqbalance", "tuned", "NetworkManager", "numad", "ksmtuned", "systemd-networkd",
	"tuned-ppd"}

// Inventory reads which of these daemons run, and the storage daemons.
func Inventory(_ context.Context, m *tree.Tree, h *facts.Host) {
	all := trust.Processes(m)
	for _, d := range trust.Daemons(m, all, storageDaemons...) {
		storage(m, h, d)
	}
	running := map[string]int{}
	for _, d := range trust.Daemons(m, all, watchedServices...) {
		if _, seen := running[d.Service]; !seen {
			running[d.Service] = d.PID
		}
	}
	for _, name := range watchedServices {
		pid, found := running[name]
		h.Services = append(h.Services, facts.Service{Name: name, Running: found, PID: pid})
	}
}

// storageDaemons serve one disk each, on hosts that have guests too. Each needs a CPU (from experience: the number of
// OSDs decides how many vCPUs fit on the host).
var storageDaemons = []string{"ceph-osd", "glusterfsd", "beegfs-storage"}

// storage counts one such daemon on the node of its CPUs.
func storage(m *tree.Tree, h *facts.Host, d trust.Daemon) {
	if len(h.Topology.Nodes) == 0 {
		return
	}
	node := h.Topology.Nodes[0].ID
	bound := threads.Affinity(m, d.PID, d.PID)
	for _, n := range h.Topology.Nodes {
		if len(bound) > 0 && len(bound.Minus(n.CPUs)) == 0 {
			node = n.ID
		}
	}
	at := slices.IndexFunc(h.Storage, func(s facts.Storage) bool { return s.Name == d.Service && s.Node == node })
	if at < 0 {
		at = len(h.Storage)
		h.Storage = append(h.Storage, facts.Storage{Name: d.Service, Node: node})
	}
	h.Storage[at].Count++
	h.Storage[at].Memory += threads.Resident(m, d.PID)
}
