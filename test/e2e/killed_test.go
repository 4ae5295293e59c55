//go:build lab

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// interfaces of no use whose settings make a plan long enough to be hit on the way.
const dummies = 40

// longPlan makes the interfaces, and a plan of some 120 changes, a few of which take long, with every kind that lasts.
func longPlan(b *box) (*plan.Plan, *survey) {
	b.Helper()
	b.Must(fmt.Sprintf(`for i in $(seq %d); do echo "link add e2e$i type dummy"; done | ip -batch -`, dummies))
	b.Cleanup(func() {
		b.Must(fmt.Sprintf(`for i in $(seq %d); do echo "link del e2e$i"; done | ip -batch -`, dummies))
	})
	h := b.snapshot("long.json")
	igb := b.names[lab.MACigb1]
	slow := []change{
		{"nic-channels:" + igb + "/combined", "3"},
		{"domain:" + guestName + "/interface/" + guestMAC + "/model", "virtio"},
		{"nic-ring:" + igb + "/rx", "512"},
		{"netfilter-rule:nflog-skip/iptables-legacy", "present"},
		{"domain:" + guestName + "/vcpupin/1", "3"},
		{"thread-affinity:" + guestName + "/vcpu/0", "1"},
	}
	var changes []change
	for i := range dummies {
		if i%7 == 0 && i/7 < len(slow) {
			changes = append(changes, slow[i/7])
		}
		for _, name := range []string{"accept_local", "log_martians", "arp_notify"} {
			changes = append(changes, change{fmt.Sprintf("sysctl:net.ipv4.conf.e2e%d.%s", i+1, name), "1"})
		}
	}
	now := b.survey(addressesOf(b, changes)...)
	b.putPlan("other-plan.json", byHand(b, h, now, change{"sysctl:net.core.somaxconn", "5000"}))
	p := byHand(b, h, now, changes...)
	b.putPlan("long-plan.json", p)
	return p, now
}

// testEnds has an apply of many changes killed, interrupted, and stopped while others try.
func testEnds(b *box) {
	p, before := longPlan(b)
	for _, part := range []struct {
		name string
		do   func(*box, *plan.Plan, *survey)
	}{
		{"killed", testKilled},
		{"interrupted", testInterrupted},
		{"two at a time", testLocked},
	} {
		b.t.Run(part.name, func(t *testing.T) { part.do(b.in(t), p, before) })
	}
	b.unchanged("long.json")
}

// strike runs mpps apply on the host, sends it a signal once its journal has a number of lines, does something else
// meanwhile, and returns how apply ended.
func (b *box) strike(signal string, lines int, file string, meanwhile func(pid string)) lab.Result {
	b.Helper()
	type ended struct {
		r   lab.Result
		err error
	}
	b.Must("rm -f /run/e2e.pid")
	done := make(chan ended, 1)
	go func() {
		r, err := b.Lab.Shell(b.Context(), "ls /var/lib/mpps/journal > /run/e2e.before 2>/dev/null; echo $BASHPID > "+
			"/run/e2e.new; mv /run/e2e.new /run/e2e.pid; exec mpps --json apply --foreign --yes "+file)
		done <- ended{r, err}
	}()
	// Shell builtins only: a fork takes as long as many changes.
	struck := b.Must(fmt.Sprintf(`until [ -s /run/e2e.pid ]; do sleep 0.05; done
pid=$(</run/e2e.pid); declare -A old; while read -r f; do old[$f]=1; done < /run/e2e.before
shopt -s nullglob
while kill -0 $pid 2>/dev/null; do
	for f in /var/lib/mpps/journal/*; do
		[ -f "$f" ] && [ -z "${old[${f##*/}]}" ] || continue
		mapfile -t l < "$f"
		if [ ${#l[@]} -ge %d ]; then kill -%s $pid && echo "$pid struck at ${#l[@]}"; exit 0; fi
	done
done; echo "too late"`, lines, signal))
	pid, _, hit := strings.Cut(struck, " struck")
	if hit {
		meanwhile(pid)
	}
	e := <-done
	must.Do(b, e.err)
	b.Logf("%s: %s", signal, struck)
	must.Need(b, hit, "apply had ended before (exit %d): the plan is too short for this test\n%s", e.r.Code, e.r.Stderr)
	return e.r
}

// struckBefore is the number of records, two of each change, from which on a strike may come too late: what comes after
// two thirds of the changes takes longer than the loop that counts them may stand still.
func struckBefore(p *plan.Plan) int { return 4 * len(p.Changes) / 3 }

func nothing(string) {}

