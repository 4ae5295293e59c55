//go:build lab

package reboot

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// box is the emulated host of a test.
type box struct{ *labtest.Scene }

// answer is the result of a command of mpps, of whatever exit code.
func (b box) answer(into any, arguments string) {
	b.Helper()
	out := must.Get(b.Lab.Shell(b.Context(), "/opt/mpps --json "+arguments))(b)
	var envelope struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(out.Stdout), &envelope); err != nil {
		b.Fatalf("mpps %s: exit %d: %v: %s%s", arguments, out.Code, err, out.Stdout, out.Stderr)
	}
	if err := json.Unmarshal(envelope.Result, into); err != nil {
		b.Fatalf("mpps %s: %v", arguments, err)
	}
}

// timed runs mpps and tells how long it took.
func (b box) timed(arguments string) {
	b.Helper()
	began := time.Now()
	b.Must("/opt/mpps " + arguments + " >&2")
	b.Logf("mpps %s: %.1f s", arguments, time.Since(began).Seconds())
}

// reboot has the host reboot by itself.
func (b box) reboot() {
	b.Helper()
	began := time.Now()
	must.Do(b, b.Lab.Reboot(b.Context()))
	b.Logf("rebooted in %.1f s", time.Since(began).Seconds())
}

// status is the one word, and the states of the rows by address.
func (b box) status() (string, map[string]string) {
	b.Helper()
	var s struct {
		State string
		Rows  []struct{ Address, State, Why string }
	}
	b.answer(&s, "status")
	rows := map[string]string{}
	for _, r := range s.Rows {
		rows[r.Address] = r.State
	}
	var verify struct {
		Rows []struct{ Address, State, Why string }
	}
	b.answer(&verify, "verify")
	for _, r := range verify.Rows {
		must.Hold(b, rows[r.Address] == r.State,
			"%s is %s in verify and %q in status: %s", r.Address, r.State, rows[r.Address], r.Why)
	}
	must.Hold(b, len(verify.Rows) == len(rows), "verify has %d rows, status %d", len(verify.Rows), len(rows))
	return s.State, rows
}

// all sees that the host is in a state, and each of some values.
func (b box) all(state, row string, addresses []string) {
	b.Helper()
	got, rows := b.status()
	must.Equal(b, got, state, "status")
	for _, a := range addresses {
		must.Equal(b, rows[a], row, "%s", a)
	}
}

// boot files of the host, and those that mpps makes for them.
const bootFiles = `cd /; for f in $(find boot/grub etc/default var/lib/mpps/boot -type f 2>/dev/null | sort); do echo "$(stat -c %a:%U "$f") $(md5sum "$f")"; done; find etc/default var/lib/mpps/boot -type d 2>/dev/null | sort`

// kernel is what the running kernel says by itself, without mpps.
const kernel = `for f in isolated nohz_full; do echo $f $(cat /sys/devices/system/cpu/$f); done
echo hugepages $(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)
echo hugetlb $(awk '$1=="Hugetlb:"{print $2}' /proc/meminfo)
echo cstate $(cat /sys/module/processor/parameters/max_cstate)
echo aspm $(grep -o '\[[a-z]*\]' /sys/module/pcie_aspm/parameters/policy)
echo irqs $(cat /proc/irq/default_smp_affinity)
echo release $(uname -r)
dmesg | grep -o 'Offload RCU callbacks from CPUs: [^.]*'`

// newer is a kernel that somebody has installed, with which this host does not boot: the lab starts no other one than
// its own. Debian's menu has it first.
const (
	newer   = "9.9.9-trial"
	install = "echo no kernel >/boot/vmlinuz-" + newer + "; update-grub 2>&1"
	remove  = "rm /boot/vmlinuz-" + newer + "; update-grub 2>&1"
)

const defaultKernel = "boot-kernel:default"

