//go:build lab

package realtime

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// goalOf is what is asked for, as a user gives it.
var goalOf = []string{"--latency", "50us", "--cpus", "2-3", "--guest", guestName, "--consent", "data,security"}

// left are knobs that an emulated host must not follow: the console's messages are how a dead kernel is known.
const left = `- {id: boot.quiet, leave: true, reason: the console tells what died}
- {id: boot.hugepages, address: "kernel-arg:hugepagesz+hugepages", want: "hugepagesz=2M hugepages=320", reason: the guest and room on each node}
`

// TestRealtimeHost takes a host from its usual kernel to the realtime kernel and back: plan, apply, reboot, what
// remains, the guest's restart, everything seen by other programs, and all of it put back over another reboot.
func TestRealtimeHost(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	usual, realtime := s.Lab.Releases()
	s.cyclictest("before")
	before := s.first()
	s.put("/etc/mpps/site.yaml", left+"- {id: kernel.default, want: "+realtime+", reason: the guest needs it}\n")

	s.mpps(0, append([]string{"plan", "-q", "-o", "/share/plan.json"}, goalOf...)...)
	p := s.read("plan.json")
	for _, c := range p.Changes {
		s.Logf("planned: %s %s: %s; needs %q", c.ID, c.Address, c.Address.Brief(c.To), c.Needs)
	}
	first := labtest.Answer[apply.Result](s, 0, "apply", "--yes", "--confirm", "0", "/share/plan.json").TX
	st := s.status()
	must.Hold(t, st.State == apply.IsWaiting && st.Remains != nil && st.Remains.TX == first &&
		strings.Contains(st.Remains.Next, "reboot the host") && len(st.Remains.Later) != 0,
		"before the reboot: %+v", st.Remains)
	s.mpps(1, "apply", "--yes", "--resume")
	// Huge pages come with the boot: before it the guest starts with what its definition has by now, which does not ask
	// for them.
	must.Equal(t, s.pages(), "0", "lines of huge pages in its definition before the reboot")
	s.Must("virsh -q destroy " + guestName + " && virsh -q start " + guestName)
	s.LogTime("the guest was restarted before the reboot")

	s.reboot()
	if got := s.Must("uname -r; cat /sys/kernel/realtime"); got != realtime+"\n1" {
		t.Fatalf("booted %s, expected %s with PREEMPT_RT", got, realtime)
	}
	words := strings.Fields(s.Must("cat /proc/cmdline"))
	for _, c := range p.Changes {
		if c.Address.Kind != setting.KernelArg || strings.Contains(c.Address.Path, "+") || c.To.State != setting.Known {
			continue
		}
		word := c.Address.Path + "=" + c.To.Value
		if c.To.Value == "present" {
			word = c.Address.Path
		}
		must.Hold(t, slices.Contains(words, word), "booted with %q, without %s", words, word)
	}
	must.Equal(t, s.Must("cat /sys/devices/system/cpu/isolated"), "2-3", "isolated")
	st = s.status()
	if st.Remains == nil || !st.Remains.Looked || st.Remains.TX != first || len(st.Remains.Changes) == 0 ||
		!strings.Contains(st.Remains.Next, "--resume") {
		t.Fatalf("after the reboot: %+v", st.Remains)
	}
	for _, l := range st.Remains.Changes {
		s.Logf("remains: %s %s: %s", l.ID, l.Address, l.To)
	}

	second := labtest.Answer[apply.Result](s, 0, "apply", "--yes", "--resume", "--confirm", "0")
	must.Need(t, second.TX != "" && second.Follows == first, "went on with %q as %q", second.Follows, second.TX)
	st = s.status()
	if r := st.Remains; r == nil || !slices.Equal(r.Chain, []string{first, second.TX}) {
		t.Errorf("resumed: %+v", r)
	} else {
		for _, l := range r.Changes {
			s.Logf("still remains: %s %s: %s", l.ID, l.Address, l.To)
		}
	}
	s.priorities()
	if got := s.pages(); got == "0" {
		t.Error("after the reboot its definition has no huge pages")
	}

	if err := s.guest.Restart(t.Context()); err != nil { // with its new definition
		t.Fatal(err)
	}
	s.LogTime("the guest runs as it is defined now")
	s.mpps(0, "restore", "-q") // what belongs to a running guest, as the service does
	// What was set inside the guest lasted until its restart, and is resumed too.
	third := labtest.Answer[apply.Result](s, 0, "apply", "--yes", "--resume", "--confirm", "0")
	if third.TX != "" && third.Follows != second.TX {
		t.Errorf("went on with %q as %q", third.Follows, third.TX)
	}
	for _, c := range third.Changes {
		s.Logf("with the guest: %s %s: %s", c.ID, c.Address, c.Found)
	}
	var gone []setting.Address
	for _, r := range labtest.Answer[apply.Status](s, 0, "verify").Rows {
		switch r.State {
		case apply.Compliant:
		case apply.NotThere: // PREEMPT_RT has neither transparent huge pages nor NUMA balancing
			s.Logf("the realtime kernel does not have %s %s: %s", r.ID, r.Address, r.Why)
			gone = append(gone, r.Address)
		default:
			t.Errorf("%s %s is %s: %s", r.ID, r.Address, r.State, r.Why)
		}
	}
	must.Hold(t, len(gone) <= 8, "%d values are not there: %v", len(gone), gone)
	families := s.seen(s.standing(p, slices.Concat(third.Changes, second.Changes), gone))
	t.Logf("seen by other programs: %v", families)
	for _, kind := range []setting.Kind{setting.KernelArg, setting.BootKernel, setting.ThreadSched, setting.Sysctl,
		setting.Domain, setting.DomainLive} {
		must.Hold(t, families[kind] != 0, "no value of kind %s was set", kind)
	}
	s.interrupts()
	s.cyclictest("after")

	s.Must("virsh -q destroy " + guestName)
	s.mpps(1, "rollback", "-q", first) // not alone
	s.rollback(first)
	must.Equal(t, s.status().State, apply.IsWaiting, "status before the reboot")
	s.Must("rm /etc/mpps/site.yaml")
	s.reboot()
	must.Equal(t, s.Must("uname -r"), usual, "booted")
	if after := s.first(); after != before {
		t.Errorf("after the rollback:\n%s\nbefore:\n%s", after, before)
	}
	must.Equal(t, s.status().State, apply.IsClean, "status")
}

