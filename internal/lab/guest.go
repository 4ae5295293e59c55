package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mpps/internal/initramfs"
)

// GuestLimit is the time from the end of "virsh start" to the answer of the guest's probe. An emulated guest needs 5 to
// 12 s, 25 to 45 s on a slow processor; one that needs more than twice that hangs (1 in 10 to 60 starts). Time that L1
// waits for a CPU of L0 does not count.
const GuestLimit = 100 * time.Second

// guestLook is how often a guest that does not answer yet is examined, so that a dead one is not waited for.
const guestLook = 20 * time.Second

// libvirtLimit is the time for libvirt's first answer, for which it starts QEMU several times to probe its
// capabilities: 5 to 10 s. Under emulation one of these has been seen to hang in the kernel for good.
const libvirtLimit = time.Minute

// guestTries is the number of start attempts before the host is considered broken.
const guestTries = 3

// ErrFreshLab: a guest hung in each attempt, or libvirt's own start of QEMU did, or L1's emulated kernel died. Only a
// fresh L1 (Reset) helps.
var ErrFreshLab = errors.New("a fresh lab host is needed")

// Guest is a virtual machine in L1: a libvirt domain, or with Direct a QEMU without libvirt.
type Guest struct {
	Spec GuestSpec
	lab  *Lab

	kernel      string // its image, in L1
	startScript string
}

// virtDaemons starts libvirt's daemons in shell mode. Under systemd its socket does.
const virtDaemons = `set -e
mkdir -p /share/.guests /run/lab
if [ ! -d /run/systemd/system ]; then
	pidof systemd-udevd >/dev/null || /usr/lib/systemd/systemd-udevd --daemon
	pidof virtlogd >/dev/null || virtlogd -d
	pidof libvirtd >/dev/null || libvirtd -d
fi
for i in $(seq 100); do
	[ ! -S /run/libvirt/libvirt-sock ] || break
	sleep 0.1
done
virsh -q version >/dev/null
`

// Bridge creates a bridge in L1 unless it exists, brings it up and sets its address (empty: none).
func (l *Lab) Bridge(ctx context.Context, name, addr string) error {
	script := "set -e\n[ -e /sys/class/net/" + name + " ] || ip link add " + name + " type bridge\nip link set " +
		name + " up\n"
	if addr != "" {
		script += "ip addr replace " + quote([]string{addr}) + " dev " + name + "\n"
	}
	if _, err := l.Must(ctx, script); err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	return nil
}

// EnsureLibvirt starts libvirt's daemons in L1 unless they run. The first call takes 5 to 10 s.
func (l *Lab) EnsureLibvirt(ctx context.Context) error {
	l.guestMu.Lock()
	defer l.guestMu.Unlock()
	return l.ensureLibvirt(ctx)
}

func (l *Lab) ensureLibvirt(ctx context.Context) error {
	if l.virtReady {
		return nil
	}
	limited, cancel := l.withFairTimeout(ctx, libvirtLimit)
	defer cancel()
	_, err := l.Must(limited, virtDaemons)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("libvirt of the lab host: %w: no answer within %v", ErrFreshLab, libvirtLimit)
	case err != nil:
		return fmt.Errorf("libvirt of the lab host: %w", err)
	}
	l.virtReady = true
	return nil
}

// StartGuest starts a guest and waits for its probe. A start that hangs is ended, counted and tried again, twice; then
// the error is ErrFreshLab.
func (l *Lab) StartGuest(ctx context.Context, spec GuestSpec) (*Guest, error) {
	g, err := l.GuestOf(spec)
	if err != nil {
		return nil, err
	}
	spec = g.Spec
	l.guestMu.Lock()
	defer l.guestMu.Unlock()
	if !spec.Direct {
		if err := l.ensureLibvirt(ctx); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(l.ShareDir(), ".guests"), 0o755); err != nil {
		return nil, err
	}
	image := initramfs.Image{Init: spec.Binary, Modules: spec.modules(), Programs: spec.Programs,
		ModulesDir: filepath.Join(l.tree.Root(), "usr/lib/modules", l.tree.Release)}
	if spec.Agent {
		image.More = func(w *initramfs.Writer) error { return addAgent(w, l.tree.Root()) }
	}
	if spec.Realtime {
		over, err := l.guestLayer(ctx)
		if err != nil {
			return nil, fmt.Errorf("guest %s: %w", spec.Name, err)
		}
		image.ModulesDir = over.modules()
	}
	if err := initramfs.Build(image, filepath.Join(l.ShareDir(), g.file("initrd"))); err != nil {
		return nil, err
	}
	if err := g.define(ctx); err != nil {
		return nil, err
	}
	if err := g.start(ctx); err != nil {
		if errors.Is(err, ErrGone) && l.Emulated() { // nested guests kill an emulated kernel now and then
			err = fmt.Errorf("%w: %w", ErrFreshLab, err)
		}
		return nil, err
	}
	return g, nil
}