// killed kills mpps while grub-mkconfig runs for it, held up by a script of the administrator's, and sees that the
// status tells it and a rollback puts the files back.
func (b box) killed(files string) {
	b.Helper()
	b.Must(`set -e
printf '#!/bin/sh\nwhile [ -e /run/slow ]; do sleep 0.2; done\n' >/etc/grub.d/06_slow
chmod 755 /etc/grub.d/06_slow
touch /run/slow
/opt/mpps apply --yes -q --confirm 0 /share/plan.json >/run/apply.log 2>&1 & pid=$!
until pgrep -x 06_slow >/dev/null; do kill -0 $pid || { cat /run/apply.log; exit 1; }; sleep 0.1; done
kill -9 $pid
rm /run/slow
i=0; while pgrep -x '06_slow|grub-mkconfig' >/dev/null; do i=$((i+1)); [ $i -lt 1200 ] || { echo "grub-mkconfig runs on"; exit 1; }; sleep 0.1; done
rm /etc/grub.d/06_slow`)
	if state, _ := b.status(); state != "interrupted" {
		b.Errorf("status after a kill is %s, expected interrupted", state)
	}
	b.timed("rollback -q")
	if now := b.Must(bootFiles); now != files {
		b.Errorf("boot loader files after a kill and a rollback:\n%s\nbefore:\n%s", now, files)
	}
	if state, rows := b.status(); state != "clean" || len(rows) > 0 {
		b.Errorf("status is %s with %d values, expected clean", state, len(rows))
	}
}

