package libvirt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
)

// guestThreads returns a guest's threads in the order of creation, with the NIC and queue of each vhost worker. all
// returns the machine's processes; it is called only if QEMU's threads have no workers.
func guestThreads(m *tree.Tree, q qemu, all func() []trust.Process, live *domain.Guest) []facts.Thread {
	list := facts.Map(threads.Tasks(m, q.pid), func(t trust.Stat) facts.Thread { return threads.FactOf(m, t, q.pid) })
	queues := vhostQueues(q.nics, live)
	if len(queues) > 0 && !slices.ContainsFunc(list, func(t facts.Thread) bool { return t.Role == "vhost" }) {
		for _, t := range threads.KernelVhosts(m, q.pid, all()) {
			list = append(list, threads.FactOf(m, t, q.pid))
		}
	}
	for i := range list {
		if list[i].Role == "vhost" {
			list[i].RunNS = runNS(m, list[i].TID, q.pid)
		}
	}
	matchVhosts(list, queues)
	return list
}

// runNS returns a thread's run time in nanoseconds (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat); 0 if
// unknown.
func runNS(m *tree.Tree, tid, pid int) uint64 {
	text, err := m.Read(fmt.Sprintf("proc/%d/task/%d/schedstat", pid, tid))
	if err != nil { // a kernel thread
		text, err = m.Read(fmt.Sprintf("proc/%d/schedstat", tid))
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, bad := strconv.ParseUint(first, 10, 64)
	if err != nil || bad != nil {
		return 0
	}
	return n
}

// vhostQueue is one queue pair that has a vhost worker.
type vhostQueue struct {
	mac   string
	queue int
}

// vhostQueues returns the queue pairs with a vhost worker in the order in which QEMU creates the workers: NICs in the
// order of its command line, queue after queue (net/tap.c, net_init_tap: each queue's vhost_net_init sets the device's
// owner, which starts the worker). NICs that were plugged in later follow in the order of the running definition, since
// libvirt appends them there.
func vhostQueues(nics []qemuNIC, live *domain.Guest) []vhostQueue {
	var queues []vhostQueue
	add := func(mac string, n int) {
		for queue := range min(n, 256) {
			queues = append(queues, vhostQueue{mac, queue})
		}
	}
	started := map[string]bool{}
	for _, nic := range nics {
		started[nic.mac] = true
		if live != nil && !slices.ContainsFunc(live.Interfaces,
			func(i domain.Interface) bool { return i.MAC == nic.mac }) {
			continue // unplugged since
		}
		if nic.vhost {
			add(nic.mac, nic.queues)
		}
	}
	if live == nil {
		return queues
	}
	for _, nic := range live.Interfaces {
		if !started[nic.MAC] && usesVhost(nic) {
			add(nic.MAC, max(nic.Driver.Queues, 1))
		}
	}
	return queues
}

// usesVhost reports whether libvirt uses vhost-net for an interface if the host has it.
func usesVhost(nic domain.Interface) bool {
	switch nic.Model {
	case "virtio", "virtio-transitional", "virtio-non-transitional":
	default:
		return false
	}
	switch nic.Type {
	case "bridge", "network", "direct", "ethernet":
		return nic.Driver.Name != "qemu"
	}
	return false
}

// matchVhosts numbers the vhost workers and sets the NIC and queue of each. /proc does not show them: they are matched
// by the order of creation, and only if there are as many workers as queues.
func matchVhosts(threads []facts.Thread, queues []vhostQueue) {
	var workers []*facts.Thread
	for i := range threads {
		if threads[i].Role == "vhost" {
			threads[i].Index = len(workers)
			workers = append(workers, &threads[i])
		}
	}
	if len(workers) != len(queues) {
		return
	}
	sure := facts.ByOrder
	if len(workers) == 1 {
		sure = facts.OnlyOne
	}
	for i, worker := range workers {
		worker.NIC, worker.Queue, worker.Sure = queues[i].mac, queues[i].queue, sure
	}
}
