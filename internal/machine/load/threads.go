package load

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
)

// firstProcesses returns the processes that are read first: guests, kernel threads that serve them, and this process,
// whose threads generate the packets of a measurement.
func (w *Watch) firstProcesses() []int {
	pids := []int{os.Getpid()}
	for i := range w.h.Guests {
		g := &w.h.Guests[i]
		if g.PID == 0 {
			continue
		}
		pids = append(pids, g.PID)
		for _, t := range g.Threads {
			if t.Role == "vhost" && !w.tree.Exists("proc/"+strconv.Itoa(g.PID)+"/task/"+strconv.Itoa(t.TID)) {
				pids = append(pids, t.TID)
			}
		}
	}
	return pids
}

// busyThread is the share of a CPU from which threads are listed that are not on the path.
const busyThread = 0.01

// waitingThread is the share of the time without a CPU from which on threads are listed that were ready for one.
const waitingThread = 0.1

// isBusy reports whether a thread off the path is listed: it ran, or would have.
func isBusy(l *facts.ThreadLoad) bool { return l.Ran >= busyThread || l.Waited >= waitingThread }

// threadsBetween adds the threads on the path, and busy other ones.
func (w *Watch) threadsBetween(before, after fullLook, l *facts.Load) {
	seconds := after.ran.Sub(before.ran).Seconds()
	if seconds <= 0 {
		return
	}
	was := make(map[int]threads.Seen, len(before.threads.Threads))
	for _, t := range before.threads.Threads {
		was[t.TID] = t
	}
	known := w.knownThreads()
	for _, t := range after.threads.Threads {
		old, seen := was[t.TID]
		if !seen && t.Ran.NS > uint64(seconds*1e9) { // it existed before but was not read
			continue
		}
		share := func(a, b uint64) float64 { return min(float64(facts.Increase(a, b))/1e9/seconds, 1) }
		load := facts.ThreadLoad{
			PID: t.PID, TID: t.TID, Affinity: t.Affinity, Queue: -1, VCPU: -1, CPU: -1, Node: -1,
			Ran: share(old.Ran.NS, t.Ran.NS), Waited: share(old.Ran.Waited, t.Ran.Waited),
			Switches: facts.Increase(old.Ran.Turns, t.Ran.Turns),
		}
		if w.addThreadFacts(&load, known) && (load.Role != "other" || isBusy(&load)) {
			w.addLimits(&load, before, after, seconds)
			l.Threads = append(l.Threads, load)
		}
	}
	for i := range w.h.Guests {
		g := &w.h.Guests[i]
		switch k, counted := after.kvm[g.PID]; {
		case counted:
			kvmBetween(l.Threads, g.PID, before.kvm[g.PID], k, seconds)
			l.Unseen = append(l.Unseen, kvmUnseen(g.Name, k)...)
		case g.PID != 0:
			l.Unseen = append(l.Unseen, facts.Unseen{What: "exits of guest " + g.Name +
				", and how long its vCPUs polled", Why: fmt.Sprintf("there is no sys/kernel/debug/kvm/%d-* (debugfs "+
				"not mounted, without KVM, or not root)", g.PID)})
		}
	}
	slices.SortStableFunc(l.Threads, func(a, b facts.ThreadLoad) int { return cmp.Compare(b.Ran, a.Ran) })
}

// knownThread is a thread of a guest.
type knownThread struct {
	facts.Thread
	guest *facts.Guest
}

// knownThreads returns the guests' threads by TID.
func (w *Watch) knownThreads() map[int]knownThread {
	known := map[int]knownThread{}
	for i := range w.h.Guests {
		g := &w.h.Guests[i]
		for _, t := range g.Threads {
			known[t.TID] = knownThread{t, g}
		}
	}
	return known
}

// addThreadFacts sets a thread's role and owner; false if it has ended or is neither on the path nor busy.
func (w *Watch) addThreadFacts(l *facts.ThreadLoad, known map[int]knownThread) bool {
	thread, ofGuest := known[l.TID]
	if !ofGuest && !isBusy(l) { // for most threads the name is enough to leave them out
		if l.PID != os.Getpid() && roleOf(trust.Name(w.tree, l.PID, l.TID)) == "other" {
			return false
		}
	}
	text, err := w.tree.Read("proc/" + strconv.Itoa(l.PID) + "/task/" + strconv.Itoa(l.TID) + "/stat")
	if err != nil {
		return false
	}
	t, err := trust.ParseStat(text)
	if err != nil {
		return false
	}
	l.Comm, l.CPU, l.Role = t.Comm, t.CPU, "other"
	if role := roleOf(t.Comm); t.Kernel() || role == "vhost" && t.UserWorker() {
		l.Role = role
	}
	l.Policy = strings.ToLower(strings.TrimPrefix(threads.PolicyName(t.Policy), "SCHED_"))
	if cpu, there := w.h.Topology.CPU(t.CPU); there {
		l.Node = cpu.Node
	}
	switch {
	case ofGuest:
		l.Guest, l.NIC, l.Queue, l.Memory = thread.guest.Name, thread.NIC, thread.Queue, w.nodes[thread.guest.PID]
		l.Role = "other"
		switch thread.Role {
		case "vcpu":
			l.Role, l.VCPU = "vcpu", thread.Index
		case "vhost", "emulator":
			l.Role = thread.Role
		}
		for _, nic := range thread.guest.NICs() {
			if nic.MAC == thread.NIC && nic.Tap != "" {
				l.Devices = []string{nic.Tap}
			}
		}
	case !t.Kernel() && trust.Own(w.tree, l.PID): // another mpps may be measuring too
		l.Role = "mpps"
	case l.Role == "napi":
		name := strings.TrimPrefix(t.Comm, "napi/") // napi/eth0-8193 (net/core/dev.c, napi_kthread_create)
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			l.Devices = []string{name[:at]}
		}
	}
	return true
}

// roleOf returns the role of a kernel thread, from its name.
func roleOf(comm string) string {
	switch {
	case strings.HasPrefix(comm, "vhost-"):
		return "vhost"
	case strings.HasPrefix(comm, "ksoftirqd/"):
		return "ksoftirqd"
	case strings.HasPrefix(comm, "napi/"), strings.HasPrefix(comm, "cpumap/"): // kernel/bpf/cpumap.c
		return "napi"
	case strings.HasPrefix(comm, "kpktgend_"):
		return "pktgen"
	}
	return "other"
}
