//go:build faults

package faults

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
)

// resets is how often the machine is reset; MPPS_RESETS overrides it.
func resets(t *testing.T) int {
	text := os.Getenv("MPPS_RESETS")
	if text == "" {
		return 8
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// prepare brings a machine that was just booted to where a plan can be made and applied.
const prepare = `set -e
mkdir -p /opt /run/systemd/none
cp /share/mpps /opt/mpps
for d in /sys/class/net/*/device; do ip link set $(basename $(dirname $d)) up; done
sleep 1
`

// remains lists what mpps may leave on a machine: its files, but for journal, lock and the directories of both.
const remains = `find /etc/sysctl.d /etc/modprobe.d /etc/systemd /etc/mpps /var/lib/mpps /run/mpps -path /var/lib/mpps/journal -prune -o -newer /share/mark ! -type d -print 2>/dev/null | grep -v -e /run/mpps/ || true`

// TestResetAnywhere cuts the power of an emulated KVM host, whose disk really loses what was not fsynced, at random moments of
// an apply. At the next boot the status must tell the truth, and after a rollback a snapshot must be the one before: a reboot
// resets what only the kernel holds, and a rollback everything else, so that nothing is left to be excepted.
func TestResetAnywhere(t *testing.T) {
	l := labtest.Host(t, labtest.Disk, labtest.Fresh)
	must := func(script string) string {
		t.Helper()
		out, err := l.Must(t.Context(), script)
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return strings.TrimSpace(out)
	}
	reset := func() {
		t.Helper()
		if err := l.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// The disk is what it is here for: what is written and not fsynced is lost, what is fsynced is kept.
	must("echo kept > /root/kept; sync /root/kept; sync /root; echo lost > /root/lost")
	reset()
	if got := must("cat /root/kept; cat /root/lost 2>/dev/null || echo gone"); got != "kept\ngone" && got != "kept" {
		t.Fatalf("after a reset the files hold %q: expected the first alone", got)
	}

	must(prepare + `cd /share; /opt/mpps snapshot -o before.json; /opt/mpps plan --pps 1.8M --consent security,data -o plan.json; touch mark`)
	took, err := strconv.ParseFloat(must(`s=$EPOCHREALTIME; /opt/mpps apply /share/plan.json --confirm 0 >&2; e=$EPOCHREALTIME; awk "BEGIN{print $e-$s}"`), 64)
	if err != nil {
		t.Fatal(err)
	}
	must("/opt/mpps rollback >&2")
	if left := must("cp /share/mpps /opt/mpps; " + remains); left != "" {
		t.Errorf("left behind without any reset: %s", left)
	}
	var plan struct {
		Changes []json.RawMessage `json:"changes"`
	}
	if err := json.Unmarshal([]byte(must("cat /share/plan.json")), &plan); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d changes are applied in %.1f s", len(plan.Changes), took)

	lost, behind := 0, 0
	states := map[string]int{}
	for n := range resets(t) {
		pause := time.Duration(rand.Float64() * 1.1 * took * float64(time.Second))
		done := make(chan error, 1)
		go func() {
			_, err := l.Exec(t.Context(), lab.Cmd{Script: "exec /opt/mpps apply /share/plan.json --confirm 0"})
			done <- err
		}()
		time.Sleep(pause)
		reset()
		<-done // it says that the host is gone
		must(prepare)
		var status struct {
			Result struct{ State, Why string } `json:"result"`
		}
		if err := json.Unmarshal([]byte(must("/opt/mpps status --json")), &status); err != nil {
			t.Fatal(err)
		}
		states[status.Result.State]++
		switch status.Result.State {
		case "clean", "interrupted", "drifted", "applied":
		default:
			lost++
			t.Errorf("reset %d after %v: status is %s: %s", n, pause, status.Result.State, status.Result.Why)
		}
		if out, err := l.Shell(t.Context(), "/opt/mpps rollback"); err != nil || out.Code != 0 {
			lost++
			t.Errorf("reset %d after %v: rollback: %v, exit %d\n%s%s", n, pause, err, out.Code, out.Stdout, out.Stderr)
		}
		out, err := l.Shell(t.Context(), "cd /share; /opt/mpps snapshot -o after.json && /opt/mpps snapshot diff before.json after.json; code=$?; "+remains+"; exit $code")
		if err != nil || out.Code != 0 {
			lost++
			t.Errorf("reset %d after %v: %v\n%s", n, pause, err, out.Stdout)
		}
		if left := must(remains); left != "" {
			behind++
			t.Errorf("reset %d after %v: left behind: %s", n, pause, left)
		}
		if got := must("/opt/mpps status"); got != "clean" {
			t.Errorf("reset %d: after rollback the status is %q", n, got)
		}
	}
	t.Logf("resets tried %d (found then: %v) · states lost %d · files left behind %d", resets(t), states, lost, behind)
}
