package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// L1's heart and QEMU's watchdog (see qemu.go) stand still with QEMU. So every process that has a handle of a lab also
// looks from outside: a QEMU of which no thread has run for frozenLooks looks, or a process of the lab that was stopped
// for as long, is ended, and whoever waits for L1 gets ErrGone.
const (
	lookEvery   = 2 * time.Second
	frozenLooks = 10
)

// frozen is the Reason of a QEMU that was ended because it had stood still. frozenEvent says so among its events.
const (
	frozen      = "frozen"
	frozenEvent = "FROZEN"
)

// stillness counts looks in a row at which nothing had moved. It counts looks, not seconds: a machine that was
// suspended has taken none.
type stillness struct {
	qemu  Proc
	ran   time.Duration
	looks int
}

// look takes how long the threads of a QEMU have run by now, 0 where the kernel does not account that, and whether a
// process of the lab is stopped by a signal. It reports whether the lab is to be ended.
func (s *stillness) look(qemu Proc, ran time.Duration, stopped bool) bool {
	if qemu != s.qemu || !stopped && (ran == 0 || ran != s.ran) {
		s.looks = 0
	} else {
		s.looks++
	}
	s.qemu, s.ran = qemu, ran
	return s.looks >= frozenLooks
}

// watch looks at the lab's processes until ctx ends.
func (l *Lab) watch(ctx context.Context) {
	var s stillness
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
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
			ran, _ = schedstat("/proc", procs[at].PID)
		}
		if s.look(procs[at], ran, slices.ContainsFunc(procs, Proc.stopped)) {
			_ = l.thaw(procs) // tried again at the next look
		}
	}
}

// thaw ends processes that stand still, and leaves the reason.
func (l *Lab) thaw(procs []Proc) error {
	f, err := os.OpenFile(filepath.Join(l.dir, eventsLog), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(`{"event": "` + frozenEvent + `"}` + "\n")
		err = errors.Join(err, f.Close())
	}
	errs := []error{err}
	for _, p := range procs {
		errs = append(errs, p.kill())
	}
	return errors.Join(errs...)
}

// stopped reports whether a signal has stopped this very process (proc_pid_stat(5)).
func (p Proc) stopped() bool {
	state, start, ok := procStat(p.PID)
	return ok && start == p.Start && state == 'T'
}
