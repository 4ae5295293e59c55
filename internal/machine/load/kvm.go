package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
)

// kvmLook has KVM's and the scheduler's counters of a guest.
type kvmLook struct {
	counted       bool
	exits, polled uint64         // of all vCPUs; polled in nanoseconds
	unpolled      error          // reason if polled is unknown
	host          map[int]uint64 // by vCPU thread: its run time outside the guest, in units of 10 ms
}

// readKVM reads KVM's counters of each running guest (virt/kvm/kvm_main.c, kvm_create_vm_debugfs: a folder PID-FD with
// sums over the vCPUs).
func (w *Watch) readKVM() map[int]kvmLook {
	const folder = "sys/kernel/debug/kvm"
	all := map[int]kvmLook{}
	var folders []string
	for i := range w.h.Guests {
		g := &w.h.Guests[i]
		if g.PID == 0 {
			continue
		}
		if folders == nil {
			folders = w.tree.List(folder)
		}
		for _, name := range folders {
			if !strings.HasPrefix(name, strconv.Itoa(g.PID)+"-") {
				continue
			}
			k := kvmLook{counted: true, host: map[int]uint64{}}
			number := func(file string) (uint64, error) {
				text, err := w.tree.Read(folder + "/" + name + "/" + file)
				if err != nil {
					return 0, err
				}
				return strconv.ParseUint(strings.TrimSpace(text), 10, 64)
			}
			k.exits, _ = number("exits") // 0 if unknown: nothing is judged by it
			success, err := number("halt_poll_success_ns")
			fail, failed := number("halt_poll_fail_ns")
			k.polled, k.unpolled = success+fail, errors.Join(err, failed)
			for _, t := range g.Threads {
				if t.Role != "vcpu" {
					continue
				}
				if text, err := w.tree.Read("proc/" + strconv.Itoa(g.PID) + "/task/" + strconv.Itoa(t.TID) +
					"/stat"); err == nil {
					k.host[t.TID] = hostTicks(text)
				}
			}
			all[g.PID] = k
		}
	}
	return all
}

// hostTicks returns how long a thread ran outside of guests, in units of 10 ms: user and system time without guest time
// (proc_pid_stat(5)).
func hostTicks(text string) uint64 {
	const user, system, guest = 14 - 3, 15 - 3, 43 - 3
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) <= guest {
		return 0
	}
	var n [3]uint64
	for i, at := range []int{user, system, guest} {
		n[i], _ = strconv.ParseUint(f[at], 10, 64)
	}
	return facts.Increase(n[2], n[0]+n[1])
}

// kvmBetween divides a guest's halt-polling time, which KVM counts for all vCPUs together, among its vCPUs in
// proportion to their run time outside the guest, which includes polling. The emulator gets the exits of all.
func kvmBetween(threads []facts.ThreadLoad, pid int, before, after kvmLook, seconds float64) {
	if !before.counted || !after.counted || seconds <= 0 {
		return
	}
	polled := float64(facts.Increase(before.polled, after.polled)) / 1e9 / seconds
	outside, vcpus := 0.0, 0
	for _, t := range threads {
		if t.PID == pid && t.Role == "vcpu" {
			outside += float64(facts.Increase(before.host[t.TID], after.host[t.TID]))
			vcpus++
		}
	}
	for i := range threads {
		t := &threads[i]
		switch {
		case t.PID != pid:
		case t.Role == "emulator":
			t.Exits = facts.Increase(before.exits, after.exits)
		case t.Role == "vcpu":
			part := 1 / float64(vcpus)
			if outside > 0 {
				part = float64(facts.Increase(before.host[t.TID], after.host[t.TID])) / outside
			}
			t.HaltPoll = min(polled*part, t.Ran)
		}
	}
}

// kvmUnseen returns a note if the polling time of a guest is unknown, so that nobody takes its polling for work.
func kvmUnseen(guest string, k kvmLook) []facts.Unseen {
	if k.unpolled == nil {
		return nil
	}
	why := fmt.Sprintf("expected halt_poll_success_ns and halt_poll_fail_ns, which KVM has since Linux 5.8: %v; the "+
		"vCPUs' use contains it", k.unpolled)
	return []facts.Unseen{{What: "how long vCPUs of guest " + guest + " polled", Why: why}}
}
