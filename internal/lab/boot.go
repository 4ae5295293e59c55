package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mpps/internal/owned"
)

// start creates what outlasts a boot, folders and the state file, then boots.
func (l *Lab) start(ctx context.Context) error {
	for _, d := range []string{l.dir, l.ShareDir(), filepath.Join(l.data, "upper")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := l.st.write(); err != nil {
		return err
	}
	return l.begin(ctx)
}

// bootTries is the number of attempts per boot. Under emulation some boots hang before the first command (RCU stalls, a
// CPU that waits for a timer): on a quiet machine one in some dozens, at worst three of four in a bad quarter of an
// hour.
const bootTries = 4

// bootUntilUp boots, and tries again if L1 did not reach its first command.
func (l *Lab) bootUntilUp(ctx context.Context) error {
	for try := 1; ; try++ {
		from := time.Now()
		err := l.boot(ctx)
		if err == nil {
			Record(StatBoot, "", time.Since(from).Seconds())
		}
		if err == nil || ctx.Err() != nil || try == bootTries || hopeless(err) {
			return err
		}
		l.retry(fmt.Sprintf("boot of the lab host failed, try %d of %d: %v", try, bootTries, err))
		if err := l.halt(); err != nil {
			return err
		}
		if l.st.Accel == KVM && !l.accelChosen {
			l.log("lab: KVM did not get the lab host up, falling back to emulation")
			l.st.Accel = TCG
		}
	}
}

// hopeless reports whether an error is one that trying again does not change: the kernel forbids what the lab needs.
func hopeless(err error) bool { return errors.Is(err, fs.ErrPermission) }

// bootLimit is several times the usual boot time, in fair time.
func (l *Lab) bootLimit() time.Duration {
	if l.st.Config.Mode == Systemd {
		return 150 * time.Second
	}
	return 60 * time.Second
}

// machine returns L1's hardware and kernel, from its configuration and boot menu.
func (l *Lab) machine(ctx context.Context) (machine, error) {
	c := l.st.Config
	m := machine{Tree: l.tree, Run: l.dir, Accel: l.st.Accel, CPUs: c.CPUs, MemoryMiB: c.MemoryMiB, Mode: c.Mode,
		Args: c.Args, Persist: c.Persist, Realtime: c.Realtime}
	if c.Disk {
		m.Disk = filepath.Join(l.data, "upper.img")
		if err := makeDisk(ctx, m.Disk); err != nil {
			return m, err
		}
	}
	release, menu, err := l.menu(ctx)
	if err != nil {
		return m, err
	}
	m.Kernel, m.Menu = l.image(release), menu
	l.mu.Lock()
	l.st.Release = release
	l.mu.Unlock()
	return m, nil
}

// power starts the machine's QEMU and the daemons that serve it.
func (l *Lab) power(ctx context.Context, m machine) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := l.pipes(); err != nil {
		return err
	}
	ns, err := newNetwork(ctx)
	if err != nil {
		return err
	}
	defer ns.Close()
	shares := []struct {
		tag, dir string
		more     []string
	}{
		{"labroot", l.tree.Root(), []string{"--cache=always", "--readonly", "--inode-file-handles=never"}},
		{"labover", l.overDir(), []string{"--cache=always", "--readonly", "--inode-file-handles=never"}},
		{"share", l.ShareDir(), []string{"--cache=auto"}},
		// overlayfs wants trusted xattrs of its upper layer.
		{"upper", filepath.Join(l.data, "upper"), []string{"--xattr", "--modcaps=+sys_admin", "--cache=auto"}},
	}
	for _, s := range shares {
		if s.tag == "upper" && (!m.Persist || m.Disk != "") || s.tag == "labover" && m.Realtime == "" {
			continue
		}
		sock := filepath.Join(l.dir, s.tag+".sock")
		p, err := l.launch(ns, roleVirtiofs+s.tag, nil, l.tree.virtiofsd(sock, s.dir, s.more...))
		if err != nil {
			return err
		}
		if err := l.waitFor(ctx, p, sock); err != nil {
			return err
		}
	}
	_, env := l.tree.qemu()
	_, err = l.launch(ns, roleQEMU, env, m.argv())
	return err
}

