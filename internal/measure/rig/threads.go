package rig

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/trust"
	"mpps/internal/measure"
)

// threadWatch is what is known of the threads that carry packets. Every process is checked once; later only new
// processes and QEMU's threads are.
type threadWatch struct {
	checks map[int]int            // by process: how often its name was checked
	kernel map[int]measure.Thread // kernel threads, by number
	// QEMU's threads by process and TID; nil for an irrelevant thread
	guests map[int]map[int]*measure.Thread
	names  map[int]string // of the guests, by process
}

// maxChecks is how often the name of a process is checked: between fork and exec it has its parent's name.
const maxChecks = 2

// threads returns how long the threads that carry packets have run, including this program's; nil if the kernel does
// not report it. Processes that end in the meantime are left out.
func (m *Machine) threads() measure.ThreadTimes {
	if err := m.findThreads(); err != nil {
		return nil
	}
	times := measure.ThreadTimes{}
	for _, t := range m.watch.kernel {
		m.add(times, t, "proc/"+strconv.Itoa(t.TID)+"/schedstat")
	}
	for pid, threads := range m.watch.guests {
		for tid, t := range threads {
			if t != nil {
				m.add(times, *t, "proc/"+strconv.Itoa(pid)+"/task/"+strconv.Itoa(tid)+"/schedstat")
			}
		}
	}
	// This clock includes threads that have ended, and agrees with schedstat: sum_exec_runtime (thread_group_cputime in
	// kernel/sched/cputime.c). getrusage would count in ticks.
	var own unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own); err == nil {
		times[measure.Thread{PID: os.Getpid(), Role: measure.Ourselves, Name: "mpps"}] = measure.ThreadTime{
			Ran: uint64(own.Nano()), Waited: m.ownWait()}
	}
	return times
}

// ownWait returns how long this program's threads have waited for a CPU, without those that have ended.
func (m *Machine) ownWait() (waited uint64) {
	tids, err := m.numbers("proc/self/task")
	if err != nil {
		return 0
	}
	own := measure.ThreadTimes{}
	for _, tid := range tids {
		m.add(own, measure.Thread{TID: tid}, "proc/self/task/"+strconv.Itoa(tid)+"/schedstat")
	}
	for _, t := range own {
		waited += t.Waited
	}
	return waited
}

// add reads a thread's schedstat: nanoseconds run, nanoseconds waited, and the number of time slices. Kernels without
// scheduling statistics have no such file, or zeros.
func (m *Machine) add(times measure.ThreadTimes, t measure.Thread, file string) {
	text, err := m.read(file)
	if err != nil {
		return
	}
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return
	}
	ran, errRan := strconv.ParseUint(fields[0], 10, 64)
	waited, err := strconv.ParseUint(fields[1], 10, 64)
	if errRan == nil && err == nil {
		times[t] = measure.ThreadTime{Ran: ran, Waited: waited}
	}
}

// findThreads finds new processes and threads, and drops those that have ended.
func (m *Machine) findThreads() error {
	w := &m.watch
	if w.checks == nil {
		*w = threadWatch{checks: map[int]int{}, kernel: map[int]measure.Thread{},
			guests: map[int]map[int]*measure.Thread{},
			names:  map[int]string{}}
	}
	pids, err := m.numbers("proc")
	if err != nil {
		return err
	}
	checks := make(map[int]int, len(pids))
	for _, pid := range pids {
		checks[pid] = w.checks[pid]
		if checks[pid] < maxChecks {
			checks[pid]++
			m.classify(pid)
		}
	}
	w.checks = checks
	gone := func(pid int) bool { return checks[pid] == 0 }
	maps.DeleteFunc(w.kernel, func(pid int, _ measure.Thread) bool { return gone(pid) })
	maps.DeleteFunc(w.guests, func(pid int, _ map[int]*measure.Thread) bool { return gone(pid) })
	for pid, known := range w.guests {
		tids, err := m.numbers("proc/" + strconv.Itoa(pid) + "/task")
		if err != nil {
			continue // ended in the meantime
		}
		threads := make(map[int]*measure.Thread, len(tids))
		for _, tid := range tids {
			t, ok := known[tid]
			if !ok {
				t = m.threadOf(pid, tid)
			}
			threads[tid] = t
		}
		w.guests[pid] = threads
	}
	return nil
}