// GuestOf returns the handle of a guest without starting it, such as of one that runs since Config.Begin.
func (l *Lab) GuestOf(spec GuestSpec) (*Guest, error) {
	if err := spec.fill(); err != nil {
		return nil, err
	}
	g := &Guest{Spec: spec, lab: l, kernel: "/boot/vmlinuz-" + l.tree.Release}
	if spec.Realtime {
		g.kernel = "/share/" + realtimeKernel
	}
	// each attempt gets a new console log
	g.startScript = "rm -f " + g.consolePath() + "; exec virsh -q start " + spec.Name
	if spec.Direct {
		var err error
		if g.startScript, err = spec.directScript(g.kernel, g.initrd(), g.consolePath()); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// initrd returns the guest's initramfs, in L1.
func (g *Guest) initrd() string { return "/share/" + g.file("initrd") }

// define defines the guest in libvirt; a direct one only has its script.
func (g *Guest) define(ctx context.Context) error {
	if g.Spec.Direct {
		return nil
	}
	xml, err := g.Spec.domainXML(g.kernel, g.initrd(), g.consolePath())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.lab.ShareDir(), g.file("xml")), []byte(xml), 0o644); err != nil {
		return err
	}
	if _, err := g.lab.Must(ctx, "virsh -q define /share/"+g.file("xml")); err != nil {
		return fmt.Errorf("guest %s: define: %w", g.Spec.Name, err)
	}
	return nil
}

// StartGuestFresh is StartGuest with one Reset of L1 if necessary; setup then prepares that L1 for the guest (bridges,
// VFs). It must not be used while other guests of this lab matter.
func (l *Lab) StartGuestFresh(ctx context.Context, spec GuestSpec, setup func(context.Context) error) (*Guest, error) {
	g, err := l.StartGuest(ctx, spec)
	if !errors.Is(err, ErrFreshLab) {
		return g, err
	}
	l.retry("fresh lab host: " + err.Error())
	if err := l.Reset(ctx); err != nil {
		return nil, err
	}
	if err := l.installShared(ctx); err != nil {
		return nil, err
	}
	if err := setup(ctx); err != nil {
		return nil, err
	}
	return l.StartGuest(ctx, spec)
}

// file returns the path of one of the guest's files in the share.
func (g *Guest) file(kind string) string { return ".guests/" + g.Spec.Name + "." + kind }

// start starts the defined domain, with retries. The lab's guestMu is held.
func (g *Guest) start(ctx context.Context) error {
	var last error
	for try := range guestTries {
		last = g.startOnce(ctx)
		if last == nil || ctx.Err() != nil || !errors.Is(last, errHung) {
			return last
		}
		if err := g.endHung(ctx, try, last); err != nil {
			return err
		}
	}
	return fmt.Errorf("guest %s: %w: %w", g.Spec.Name, ErrFreshLab, last)
}

// endHung records a start that hung, and ends it. L1 itself may be what hangs.
func (g *Guest) endHung(ctx context.Context, try int, hung error) error {
	limited, cancel := g.lab.withFairTimeout(ctx, GuestLimit)
	defer cancel()
	console := g.Console(limited)
	err := g.destroy(limited)
	g.lab.retry(fmt.Sprintf("guest %s, try %d of %d: %v; console: %s", g.Spec.Name, try+1, guestTries, hung,
		tail(console, 2)))
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("guest %s: %w: %w", g.Spec.Name, ErrFreshLab, err)
	}
	return err
}

// errHung marks errors for which another attempt may help.
var errHung = errors.New("hung")

func (g *Guest) startOnce(ctx context.Context) error {
	limited, cancel := g.lab.withFairTimeout(ctx, GuestLimit)
	defer cancel()
	r, err := g.lab.Shell(limited, g.startScript)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w: its start took more than %v", errHung, GuestLimit)
	case err != nil:
		return err
	case r.Code != 0:
		return fmt.Errorf("guest %s: start: %w", g.Spec.Name, r.Err())
	}
	limited, end := g.lab.withFairTimeout(ctx, GuestLimit)
	defer end()
	if err := g.answersOrDies(limited); err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: no answer within %v", errHung, GuestLimit)
		}
		return fmt.Errorf("guest %s: probe: %w", g.Spec.Name, err)
	}
	return nil
}

// answersOrDies is Answers for a guest that starts. The error is errHung as soon as the guest is found dead.
func (g *Guest) answersOrDies(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for sleep(ctx, guestLook) == nil {
			if why := g.death(ctx); why != "" {
				cancel(fmt.Errorf("%w: %s", errHung, why))
			}
		}
	}()
	err := g.Answers(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errHung) {
		return cause
	}
	return err
}