func (l *Lab) boot(ctx context.Context) error {
	m, err := l.machine(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.restored = 0
	l.mu.Unlock()
	if err := l.power(ctx, m); err != nil {
		return err
	}
	ctx, cancel := l.withFairTimeout(ctx, l.bootLimit())
	defer cancel()
	if err := l.firstCommand(ctx); err != nil {
		return fmt.Errorf("no command of the lab host's ran (limit %v): %w\nqemu: %s\nconsole: %s%s", l.bootLimit(),
			err,
			logTail(filepath.Join(l.dir, roleQEMU+".log"), 3), complaint(filepath.Join(l.dir, "serial.log")),
			logTail(filepath.Join(l.dir, "serial.log"), 5))
	}
	if err := l.checkTimers(ctx); err != nil {
		return err
	}
	if !l.st.Config.Bare {
		if err := l.loadModules(ctx); err != nil {
			return err
		}
	}
	if err := l.checkHeart(ctx); err != nil {
		return err
	}
	if l.st.Config.Mode == Systemd && l.savable() {
		return l.waitSystemd(ctx)
	}
	return nil
}

// waitSystemd waits until systemd has started everything, so that a saved state has nothing left to start. Failed units
// do not matter to the lab.
func (l *Lab) waitSystemd(ctx context.Context) error {
	_, err := l.Run(ctx, "systemctl", "is-system-running", "--wait")
	return err
}

// checkTimers checks the timer of each of L1's CPUs by a short sleep on it. Now and then an emulated CPU loses the EOI
// of a timer interrupt in its first seconds: its local APIC keeps the vector in service and delivers nothing of its
// priority or below, least of all the timer ('info lapic' shows ISR 236; seen on CPU 0 with QEMU 10.0). Commands still
// run on the other CPUs, until one waits for it.
func (l *Lab) checkTimers(ctx context.Context) error {
	const limit = 10 * time.Second
	ctx, cancel := l.withFairTimeout(ctx, limit)
	defer cancel()
	_, err := l.Must(ctx, `for c in $(seq 0 $(($(nproc --all) - 1))); do taskset -c $c sleep 0.02 & done; wait`)
	if ctx.Err() != nil {
		return fmt.Errorf("a CPU of the lab host did not wake up from a sleep of 20 ms within %v: its timer has "+
			"stopped", limit)
	}
	return err
}

// pipes creates the pipes of a boot and removes the sockets and pipes of an earlier one.
func (l *Lab) pipes() error {
	for _, pat := range []string{"*.sock", "port*", "events.*"} {
		if err := removeGlob(filepath.Join(l.dir, pat)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(l.dir, "events.in"), []byte(qmpHello), 0o644); err != nil {
		return err
	}
	for _, p := range portNames() {
		for _, end := range []string{".in", ".out"} {
			if err := mkfifo(filepath.Join(l.dir, p+end)); err != nil {
				return err
			}
		}
	}
	return nil
}

// launch starts a process of the lab and records it in the state file.
func (l *Lab) launch(ns *os.File, role string, env, argv []string) (Proc, error) {
	// an attached process may restart it and exit before the owner
	mine := l.st.Owner.PID == os.Getpid()
	p, err := spawn(role, ns, filepath.Join(l.dir, role+".log"), mine && !l.st.Config.Detached, env, argv)
	if err != nil {
		return p, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if mine && l.st.Config.Detached && !l.st.Detached { // it ends with this process until Detach
		release, err := owned.Guard(p.PID)
		if err != nil {
			return p, errors.Join(fmt.Errorf("start %s: %w", role, err), p.kill())
		}
		l.guards = append(l.guards, release)
	}
	l.st.Procs = append(l.st.Procs, p)
	return p, l.st.write()
}

// firstCommand waits for an answer on the first port while QEMU lives.
func (l *Lab) firstCommand(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go l.watchBoot(ctx, cancel)
	for ctx.Err() == nil {
		if !l.running() {
			return ErrGone
		}
		p, err := openPort(l.dir, "port0")
		if errors.Is(err, ErrGone) { // QEMU has not opened its pipes yet
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		if err := p.ping(ctx, l.newID()); err != nil {
			p.close()
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		l.release(p)
		return nil
	}
	return context.Cause(ctx)
}

var (
	// errStopped: QEMU itself stopped L1's CPUs, as it does when KVM cannot run them.
	errStopped = errors.New("QEMU has stopped the machine")
	// errIdle: L1's emulated CPUs were idle for idleLimit before the first command.
	errIdle = fmt.Errorf("its processors have been idle for %v", idleLimit)
)

// A boot whose emulated CPUs use less than a fifth of one for this long has hung (see checkTimers): a live one keeps at
// least one busy, or waiting for a CPU of L0. The CPUs of a hung one may still get their ticks, which are expensive
// under emulation.
const (
	idleLimit = 10 * time.Second
	idleUse   = 0.2
)

// watchBoot ends the wait for a boot that cannot succeed any more.
func (l *Lab) watchBoot(ctx context.Context, cancel context.CancelCauseFunc) {
	since, used := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		if b, err := os.ReadFile(filepath.Join(l.dir, eventsLog)); err == nil && hasEvent(b, "STOP") {
			cancel(errStopped)
		}
		run, wait := schedstat(l.qemuPID())
		switch dt := time.Since(since); {
		case !l.Emulated() || float64(run+wait-used) > idleUse*float64(idleLimit):
			since, used = time.Now(), run+wait
		case dt > idleLimit:
			cancel(errIdle)
		}
		_ = sleep(ctx, 200*time.Millisecond)
	}
}

// halt ends L1 and its helpers, and with them the network namespace. It keeps share and upper layer.
func (l *Lab) halt() error {
	l.mu.Lock()
	l.closeIdle()
	l.virtReady = false
	procs := l.st.Procs
	l.mu.Unlock()
	if l.running() {
		_, err := qmp(context.Background(), filepath.Join(l.dir, "qmp.sock"), "quit")
		for i := 0; err == nil && i < 100 && l.running(); i++ { // QEMU writes its disks back
			time.Sleep(10 * time.Millisecond)
		}
	}
	err := killAll(procs)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.Procs = nil
	return errors.Join(err, l.st.write())
}
