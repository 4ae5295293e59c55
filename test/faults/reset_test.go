//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// resets is how often the machine is reset; MPPS_RESETS overrides it.
func resets(t *testing.T) int {
	text := os.Getenv("MPPS_RESETS")
	if text == "" {
		return 8
	}
	n := must.Get(strconv.Atoi(text))(t)
	return n
}

// prepare brings a machine that was just booted to where a plan can be made and applied.
const prepare = `set -e
mkdir -p /opt /run/systemd/none
cp /share/mpps /opt/mpps
for d in /sys/class/net/*/device; do ip link set $(basename $(dirname $d)) up; done
sleep 1
`

// listed names every file where mpps may leave one, but for the journal, and gives the sums of those that it may
// change.
const listed = `{ find /etc /boot /var/lib/mpps -path /var/lib/mpps/journal -prune -o ! -type d -print
find /etc/sysctl.d /etc/modprobe.d /etc/default /etc/systemd /boot/grub -type f -exec sha256sum {} +; } 2>/dev/null | LC_ALL=C sort`

// box is the emulated host whose power is cut.
type box struct {
	*testing.T
	lab *lab.Lab
}

func (b box) must(script string) string {
	b.Helper()
	out, err := b.lab.Must(b.Context(), script)
	must.Need(b, err == nil, "%s: %v", script, err)
	return strings.TrimSpace(out)
}

// cut cuts the power and boots again.
func (b box) cut() {
	b.Helper()
	must.Do(b, b.lab.Reset(b.Context()))
}

// files compares the files with those before.
func (b box) files(what string) {
	b.Helper()
	for line := range strings.Lines(b.must(listed +
		` >/share/files.now; LC_ALL=C comm -3 --output-delimiter=+ /share/files /share/files.now`)) {
		line = strings.TrimSuffix(line, "\n")
		switch added, now := strings.CutPrefix(line, "+"); {
		case now && strings.HasPrefix(added, "/"):
			total.leave(b.T, what, added)
		case !now: // a sum that is another has a line with the one before, too
			total.lose(b.T, "%s: this file is gone or not as before: %s", what, line)
		}
	}
}

// seconds is how long a command takes.
func (b box) seconds(command string) float64 {
	b.Helper()
	n := must.Get(strconv.ParseFloat(b.must("s=$EPOCHREALTIME; "+command+
		` >&2; e=$EPOCHREALTIME; awk "BEGIN{print $e-$s}"`), 64))(b)
	return n
}

// differs takes a snapshot and names what is not as in an earlier one, with what it was and is.
func (b box) differs(before, after string) map[string]string {
	b.Helper()
	out, err := b.lab.Shell(b.Context(), "cd /share; /opt/mpps snapshot -q -o "+after+
		" && /opt/mpps --json snapshot diff "+before+" "+after)
	var answer struct {
		Result struct {
			Differences []facts.Difference `json:"differences"`
		} `json:"result"`
	}
	if err != nil || out.Code != 0 && out.Code != 4 {
		b.Fatalf("snapshot diff: %v, exit %d: %s%s", err, out.Code, out.Stdout, out.Stderr)
	}
	if err := json.Unmarshal([]byte(out.Stdout), &answer); err != nil {
		b.Fatalf("%v: %s", err, out.Stdout)
	}
	all := map[string]string{}
	for _, d := range answer.Result.Differences {
		all[d.Path] = d.Before + " → " + d.After
	}
	return all
}