// testKilled kills apply on the way, as a power cut would: status tells, nothing else is begun, rollback restores.
// Anywhere among the changes: test/faults does it at every point.
func testKilled(b *box, p *plan.Plan, before *survey) {
	if r := b.strike("KILL", 2+rand.IntN(struckBefore(p)-2), "/share/long-plan.json", nothing); r.Code != 137 {
		b.Errorf("killed: exit %d\n%s", r.Code, r.Stderr)
	}
	if status := b.MPPS(1, "status", "--detailed-exit-code").Stdout; !strings.HasPrefix(status, "interrupted") {
		b.Errorf("status: %s", status)
	}
	if r := b.MPPS(1, "apply", "--yes", "--foreign", "/share/long-plan.json"); !strings.Contains(r.Stderr, "is interrupted") ||
		!strings.Contains(r.Stderr, "mpps rollback") {
		// A value that is half way there may be told first.
		must.Hold(b, strings.Contains(r.Stderr, "stale"), "apply after a kill: %s", r.Stderr)
	}
	b.MPPS(0, "rollback")
	b.survey(p.Addresses()...).same(b, before)
	b.MPPS(3, "status", "--detailed-exit-code")
}

// testInterrupted presses Ctrl-C: apply itself undoes what it did.
func testInterrupted(b *box, p *plan.Plan, before *survey) {
	r := b.strike("INT", len(p.Changes)/2+rand.IntN(struckBefore(p)-len(p.Changes)/2), "/share/long-plan.json", nothing)
	b.undone(r)
	b.survey(p.Addresses()...).same(b, before)
	b.MPPS(3, "status", "--detailed-exit-code")
}

// undone requires that an apply ended by putting back what it had done.
func (b *box) undone(r lab.Result) {
	b.Helper()
	must.Hold(b, r.Code == 1 && strings.Contains(r.Stderr, "put back"), "exit %d\n%s", r.Code, r.Stderr)
	if a := labtest.Result[applied](b, r.Stdout); a.State != "undone" || a.TX == "" {
		b.Errorf("transaction %q is %s", a.TX, a.State)
	}
}

// testLocked stops an apply in the middle, tries others meanwhile, and hangs up on it.
func testLocked(b *box, p *plan.Plan, before *survey) {
	b.undone(b.strike("STOP", len(p.Changes), "/share/long-plan.json", func(pid string) {
		defer b.Must("kill -HUP " + pid + "; kill -CONT " + pid)
		for _, argv := range [][]string{{"apply", "--yes", "--foreign", "/share/other-plan.json"}, {"rollback"}} {
			r := b.MPPS(11, argv...)
			must.Hold(b, strings.Contains(r.Stderr, "process "+pid+" (apply)"),
				"%v names process %s not:\n%s", argv, pid, r.Stderr)
		}
		if status := b.MPPS(11, "status", "--detailed-exit-code").Stdout; !strings.HasPrefix(status,
			"in-flight: process "+pid+" ") {
			b.Errorf("status: %s", status)
		}
	}))
	if got := b.Must("sysctl -n net.core.somaxconn"); got == "5000" {
		b.Error("the apply that found the lock held has written all the same")
	}
	b.survey(p.Addresses()...).same(b, before)
	b.MPPS(3, "status", "--detailed-exit-code")
}

// testStale changes the host behind a plan's back.
func testStale(b *box) {
	h := b.snapshot("stale.json")
	igb := b.names[lab.MACigb1]
	changes := []change{{"sysctl:net.core.somaxconn", "5000"}, {"nic-ring:" + igb + "/rx", "512"}}
	b.putPlan("stale-plan.json", byHand(b, h, b.survey(addressesOf(b, changes)...), changes...))
	was := b.Must("sysctl -n net.core.somaxconn; sysctl -qw net.core.somaxconn=4321")
	defer b.Must("sysctl -qw net.core.somaxconn=" + was)
	r := b.MPPS(1, "apply", "--yes", "--foreign", "/share/stale-plan.json")
	if want := "sysctl:net.core.somaxconn was " + was + " and is 4321"; !strings.Contains(r.Stderr, want) ||
		strings.Contains(r.Stderr, "nic-ring") {
		b.Errorf("expected %q and nothing of the ring, found %s", want, r.Stderr)
	}
	must.Hold(b, strings.Contains(r.Stderr, "hint: make a new plan"), "no hint: %s", r.Stderr)
	// The host itself has changed: a NIC is gone.
	b.Must("sysctl -qw net.core.somaxconn=" + was + "; ip link set " + igb + " down; ip link set " + igb +
		" name gone0")
	defer b.Must("ip link set gone0 name " + igb + "; ip link set " + igb + " up")
	if r := b.MPPS(1, "apply", "--yes", "--foreign", "/share/stale-plan.json"); !strings.Contains(r.Stderr, "nic "+igb+" was ") ||
		!strings.Contains(r.Stderr, "gone") {
		b.Errorf("a NIC that is gone: %s", r.Stderr)
	}
}
