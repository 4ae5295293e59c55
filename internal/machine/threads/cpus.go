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
	"mpps/internal/model/setting"
)

// Flags of threads (include/linux/sched.h).
const (
	kernelThread  = 0x00200000 // PF_KTHREAD
	boundForGood  = 0x04000000 // PF_NO_SETAFFINITY: the kernel answers EINVAL to another affinity
	kernelThreads = "kernel"   // the one object of setting.ThreadCPUs
	threadParent  = "kthreadd"
)

// threadCPUs reads and writes the CPUs of all kernel threads that may be moved, as one value.
type threadCPUs struct{ m *tree.Tree }

// movable is a kernel thread that may be moved, with its CPUs: also those that are offline, such as siblings that SMT's
// switch took away, which the thread may use again when they come back.
type movable struct {
	tid  int
	name string
	cpus setting.CPUSet
}

// movableThreads lists them in the order of their numbers. Threads of interrupts follow the affinity of their interrupt
// (kernel/irq/manage.c, irq_thread_check_affinity); vhost's before Linux 6.4 and on older kernels KVM's that mends huge
// pages are a guest's, in whose cpuset they are and off whose CPUs they cannot be moved (EINVAL); those with a deadline
// (sugov, which sets clocks) are refused with EBUSY where their share is counted (kernel/sched/syscalls.c,
// dl_task_check_affinity).
func movableThreads(m *tree.Tree) (all []movable, online setting.CPUSet) {
	online = m.CPUs("sys/devices/system/cpu/online")
	of := Affinity
	if len(m.CPUs("sys/devices/system/cpu/offline")) > 0 {
		of = statusCPUs // sched_getaffinity(2) leaves out what is offline
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
		t, err := ParseStat(text)
		if err != nil || strings.HasPrefix(t.Comm, "irq/") || ofGuest(t.Comm) || t.flags&kernelThread == 0 ||
			t.flags&boundForGood != 0 || t.Policy == unix.SCHED_DEADLINE {
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

// ofGuest tells by its name whether a thread of the kernel was put into a guest's control groups
// (cgroup_attach_task_all of drivers/vhost/vhost.c and virt/kvm/kvm_main.c): kvm-nx-lpage-recovery-PID, whose name is
// cut at 15 letters.
func ofGuest(comm string) bool {
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
	r.Verbatim = placesOf(all)
	return r
}

// placesOf is a line for each thread: number, CPUs, name.
func placesOf(all []movable) string {
	var b strings.Builder
	for _, t := range all {
		fmt.Fprintf(&b, "%d %s %s\n", t.tid, t.cpus, t.name)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parsePlaces reads what placesOf wrote; lines that are none are left out.
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
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	wanted, err := setting.ParseCPUs(value)
	switch {
	case err != nil:
		return tree.Refusal(a, value, err)
	case len(wanted) == 0 || a.Path != kernelThreads:
		return tree.Refusal(a, value, errors.New("expected CPUs for thread-cpus:"+kernelThreads))
	case !t.m.Live():
		return tree.Refusal(a, value, tree.ErrNotLive)
	}
	before := parsePlaces(to.Verbatim)
	for range rounds {
		moved, err := t.move(wanted, before)
		switch {
		case err != nil:
			return tree.Refusal(a, value, err)
		case !moved || len(before) > 0:
			return nil
		}
	}
	return nil // whether it took is seen when it is read back
}

// rounds is how often threads are looked for that came while others were moved.
const rounds = 4

// move gives the threads that there are now their places; false where all of them have theirs. A refused one leaves all
// as they were.
func (t threadCPUs) move(wanted setting.CPUSet, before []movable) (moved bool, err error) {
	all, online := movableThreads(t.m)
	next := places(all, wanted, before, online)
	for i, one := range all {
		if next[i].Equal(one.cpus) {
			continue
		}
		moved = true
		err := SetAffinity(one.tid, next[i])
		if err == nil || errors.Is(err, unix.ESRCH) { // it ended meanwhile
			continue
		}
		for _, done := range all[:i] {
			if back := SetAffinity(done.tid, done.cpus); back != nil && !errors.Is(back, unix.ESRCH) {
				err = errors.Join(err, back)
			}
		}
		return false, fmt.Errorf("%s: %w", one.name, err)
	}
	return moved, nil
}

// places are the CPUs that each thread is to have: those that it had before, where that is known, by its number or,
// after a reboot, its name, of several with one name in the order of their numbers; otherwise what it has now without
// the CPUs that are not wanted. One that has none of them left, and the parent of all, get all that are wanted.
func places(all []movable, wanted setting.CPUSet, before []movable, online setting.CPUSet) []setting.CPUSet {
	had := placesBefore(all, before)
	next := make([]setting.CPUSet, len(all))
	for i, t := range all {
		kept := t.cpus.And(wanted)
		switch {
		case len(had[i]) > 0:
			next[i] = had[i]
		// one that came since has what the others had
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

// placesBefore are the CPUs that threads had; nil for those of which it is not known. A thread that has another number
// now, for the host was rebooted or the thread restarted, is the next one of its name that is not there by its own
// number; where there were fewer of the name, as the first of them.
func placesBefore(all, before []movable) []setting.CPUSet {
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

// unionOf are the CPUs of all together that are online, where that is known.
func unionOf(sets []setting.CPUSet, online setting.CPUSet) (cpus setting.CPUSet) {
	for _, s := range sets {
		cpus = cpus.Or(s)
	}
	if len(online) > 0 {
		return cpus.And(online)
	}
	return cpus
}
