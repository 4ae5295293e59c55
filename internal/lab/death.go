package lab

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"
)

// lastWordsScript prints panics of guests' kernels, and crashes of QEMU.
const lastWordsScript = `grep -h -m 1 'Kernel panic' /run/lab/*.console | tr -d '\r'
dmesg | grep -m 1 'qemu-system[^ ]*: *segfault'
true`

// Death returns the last words of L1's kernel or a guest that died by itself; "" if none did. Nested emulation is not
// perfect: now and then a kernel dies that would survive on hardware, or waits for a device for ever. It records one
// death per boot.
func (l *Lab) Death(ctx context.Context) string {
	died := l.findDeath(ctx)
	if died == "" {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if qemu := l.st.proc(roleQEMU); l.died != qemu {
		l.died = qemu
		Record(StatDeath, died, 0)
	}
	return died
}

func (l *Lab) findDeath(ctx context.Context) string {
	text, err := os.ReadFile(l.LogFile("serial"))
	if err != nil {
		return ""
	}
	if words := lastWords(string(text)); words != "" {
		return "the lab host: " + words
	}
	if !l.running() {
		switch l.Reason() {
		case watchdogBit:
			return "the lab host: a CPU had stopped, so that the watchdog ended it: " + logTail(l.LogFile("serial"), 1)
		case frozen:
			return "the lab host: QEMU stood still, or a process that serves it was stopped or had ended"
		case guestReset: // not by Reboot, which boots again; the last output may be lost
			return "the lab host began to boot again by itself: " + logTail(l.LogFile("serial"), 1)
		}
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := l.Must(ctx, lastWordsScript)
	if err != nil {
		return ""
	}
	if words := strings.TrimSpace(out); words != "" {
		return "a guest: " + words
	}
	if out, err = l.Must(ctx, registers("$(timeout 5 virsh -q list --name --state-running)")); err != nil {
		return ""
	}
	return faultLoop(out)
}

// death returns what ended the guest, as Death does; "" while it may still answer.
func (g *Guest) death(ctx context.Context) string {
	script := "grep -m 1 'Kernel panic' " + g.consolePath() + " | tr -d '\\r'\n"
	if !g.Spec.Direct { // a direct guest has no monitor
		script += registers(g.Spec.Name)
	}
	out, err := g.lab.Must(ctx, script)
	if err != nil {
		return ""
	}
	return cmp.Or(lastWords(out), faultLoop(out))
}

// registers returns a script that prints the registers of running libvirt guests twice, a second apart.
func registers(guests string) string {
	return `pgrep -f 'qemu-system.*guest=' >/dev/null || exit 0
for i in 1 2; do
	for g in ` + guests + `; do
		echo "guest $g"; timeout 5 virsh -q qemu-monitor-command $g --hmp 'info registers -a' | tr -d '\r' | grep -oE '^CPU#[0-9]+|RIP=[0-9a-f]+|CR2=[0-9a-f]+'
	done
	sleep 1
done
true`
}

// faultLoop finds a guest with a CPU that faults on one instruction for ever: the address of the last fault, CR2,
// equals RIP, and both are the same a second later. The page is present, but the emulated KVM's shadow of it never
// appears.
func faultLoop(registers string) string {
	var guest, cpu, at string
	seen := map[string]bool{}
	for line := range strings.Lines(registers) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "guest "):
			guest = line
		case strings.HasPrefix(line, "CPU#"):
			cpu = line
		case strings.HasPrefix(line, "RIP="):
			at = line[len("RIP="):]
		case strings.TrimPrefix(line, "CR2=") == at:
			where := guest + ", " + cpu + ", faults on its instruction at " + at + " for ever"
			if seen[where] {
				return where
			}
			seen[where] = true
		}
	}
	return ""
}

// lastWords returns the panic message in the log of a serial console. L1's kernel also panics where it would hang
// (init2).
func lastWords(log string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "Kernel panic") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// complaint returns the first line in which a kernel on a serial console reports a problem, and the next line; empty if
// there is none.
func complaint(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	lines := strings.SplitAfter(string(text), "\n")
	for i, line := range lines {
		for _, sign := range []string{"INFO: ", "BUG: ", "WARNING: ", "Kernel panic", "soft lockup"} {
			if strings.Contains(line, sign) {
				return strings.Join(lines[i:min(i+2, len(lines))], "") + "...\n"
			}
		}
	}
	return ""
}