// TestResetAnywhere cuts the power of an emulated KVM host, whose disk really loses what was not fsynced, at random
// moments of an apply and of a rollback. At the next boot the status must tell the truth, and after a rollback a
// snapshot must be the one before, except what a reboot itself resets: that is told by a reboot without mpps, and
// named.
func TestResetAnywhere(t *testing.T) {
	b := box{t, labtest.Host(t, labtest.Disk, labtest.Fresh)}
	// The disk is what it is here for: what is written and not fsynced is lost, what is fsynced is kept.
	b.must(prepare + "cd /share; /opt/mpps snapshot -q -o control.json; echo kept > /root/kept; sync /root/kept; " +
		"sync /root; echo lost > /root/lost")
	b.cut()
	if got := b.must("cat /root/kept; cat /root/lost 2>/dev/null || echo gone"); got != "kept\ngone" && got != "kept" {
		t.Fatalf("after a reset the files hold %q: expected the first alone", got)
	}
	b.must(prepare)
	byReboot := b.differs("control.json", "before.json")
	for path, values := range byReboot {
		total.except(path)
		t.Logf("a reboot alone resets %s: %s", path, values)
	}

	b.must("cd /share; /opt/mpps plan -q --pps 1.8M --consent security,data -o plan.json >plan.txt; " + listed +
		" >files")
	takes := map[string]float64{"apply": b.seconds("/opt/mpps apply --yes /share/plan.json --confirm 0")}
	takes["rollback"] = b.seconds("/opt/mpps rollback")
	b.files("without any reset")
	var plan struct {
		Changes []json.RawMessage `json:"changes"`
	}
	must.Do(t, json.Unmarshal([]byte(b.must("cat /share/plan.json")), &plan))
	t.Logf("%d changes are applied in %.1f s and put back in %.1f s", len(plan.Changes), takes["apply"],
		takes["rollback"])

	for n := range resets(t) {
		verb, command := "apply", "exec /opt/mpps apply --yes /share/plan.json --confirm 0"
		if n%2 == 1 {
			b.must("/opt/mpps apply --yes /share/plan.json --confirm 0 >&2")
			verb, command = "rollback", "exec /opt/mpps rollback"
		}
		pause := time.Duration(rand.Float64() * 1.1 * takes[verb] * float64(time.Second))
		done := make(chan error, 1)
		go func() {
			_, err := b.lab.Exec(t.Context(), lab.Cmd{Script: command})
			done <- err
		}()
		time.Sleep(pause)
		b.cut()
		<-done // it says that the host is gone
		total.reset(verb)
		b.afterReset(fmt.Sprintf("reset %d, %v into the %s", n, pause, verb), byReboot)
	}
}

// afterReset looks at a host that was booted again.
func (b box) afterReset(what string, byReboot map[string]string) {
	b.Helper()
	b.must(prepare)
	state, why := b.status()
	total.status(state)
	switch state {
	case "interrupted", "drifted", "applied", "waiting":
	case "clean":
		b.same(what+": the status is clean", byReboot)
	default:
		total.lose(b.T, "%s: status is %s: %s", what, state, why)
	}
	if out, err := b.lab.Shell(b.Context(), "/opt/mpps rollback"); err != nil || out.Code != 0 {
		total.lose(b.T, "%s: rollback: %v, exit %d\n%s%s", what, err, out.Code, out.Stdout, out.Stderr)
	}
	if state, why = b.status(); state == "waiting" && strings.HasPrefix(why, "the running kernel has ") {
		// It was booted with an argument that is put back now, and has it until the next boot.
		total.except("arguments of the kernel that was booted with them")
		b.cut()
		b.must(prepare)
		state, why = b.status()
	}
	if state != "clean" {
		total.lose(b.T, "%s: after rollback the status is %s: %s", what, state, why)
	}
	b.same(what+": after rollback", byReboot)
	b.files(what)
}

// status is what the program says of the host.
func (b box) status() (state, why string) {
	b.Helper()
	var answer struct {
		Result struct{ State, Why string } `json:"result"`
	}
	must.Do(b, json.Unmarshal([]byte(b.must("/opt/mpps --json status")), &answer))
	return answer.Result.State, answer.Result.Why
}

// same compares the host with the one before. Values that mpps can set must be the same. What else differs must be so
// because of the reboot: either the one without mpps showed it, or another one, behind which nothing is left to put
// back, takes it away.
func (b box) same(what string, byReboot map[string]string) {
	b.Helper()
	unsure := b.differs("before.json", "after.json")
	for path, values := range unsure {
		if byReboot[path] == "" && strings.HasPrefix(path, "readings[") {
			total.lose(b.T, "%s: %s is not as before: %s", what, path, values)
		}
		if byReboot[path] != "" || strings.HasPrefix(path, "readings[") {
			delete(unsure, path)
		}
	}
	if len(unsure) == 0 {
		return
	}
	b.cut()
	b.must(prepare)
	again := b.differs("before.json", "again.json")
	for path, values := range unsure {
		if again[path] == values { // it stays, and is not another at every boot either
			total.lose(b.T, "%s: %s is not as before: %s", what, path, values)
			continue
		}
		byReboot[path] = values
		total.except(path)
		b.Logf("a reboot resets %s: %s", path, values)
	}
}
