package threads

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of kernel threads.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.ThreadSched: &threadSched{machine: m},
		setting.ThreadCPUs:  threadCPUs{m},
	}
}

// PolicyName returns the name of a scheduling policy.
func PolicyName(policy int) string {
	if policy >= 0 && policy < len(policies) && policies[policy] != "" {
		return policies[policy]
	}
	return "SCHED_" + strconv.Itoa(policy)
}

// threadSched reads and writes the scheduling of kernel threads by name. It caches the PIDs that have a name and checks
// each time which of them is the kernel's: per-CPU threads go and come with their CPU, and any process may call itself
// ksoftirqd/0.
type threadSched struct {
	machine *tree.Tree
	lock    sync.Mutex
	pids    map[string]int
}

// find returns the kernel thread of a name.
func (t *threadSched) find(name string) (trust.Stat, bool) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if found, ok := t.look(name); ok {
		return found, true
	}
	t.pids = map[string]int{}
	perCPU := func(name string) bool { return strings.Contains(name, "/") }
	for _, k := range trust.KernelThreads(t.machine, trust.Processes(t.machine), perCPU) {
		if _, seen := t.pids[k.Comm]; !seen {
			t.pids[k.Comm] = k.TID
		}
	}
	return t.look(name)
}

// look reads the thread of a cached PID.
func (t *threadSched) look(name string) (trust.Stat, bool) {
	pid, known := t.pids[name]
	if !known {
		return trust.Stat{}, false
	}
	found, err := trust.ReadStat(t.machine, pid)
	return found, err == nil && found.Kernel() && found.Comm == name
}

func (t *threadSched) Read(_ context.Context, a setting.Address) setting.Reading {
	found, ok := t.find(a.Path)
	if !ok {
		return setting.Missing("there is no kernel thread " + a.Path)
	}
	name := PolicyName(found.Policy)
	if found.Policy == unix.SCHED_FIFO || found.Policy == unix.SCHED_RR {
		name += " " + strconv.Itoa(found.Priority)
	}
	return setting.Value(name)
}

func (t *threadSched) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		if !t.machine.Live() {
			return tree.ErrNotLive
		}
		found, ok := t.find(a.Path)
		if !ok {
			return fmt.Errorf("there is no kernel thread %s", a.Path)
		}
		held, now, err := trust.HoldKernelThread(t.machine, found.TID)
		if err != nil {
			return err
		}
		defer held.Close()
		if now.Comm != a.Path {
			return fmt.Errorf("there is no kernel thread %s", a.Path)
		}
		return held.Write(func(tid int) error { return setPolicy(tid, value) })
	})
}

// setPolicy sets a thread's policy and priority. It keeps the nice value and flags.
func setPolicy(tid int, value string) error {
	name, number, realtime := strings.Cut(value, " ")
	policy := slices.Index(policies[:], name)
	if policy < 0 || policy == unix.SCHED_DEADLINE {
		return fmt.Errorf("policy %s cannot be set", name)
	}
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return fmt.Errorf("scheduling of thread %d: %w", tid, err)
	}
	attr.Policy, attr.Priority = uint32(policy), 0
	if realtime {
		priority, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return err
		}
		attr.Priority = uint32(priority)
	}
	if err := unix.SchedSetAttr(tid, attr, 0); err != nil {
		return fmt.Errorf("scheduling of thread %d: %w", tid, err)
	}
	return nil
}
