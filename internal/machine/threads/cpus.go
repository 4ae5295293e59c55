package threads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/setting"
)

// Flags of threads (include/linux/sched.h).
const (
	fixedAffinity = 0x04000000 // PF_NO_SETAFFINITY: setting an affinity fails with EINVAL
	kernelThreads = "kernel"   // the only object of setting.ThreadCPUs
	threadParent  = "kthreadd"
)

// threadCPUs reads and writes the CPUs of all movable kernel threads as one value.
type threadCPUs struct{ m *tree.Tree }

// movable is a kernel thread that may be moved, with its CPUs. These include offline ones, such as siblings disabled by
// SMT control, which the thread may use again when they return.
type movable struct {
	tid  int
	name string
	cpus setting.CPUSet
}

// movableThreads returns the movable kernel threads, sorted by TID, and the online CPUs. Not movable are: interrupt
// threads, which follow the affinity of their interrupt (kernel/irq/manage.c, irq_thread_check_affinity); vhost workers
// before Linux 6.4 and, on older kernels, KVM's huge page recovery, which are in a guest's cpuset and cannot leave its
// CPUs (EINVAL); and SCHED_DEADLINE threads (sugov, which sets frequencies), which the kernel refuses with EBUSY if it
// accounts their bandwidth (kernel/sched/syscalls.c, dl_task_check_affinity).
func movableThreads(m *tree.Tree) (all []movable, online setting.CPUSet) {
	online = m.CPUs("sys/devices/system/cpu/online")
	of := Affinity
	if len(m.CPUs("sys/devices/system/cpu/offline")) > 0 {
		of = statusCPUs // sched_getaffinity(2) leaves out offline CPUs
	}
	proc := m.Folder("proc")
	defer proc.Close()
	for _, name := range proc.Names() {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		text, there := proc.Text(name + "/stat")
		if !there {
			continue // it ended meanwhile
		}
		t, err := trust.ParseStat(text)
		if err != nil || !t.Kernel() || strings.HasPrefix(t.Comm, "irq/") || isGuestThread(t.Comm) ||
			t.Flags&fixedAffinity != 0 || t.Policy == unix.SCHED_DEADLINE {
			continue
		}
		cpus := of(m, t.TID, t.TID)
		if len(cpus) > 0 && (len(online) == 0 || len(cpus.And(online)) > 0) {
			all = append(all, movable{t.TID, t.Comm, cpus})
		}
	}
	slices.SortFunc(all, func(a, b movable) int { return a.tid - b.tid })
	return all, online
}

// isGuestThread reports whether a kernel thread is in a guest's cgroup (cgroup_attach_task_all in drivers/vhost/vhost.c
// and virt/kvm/kvm_main.c): vhost-PID, or kvm-nx-lpage-recovery-PID, whose name is cut to 15 bytes.
func isGuestThread(comm string) bool {
	return strings.HasPrefix(comm, "vhost-") || strings.HasPrefix(comm, "kvm-nx-lpage-re")
}

func (t threadCPUs) Read(_ context.Context, a setting.Address) setting.Reading {
	if a.Path != kernelThreads {
		return setting.CouldNotTell(fmt.Sprintf("%s: expected thread-cpus:%s", a, kernelThreads))
	}
	all, online := movableThreads(t.m)
	if len(all) == 0 {
		return setting.CouldNotTell("no kernel thread can be seen from here: a container, or a recording without them")
	}
	var sets []setting.CPUSet
	for _, one := range all {
		sets = append(sets, one.cpus)
	}
	r := setting.Value(unionOf(sets, online).String())
	r.Verbatim = formatPlaces(all)
	return r
}

// formatPlaces returns a line for each thread: TID, CPUs, name.
func formatPlaces(all []movable) string {
	var b strings.Builder
	for _, t := range all {
		fmt.Fprintf(&b, "%d %s %s\n", t.tid, t.cpus, t.name)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parsePlaces is the inverse of formatPlaces. It skips malformed lines.
func parsePlaces(text string) (all []movable) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) != 3 {
			continue
		}
		tid, err := strconv.Atoi(fields[0])
		cpus, wrong := setting.ParseCPUs(fields[1])
		if err == nil && wrong == nil && len(cpus) > 0 {
			all = append(all, movable{tid, fields[2], cpus})
		}
	}
	return all
}