// classify identifies a process, and leaves out those that only have the name.
func (m *Machine) classify(pid int) {
	w := &m.watch
	if guest, is := m.guestOf(pid); is {
		if w.guests[pid] == nil {
			w.guests[pid], w.names[pid] = map[int]*measure.Thread{}, guest
		}
		return
	}
	name := trust.Name(m.tree, pid, pid)
	t := measure.Thread{PID: pid, TID: pid, Name: name}
	owner, isVhost := strings.CutPrefix(name, "vhost-")
	switch {
	case strings.HasPrefix(name, "ksoftirqd/"):
		t.Role = measure.KSoftIRQ
	case strings.HasPrefix(name, "kpktgend_"):
		t.Role = measure.Pktgen
	case isVhost: // a kernel thread before Linux 6.4 (vhost_worker_create in drivers/vhost/vhost.c)
		t.Role, t.Guest = measure.Vhost, owner
	default:
		return
	}
	if stat, err := trust.ReadStat(m.tree, pid); err != nil || !stat.Kernel() {
		return
	}
	if process, err := strconv.Atoi(owner); err == nil {
		if guest, is := m.guestOf(process); is {
			t.Guest = guest
		}
	}
	w.kernel[pid] = t
}

// threadOf identifies a thread of QEMU; nil for KVM's kernel threads, which carry no packets. QEMU names its threads
// only if told to (debug-threads=on, as libvirt does). Otherwise a vCPU is recognised by its guest time. The first
// answer for a thread is kept.
func (m *Machine) threadOf(pid, tid int) *measure.Thread {
	at := "proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid)
	name := trust.Name(m.tree, pid, tid)
	if name == "" || strings.HasPrefix(name, "kvm-") {
		return nil
	}
	t := &measure.Thread{PID: pid, TID: tid, Name: name, Guest: m.watch.names[pid], Role: measure.Emulator}
	number, ofCPU := strings.CutPrefix(name, "CPU ")
	switch {
	case strings.HasPrefix(name, "vhost-"):
		t.Role = measure.Vhost
	case ofCPU && strings.Contains(number, "/"):
		t.Role = measure.VCPU
	case m.guestTicks(at) > 0:
		t.Role, t.Name = measure.VCPU, name+" "+strconv.Itoa(tid)
	}
	return t
}

// guestTicks returns the guest time of a thread: field 43 of its stat file (proc_pid_stat(5)).
func (m *Machine) guestTicks(at string) uint64 {
	text, err := m.read(at + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from the third on
	if len(fields) < 41 {
		return 0
	}
	ticks, err := strconv.ParseUint(fields[40], 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}

// guestOf returns the name of the guest whose QEMU a process is: that of its -name option, or the process's number.
func (m *Machine) guestOf(pid int) (guest string, is bool) {
	q, is := trust.FindQEMU(m.tree, pid)
	if !is {
		return "", false
	}
	name := trust.GuestIn(q.Arguments(m.tree))
	if q.Doubt(m.tree, name) != "" {
		return "", false
	}
	return cmp.Or(name, strconv.Itoa(pid)), true
}

// IsGuest reports whether a process is the QEMU of a guest, and the system's: trust.QEMU.Doubt has nothing against it.
func (m *Machine) IsGuest(pid int) bool {
	_, is := m.guestOf(pid)
	return is
}

// numbers returns the numeric entries of a directory.
func (m *Machine) numbers(dir string) ([]int, error) {
	f, err := m.tree.Root.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if n, err := strconv.ParseUint(name, 10, 31); err == nil {
			all = append(all, int(n))
		}
	}
	return all, nil
}
