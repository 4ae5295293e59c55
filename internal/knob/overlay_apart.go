package knob

import (
	"slices"
	"strconv"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// apart says what keeps the queues of a guest's NIC apart whatever the devices on the way do, empty where nothing does: a program that
// carries their numbers, or XPS with a CPU for each of its vhost threads. sure is false where no configuration tells by which NIC its packets
// leave, and only some NIC of the host is set up so.
func (v *View) apart(g *facts.Guest, i facts.Interface) (how string, sure bool) {
	behind := v.paths.Behind(i)
	pinned := v.ownCPUs(g, i)
	var carried, byCPU []string
	for n := range v.NICs {
		nic := &v.NICs[n]
		if len(behind) > 0 && !slices.Contains(behind, nic.Name) {
			continue
		}
		switch {
		case nic.Steered:
			carried = append(carried, nic.Name)
		case pinned && nic.TxQueues > 1 && v.spreadsThreads(nic):
			byCPU = append(byCPU, nic.Name)
		}
	}
	sure = len(behind) > 0 && len(carried)+len(byCPU) == len(behind)
	switch {
	case len(behind) > 0 && !sure:
		return "", false
	case len(carried) > 0:
		return "a program carries it from the tap to " + strings.Join(carried, ", ") + " (mpps path --steer)", sure
	case len(byCPU) > 0:
		return "each of its vhost threads has a CPU of its own, by which XPS of " + strings.Join(byCPU, ", ") + " chooses the queue", sure
	}
	return "", false
}

// spreadsThreads tells whether XPS of a NIC gives a queue to each CPU on which a vhost thread stays, and none to more of them than it must.
func (v *View) spreadsThreads(n *facts.NIC) bool {
	stays := map[int]bool{}
	for i := range v.Guests {
		for _, t := range v.Guests[i].Threads {
			if cpus := v.threadCPUs(&v.Guests[i], t); t.Role == "vhost" && len(cpus) == 1 {
				stays[cpus[0]] = true
			}
		}
	}
	most, covered := (len(stays)+n.TxQueues-1)/n.TxQueues, 0
	for q := range n.TxQueues {
		r := v.Readings.At(setting.XPS(n.Name, q))
		cpus, err := setting.ParseCPUs(r.Value)
		if r.State != setting.Known || err != nil {
			return false
		}
		busy := 0
		for _, cpu := range cpus {
			if stays[cpu] {
				busy++
			}
		}
		if busy > most {
			return false
		}
		covered += busy
	}
	return covered == len(stays) // each in one queue's set
}

// threadCPUs are the CPUs that a vhost thread may use.
func (v *View) threadCPUs(g *facts.Guest, t facts.Thread) setting.CPUSet {
	if r := v.Readings.At(setting.Of(setting.ThreadAffinity, g.Name, "vhost", t.NIC, strconv.Itoa(t.Queue))); r.State == setting.Known {
		if cpus, err := setting.ParseCPUs(r.Value); err == nil {
			return cpus
		}
	}
	return t.Affinity
}

// ownCPUs tells whether each vhost thread of a guest's NIC has a CPU, and no two the same.
func (v *View) ownCPUs(g *facts.Guest, i facts.Interface) bool {
	taken, threads := map[int]bool{}, 0
	for _, t := range g.Threads {
		if t.Role != "vhost" || t.NIC != i.MAC {
			continue
		}
		cpus := v.threadCPUs(g, t)
		if len(cpus) != 1 || taken[cpus[0]] || t.Sure == facts.NotByOrder {
			return false
		}
		taken[cpus[0]], threads = true, threads+1
	}
	return threads > 0 && threads == i.Queues
}