func (t threadCPUs) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		wanted, err := setting.ParseCPUs(value)
		switch {
		case err != nil:
			return err
		case len(wanted) == 0 || a.Path != kernelThreads:
			return errors.New("expected CPUs for thread-cpus:" + kernelThreads)
		case !t.m.Live():
			return tree.ErrNotLive
		}
		before := parsePlaces(to.Verbatim)
		for range rounds {
			if moved, err := t.move(wanted, before); err != nil || !moved || len(before) > 0 {
				return err
			}
		}
		return nil // reading back shows whether it took effect
	})
}

// rounds is how often move is repeated for threads that start while others are moved.
const rounds = 4

// move moves the current threads to their places and reports whether any had to move. If one is refused, it moves the
// others back.
func (t threadCPUs) move(wanted setting.CPUSet, before []movable) (moved bool, err error) {
	all, online := movableThreads(t.m)
	next := places(all, wanted, before, online)
	for i, one := range all {
		if next[i].Equal(one.cpus) {
			continue
		}
		moved = true
		err := one.move(t.m, next[i])
		if err == nil || ended(err) {
			continue
		}
		for _, done := range all[:i] {
			if back := done.move(t.m, done.cpus); back != nil && !ended(back) {
				err = errors.Join(err, back)
			}
		}
		return false, fmt.Errorf("%s: %w", one.name, err)
	}
	return moved, nil
}

// move binds the thread to CPUs if it still is a kernel thread. Its name is not compared: workers show what they do.
func (one movable) move(m *tree.Tree, to setting.CPUSet) error {
	held, _, err := trust.HoldKernelThread(m, one.tid)
	if err != nil {
		return err
	}
	defer held.Close()
	return held.Write(func(tid int) error { return SetAffinity(tid, to) })
}

// ended reports whether an error says that the thread is gone.
func ended(err error) bool { return errors.Is(err, trust.ErrReplaced) || errors.Is(err, unix.ESRCH) }

// places returns the CPUs for each thread: those that it had before, if known (see formerPlaces), else its current ones
// without those that are not wanted. A thread that would have none left, and the parent of all, get all wanted CPUs.
func places(all []movable, wanted setting.CPUSet, before []movable, online setting.CPUSet) []setting.CPUSet {
	had := formerPlaces(all, before)
	next := make([]setting.CPUSet, len(all))
	for i, t := range all {
		kept := t.cpus.And(wanted)
		switch {
		case len(had[i]) > 0:
			next[i] = had[i]
		// a thread that started since gets what the others had
		case t.name == threadParent || len(kept.And(online)) == 0 && len(online) > 0 || len(kept) == 0 ||
			len(before) > 0:
			next[i] = wanted
		default:
			next[i] = kept
		}
	}
	for i := range all { // the value must read back as it was written
		if (all[i].name == threadParent || i == len(all)-1) && !unionOf(next, online).Equal(wanted) {
			next[i] = wanted
		}
	}
	return next
}

// formerPlaces returns the CPUs that threads had before; nil if unknown. It finds a thread by its TID and name. One
// with another TID, after a reboot or a restart, is matched with the next thread of its name whose TID is gone or, if
// there were fewer of that name, with the first.
func formerPlaces(all, before []movable) []setting.CPUSet {
	byNumber, byName := map[int]movable{}, map[string][]movable{}
	for _, t := range before {
		byNumber[t.tid] = t
	}
	had, here := make([]setting.CPUSet, len(all)), map[int]bool{}
	for i, t := range all {
		if same, known := byNumber[t.tid]; known && same.name == t.name {
			had[i], here[t.tid] = same.cpus, true
		}
	}
	first := map[string]setting.CPUSet{}
	for _, t := range before {
		if _, known := first[t.name]; !known {
			first[t.name] = t.cpus
		}
		if !here[t.tid] {
			byName[t.name] = append(byName[t.name], t)
		}
	}
	for i, t := range all {
		if had[i] != nil {
			continue
		}
		if left := byName[t.name]; len(left) > 0 {
			had[i], byName[t.name] = left[0].cpus, left[1:]
		} else {
			had[i] = first[t.name]
		}
	}
	return had
}

// unionOf returns the union of sets, restricted to the online CPUs if these are known.
func unionOf(sets []setting.CPUSet, online setting.CPUSet) (cpus setting.CPUSet) {
	for _, s := range sets {
		cpus = cpus.Or(s)
	}
	if len(online) > 0 {
		return cpus.And(online)
	}
	return cpus
}