// rollback puts a transaction back with those that went on with it. Where libvirt hung for longer than mpps waits,
// which it does under emulation now and then, the rest is put back as the message says: by the same command again.
func (s *scene) rollback(tx string) {
	s.Helper()
	r := must.Get(s.Lab.Run(s.Context(), "mpps", "rollback", "-q", "--with-later", tx))(s)
	s.LogTime("mpps rollback --with-later " + tx)
	switch {
	case r.Code == 0:
	case strings.Contains(r.Stderr, "did not return within") && strings.Contains(r.Stderr, "'mpps rollback "+tx+
		"' again"):
		s.Logf("not at once: %s", r.Stderr)
		s.mpps(0, "rollback", "-q", tx)
	default:
		s.Fatalf("mpps rollback --with-later %s: exit %d\n%s%s", tx, r.Code, r.Stdout, r.Stderr)
	}
}

// pages counts the lines of the guest's definition that ask for huge pages.
func (s *scene) pages() string {
	s.Helper()
	return s.Must("virsh dumpxml --inactive " + guestName + " | grep -c '<hugepages' || true")
}

// priorities requires that the threads which PREEMPT_RT has for each CPU are above a vCPU of priority 1, by chrt.
func (s *scene) priorities() {
	s.Helper()
	out := s.Must(`for t in rcuc/2 rcuc/3 rcub/0 ksoftirqd/2 ksoftirqd/3 ktimers/2 ktimers/3; do p=$(pgrep -x $t) || continue; echo $t $(chrt -p $p | sed 's/.*: //'); done`)
	s.Logf("threads by chrt: %s", strings.ReplaceAll(out, "\n", "; "))
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		must.Hold(s, len(f) == 3 && f[1] == "SCHED_FIFO" && f[2] != "0" && f[2] != "1",
			"%s: expected SCHED_FIFO of 2 or more", strings.TrimSpace(line))
		name, _, _ := strings.Cut(f[0], "/")
		seen[name] = true
	}
	for _, name := range []string{"rcuc", "rcub", "ksoftirqd", "ktimers"} {
		must.Hold(s, seen[name], "a kernel with PREEMPT_RT has threads %s, none was found", name)
	}
}

// read reads a plan that mpps has written on the host.
func (s *scene) read(file string) *plan.Plan {
	s.Helper()
	text := must.Get(os.ReadFile(filepath.Join(s.Lab.ShareDir(), file)))(s)
	p := must.Get(plan.Decode(bytes.NewReader(text)))(s)
	return p
}

// standing are the changes of a plan and of the transactions that went on with it, the latest first. Interrupts have
// other numbers under another kernel: those of the plan are left to interrupts. gone are those that the realtime kernel
// does not have.
func (s *scene) standing(p *plan.Plan, later []apply.Outcome, gone []setting.Address) []plan.Change {
	var all []plan.Change
	for _, c := range later {
		if c.Found != "" && !c.Address.Kind.IsText() {
			all = append(all, plan.Change{ID: c.ID, Address: c.Address, Want: setting.Exact(c.Found)})
		}
	}
	for _, c := range p.Changes {
		again := slices.ContainsFunc(later, func(o apply.Outcome) bool { return o.Address == c.Address })
		if !again && !slices.Contains(gone, c.Address) && c.Address.Kind != setting.IRQAffinity &&
			c.Address.Kind != setting.IRQCPUs {
			all = append(all, c)
		}
	}
	return all
}

// interrupts requires that those which the kernel lets be moved are off the guest's CPUs: to the others it says EIO.
func (s *scene) interrupts() {
	s.Helper()
	out := s.Must(`for d in /proc/irq/[0-9]*; do l=$(cat $d/smp_affinity_list); case $l in 0|1|0-1|0,1) ;; *) echo "$l" 2>/dev/null >$d/smp_affinity_list && echo "${d##*/} $l $(ls $d | tr '\n' ' ')";; esac; done 2>/dev/null; true`)
	for line := range strings.Lines(out) {
		s.Logf("interrupt that may be moved and is not: %s", strings.TrimSpace(line))
	}
	if n := strings.Count(out, "\n"); out != "" && n >= 3 {
		s.Errorf("%d interrupts that may be moved are on the guest's CPUs:\n%s", n+1, out)
	}
}