// TestRebootWithArguments plans for realtime on a host whose administrator has boot arguments of their own, applies,
// reboots, rolls back, and reboots again.
func TestRebootWithArguments(t *testing.T) {
	labtest.Long(t)
	b := box{labtest.On(t, labtest.Host(t, labtest.Persist, labtest.Fresh))}
	b.Must(`set -e; cp /share/mpps /opt/mpps; mkdir -p /etc/mpps
printf '# of this site\nGRUB_CMDLINE_LINUX_DEFAULT="nohz_full=3 quiet"\n' >/etc/default/grub.d/50-site.cfg
update-grub 2>&1`)
	b.reboot()
	line := b.Must("cat /proc/cmdline")
	must.Need(t, strings.HasSuffix(line, " nohz_full=3 quiet"),
		"booted with %q: the administrator's arguments are not there", line)
	byItself := b.Must(kernel)
	own := strings.TrimSpace(b.Must("uname -r"))
	b.Must(install)

	// Everything but boot arguments is left alone: a host without systemd loses the rest with the reboot.
	const goal = "plan -q --latency 20us --cpus 2-3 --consent data"
	type planned struct {
		Changes []struct{ ID, Address, Needs string }
	}
	var p planned
	b.answer(&p, goal)
	var site strings.Builder
	var left []string
	for _, c := range p.Changes {
		if !strings.HasPrefix(c.Address, "kernel-arg:") &&
			!strings.HasPrefix(c.ID, "lasting.") && !slices.Contains(left, c.ID) {
			left = append(left, c.ID)
			fmt.Fprintf(&site, "- {id: %s, leave: true, reason: only boot arguments here}\n", c.ID)
		}
	}
	fmt.Fprintf(&site, "- {id: kernel.default, want: %s, reason: the one that this host is known to boot with}\n", own)
	// Both are for their own machines, which the emulated host is not.
	site.WriteString("- {id: boot.cstate, address: 'kernel-arg:processor.max_cstate', want: 1, reason: the test}\n")
	site.WriteString("- {id: boot.aspm, address: 'kernel-arg:pcie_aspm.policy', want: performance, reason: the test}\n")
	site.WriteString("- {id: boot.hugepages, address: 'kernel-arg:hugepagesz+hugepages', want: 'hugepagesz=1G " +
		"hugepages=1', reason: room for one guest}\n")
	b.Must("cat >/etc/mpps/site.yaml <<'EOF'\n" + site.String() +
		"EOF\ncd /share; /opt/mpps snapshot -q -o before.json")
	files := b.Must(bootFiles)

	p = planned{}
	b.answer(&p, goal+" -o /share/plan.json")
	var addresses []string
	chosen := false
	for _, c := range p.Changes {
		if c.Address == defaultKernel {
			chosen = true
		} else {
			addresses = append(addresses, c.Address)
		}
		if c.Address != defaultKernel && !strings.HasPrefix(c.Address, "kernel-arg:") ||
			c.Needs != "reboot of the host" {
			t.Errorf("%s %s needs %q: expected only what the boot loader gets, which needs a reboot", c.ID, c.Address,
				c.Needs)
		}
	}
	must.Hold(t, chosen, "the default kernel is not planned, which the site file asks for")
	for _, name := range []string{"isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "skew_tick",
		"hugepagesz+hugepages", "quiet", "processor.max_cstate"} {
		must.Hold(t, slices.Contains(addresses, "kernel-arg:"+name), "%s is not planned: %v", name, addresses)
	}
	b.killed(files)
	b.timed("apply --yes -q --confirm 0 /share/plan.json")
	b.all("waiting", "waiting", addresses)
	if _, rows := b.status(); rows[defaultKernel] != "compliant" {
		t.Errorf("%s is %s, expected compliant: that kernel runs", defaultKernel, rows[defaultKernel])
	}
	must.Equal(t, b.Must("cat /proc/cmdline; "+kernel), line+"\n"+byItself, "the running kernel has changed")

	b.reboot()
	b.all("applied", "compliant", append(addresses, defaultKernel))
	want := "isolated 2-3\nnohz_full 2-3\nhugepages 1\nhugetlb 1048576\ncstate 1\naspm [performance]\nirqs " +
		"3\nrelease " + own + "\nOffload RCU callbacks from CPUs: 2-3"
	must.Equal(t, b.Must(kernel), want, "the rebooted kernel says")
	words := strings.Fields(b.Must("cat /proc/cmdline"))
	for _, word := range []string{"isolcpus=managed_irq,domain,2-3", "nohz_full=2-3", "rcu_nocbs=2-3",
		"irqaffinity=0-1", "skew_tick=1", "mce=ignore_ce", "tsc=reliable", "processor.max_cstate=1"} {
		must.Hold(t, slices.Contains(words, word), "the kernel was booted with %q, without %s", words, word)
	}
	if i := slices.Index(words, "hugepagesz=1G"); i < 0 || i+1 >= len(words) || words[i+1] != "hugepages=1" {
		t.Errorf("the kernel was booted with %q, without hugepagesz=1G hugepages=1 in this order", words)
	}
	for _, word := range []string{"nohz_full=3", "quiet"} {
		must.Hold(t, !slices.Contains(words, word), "the kernel was booted with %q, still with %s", words, word)
	}

	b.timed("rollback -q")
	b.all("waiting", "waiting", append(addresses, defaultKernel))
	if now := b.Must(bootFiles); now != files {
		t.Errorf("boot loader files after the rollback:\n%s\nbefore:\n%s", now, files)
	}
	b.Must(remove) // it is the default again, and this host would not boot
	b.reboot()
	b.Must(install)
	if state, rows := b.status(); state != "clean" || len(rows) > 0 {
		t.Errorf("status is %s with %d values, expected clean", state, len(rows))
	}
	must.Equal(t, b.Must("cat /proc/cmdline"), line, "booted with")
	must.Equal(t, b.Must(kernel), byItself, "the kernel says")
	var diff struct {
		Differences []struct{ Path, Before, After string }
	}
	b.Must("/opt/mpps snapshot -q -o /share/after.json")
	b.answer(&diff, "snapshot diff /share/before.json /share/after.json")
	for _, d := range diff.Differences {
		t.Errorf("%s is not as before: %s → %s", d.Path, d.Before, d.After)
	}
}
