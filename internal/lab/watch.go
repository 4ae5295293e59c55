package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// L1's heart and QEMU's watchdog (see qemu.go) stop together with QEMU. So every process with a handle of a lab also
// watches from outside: if no thread of QEMU has run for frozenLooks looks, or a process of the lab was stopped or has
// been gone for as long, the lab is ended, and all calls that wait for L1 return ErrGone. L1 itself waits for ever for
// a virtiofsd that has ended, and its kernel does not take that for a hang.
const (
	lookEvery   = 2 * time.Second
	frozenLooks = 10
)

// frozen is the Reason of a QEMU that was ended because it had stood still; frozenEvent is the event that records it.
const (
	frozen      = "frozen"
	frozenEvent = "FROZEN"
)

// stillness counts consecutive looks without progress. It counts looks, not seconds: a suspended machine takes none.
type stillness struct {
	qemu  Proc
	ran   time.Duration
	looks int
}

// look counts a look and reports whether the lab must be ended. ran is the CPU time of QEMU's threads so far, 0 if the
// kernel does not account it; unserved says that a process of the lab is stopped or gone.
func (s *stillness) look(qemu Proc, ran time.Duration, unserved bool) bool {
	if qemu != s.qemu || !unserved && (ran == 0 || ran != s.ran) {
		s.looks = 0
	} else {
		s.looks++
	}
	s.qemu, s.ran = qemu, ran
	return s.looks >= frozenLooks
}

// watch watches the lab's processes until ctx ends.
func (l *Lab) watch(ctx context.Context) {
	var s stillness
	for {
		if sleep(ctx, lookEvery) != nil {
			return
		}
		l.mu.Lock()
		procs := slices.Clone(l.st.Procs)
		l.mu.Unlock()
		at := slices.IndexFunc(procs, func(p Proc) bool { return p.Role == roleQEMU && p.Alive() })
		if at < 0 {
			continue
		}
		var ran time.Duration
		if !l.paused.Load() {
			ran, _ = schedstat(procs[at].PID)
		}
		if s.look(procs[at], ran, slices.ContainsFunc(procs, Proc.absent)) {
			_ = l.endFrozen(procs) // tried again at the next look
		}
	}
}

// endFrozen kills the processes of a lab that stands still, and records the reason.
func (l *Lab) endFrozen(procs []Proc) error {
	f, err := os.OpenFile(filepath.Join(l.dir, eventsLog), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(`{"event": "` + frozenEvent + `"}` + "\n")
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, killAll(procs))
}

// absent reports whether this very process has ended or was stopped by a signal (proc_pid_stat(5)).
func (p Proc) absent() bool {
	state, start, ok := procStat(p.PID)
	return !ok || start != p.Start || state == 'T' || state == 'Z' || state == 'X'
}