// Answers waits for the probe, and for the agent if the guest has one.
func (g *Guest) Answers(ctx context.Context) error {
	if addr, ok := g.Addr(); ok {
		if err := g.Spec.Probe(ctx, g.lab, addr); err != nil {
			return err
		}
	}
	if !g.Spec.Agent {
		return nil
	}
	return g.lab.until(ctx, `virsh -q qemu-agent-command `+g.Spec.Name+` --timeout 2 '{"execute":"guest-ping"}'`)
}

// destroy ends the domain, with SIGKILL if necessary: a hung QEMU has been seen to survive SIGTERM and to keep its PID
// file locked.
func (g *Guest) destroy(ctx context.Context) error {
	n := g.Spec.Name
	if g.Spec.Direct {
		if _, err := g.lab.Must(ctx, g.Spec.directEnd()); err != nil {
			return fmt.Errorf("guest %s: end: %w", n, err)
		}
		return nil
	}
	script := `p=$(cat /run/libvirt/qemu/` + n + `.pid 2>/dev/null)
[ -z "$p" ] || kill -KILL "$p" 2>/dev/null
for i in $(seq 100); do
	[ "$(timeout 10 virsh -q domstate ` + n + `)" != running ] && exit 0
	[ $i != 20 ] || timeout 10 virsh -q destroy ` + n + `
	sleep 0.1
done
echo "domain still running" >&2
exit 1
`
	if _, err := g.lab.Must(ctx, script); err != nil {
		return fmt.Errorf("guest %s: destroy: %w", n, err)
	}
	return nil
}

// Addr returns the first address of the guest's NICs.
func (g *Guest) Addr() (netip.Addr, bool) {
	for _, n := range g.Spec.NICs {
		if p, err := netip.ParsePrefix(n.Addr); err == nil {
			return p.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// Restart ends the domain and starts it as it is defined now, with the same retries.
func (g *Guest) Restart(ctx context.Context) error {
	g.lab.guestMu.Lock()
	defer g.lab.guestMu.Unlock()
	if err := g.destroy(ctx); err != nil {
		return err
	}
	return g.start(ctx)
}

// Stop asks the guest to power off, kills it after 5 s, and undefines the domain. A direct guest is killed.
func (g *Guest) Stop(ctx context.Context) error {
	g.lab.guestMu.Lock()
	defer g.lab.guestMu.Unlock()
	n := g.Spec.Name
	if g.Spec.Direct {
		return g.destroy(ctx)
	}
	script := `timeout 5 virsh -q shutdown ` + n + ` --mode acpi
for i in $(seq 25); do
	[ -e /run/libvirt/qemu/` + n + `.pid ] || exit 0
	sleep 0.2
done
exit 0
`
	if _, err := g.lab.Must(ctx, script); err != nil {
		return fmt.Errorf("guest %s: shutdown: %w", n, err)
	}
	if err := g.destroy(ctx); err != nil {
		return err
	}
	if _, err := g.lab.Must(ctx, "virsh -q undefine "+n); err != nil {
		return fmt.Errorf("guest %s: undefine: %w", n, err)
	}
	return nil
}

// Running reports whether libvirt considers the domain running, or whether a direct guest's QEMU exists.
func (g *Guest) Running(ctx context.Context) (bool, error) {
	if g.Spec.Direct {
		r, err := g.lab.Shell(ctx, "[ -e /proc/$(cat "+g.Spec.PIDFile()+")/exe ]")
		return r.Code == 0, err
	}
	out, err := g.lab.Must(ctx, "virsh -q domstate "+g.Spec.Name)
	return strings.TrimSpace(out) == "running", err
}

// Freeze stops the process of a direct guest (SIGSTOP), so that it takes no CPU time: an idle emulated guest keeps a
// sixth of a CPU busy. SIGCONT to the process in Spec.PIDFile resumes it.
func (g *Guest) Freeze(ctx context.Context) error {
	if _, err := g.lab.Must(ctx, "kill -STOP $(cat "+g.Spec.PIDFile()+")"); err != nil {
		return fmt.Errorf("guest %s: freeze: %w", g.Spec.Name, err)
	}
	return nil
}

// consolePath is in L1, on a tmpfs: through the share, each character would cost a round trip to L0.
func (g *Guest) consolePath() string { return "/run/lab/" + g.Spec.Name + ".console" }

// Console returns the serial output of the guest's last start.
func (g *Guest) Console(ctx context.Context) string {
	out, err := g.lab.Must(ctx, "cat "+g.consolePath())
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(out, "\r", "")
}
