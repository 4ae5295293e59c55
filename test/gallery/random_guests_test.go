package gallery

import (
	"fmt"
	"slices"

	"mpps/internal/model/setting"
)

// randomCPUs are the CPUs of a host, and which of them are isolated.
type randomCPUs struct {
	nodes, sockets, cores, threads int
	isolated                       setting.CPUSet
}

func (r *randomCPUs) count() int { return r.sockets * r.cores * r.threads }

// isolate draws isolated CPUs: some first cores of each socket stay the host's, or a part of the CPUs in a row is
// taken, whatever the cores.
func (r *randomCPUs) isolate(d dice) {
	all := r.sockets * r.cores
	if d.in(3) {
		from := 1 + d.IntN(r.count()-1)
		for cpu := from; cpu < min(r.count(), from+1+d.IntN(r.count())); cpu++ {
			r.isolated = append(r.isolated, cpu)
		}
		return
	}
	kept := 1 + d.IntN(max(1, r.cores/2))
	for cpu := range r.count() {
		if cpu%all%r.cores >= kept {
			r.isolated = append(r.isolated, cpu)
		}
	}
}

// arguments are the kernel's, for what is isolated.
func (r *randomCPUs) arguments(d dice) string {
	if len(r.isolated) == 0 {
		return ""
	}
	list := r.isolated.String()
	line := one(d, "isolcpus=", "isolcpus=managed_irq,domain,") + list
	if d.in(2) {
		line += " nohz_full=" + list + " rcu_nocbs=" + list
	}
	return line
}

// seats draws n CPUs in a row, as a rule of the isolated ones if there are any; nil if there are not enough.
func (r *randomCPUs) seats(d dice, n int) setting.CPUSet {
	from := setting.CPUSet{}
	for cpu := range r.count() {
		if len(r.isolated) == 0 || r.isolated.Has(cpu) {
			from = append(from, cpu)
		}
	}
	if d.in(4) || len(from) < n {
		from = nil
		for cpu := range r.count() {
			from = append(from, cpu)
		}
	}
	if len(from) < n {
		return nil
	}
	at := d.IntN(len(from) - n + 1)
	return slices.Clone(from[at : at+n])
}

// guests draws up to four sorts of guests.
func (d dice) guests(r *randomCPUs, bridges []string, pages bool) map[string]any {
	all := map[string]any{}
	for sort := range 1 + d.IntN(4) {
		count, vcpus := one(d, 1, 1, 1, 2, 2, 3, 4, 6), one(d, 1, 2, 2, 4, 4, 8, 12)
		vcpus = min(vcpus, r.count())
		g := map[string]any{"count": count, "vcpus": vcpus, "gib": one(d, 1, 2, 4, 8, 16)}
		queues := one(d, 1, 1, 2, min(vcpus, 8), min(vcpus, 8))
		var nics []any
		for range one(d, 1, 1, 1, 2) {
			nics = append(nics, map[string]any{"type": "bridge", "source": one(d, bridges...), "queues": queues})
		}
		g["nics"] = nics
		d.pin(r, g, count, vcpus)
		if d.in(4) {
			g["by"] = one(d, "nova", "proxmox", "ovirt", "zstack", "qemu", "cloudstack")
		}
		switch d.IntN(10) {
		case 0:
			g["stopped"] = true
		case 1:
			g["windows"] = true
		case 2:
			g["paused"] = true
		}
		if pages && d.in(2) {
			g["pages"] = true
		}
		if d.in(4) {
			g["iothreads"] = 1
		}
		all[fmt.Sprintf("g%c", 'a'+sort)] = g
	}
	return all
}

// pin draws where the threads of guests are pinned.
func (d dice) pin(r *randomCPUs, g map[string]any, count, vcpus int) {
	some := func() string {
		n := 1 + d.IntN(min(4, r.count()))
		at := d.IntN(r.count() - n + 1)
		set := setting.CPUSet{}
		for cpu := at; cpu < at+n; cpu++ {
			set = append(set, cpu)
		}
		return set.String()
	}
	switch d.IntN(6) {
	case 0, 1: // one vCPU on a CPU
		if seats := r.seats(d, count*vcpus); seats != nil {
			g["cpus"] = seats.String()
		}
	case 2: // floating over some
		if seats := r.seats(d, min(r.count(), 1+d.IntN(r.count()))); seats != nil {
			g["cpus"], g["floating"] = seats.String(), true
		}
	}
	if d.in(3) {
		g["emulator"] = some()
	}
	if d.in(4) {
		g["vhost"] = some()
	}
	if d.in(4) {
		g["nodes"] = fmt.Sprint(d.IntN(r.nodes))
	}
	if g["cpus"] != nil && g["floating"] == nil && d.in(8) {
		g["fifo"] = fmt.Sprintf("0-%d", vcpus-1)
	}
}
