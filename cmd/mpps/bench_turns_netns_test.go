//go:build netns

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

const nfCall = "sysctl:net.bridge.bridge-nf-call-iptables"

// bridged are three namespaces of this test: two ends, and between them a host whose bridge sends every frame through
// iptables rules.
type bridged struct {
	t              *testing.T
	host, from, to string
}

func newBridged(t *testing.T, rules int) *bridged {
	base := "mt" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(time.Now().UnixNano()%1e5))
	b := &bridged{t: t, host: base + "h", from: base + "a", to: base + "b"}
	for _, ns := range []string{b.host, b.from, b.to} {
		b.must(nil, "ip", "netns", "add", ns)
		t.Cleanup(func() { b.must(nil, "ip", "netns", "del", ns) })
		b.must(nil, "ip", "-n", ns, "link", "set", "lo", "up")
	}
	b.must(nil, "ip", "-n", b.host, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
	b.must(nil, "ip", "-n", b.host, "link", "set", "br0", "up")
	for i, ns := range []string{b.from, b.to} {
		port := "port" + strconv.Itoa(i)
		b.must(nil, "ip", "-n", b.host, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", ns)
		b.must(nil, "ip", "-n", b.host, "link", "set", port, "master", "br0", "up")
		b.must(nil, "ip", "-n", ns, "address", "add", fmt.Sprintf("10.60.0.%d/24", i+1), "dev", "eth0")
		b.must(nil, "ip", "-n", ns, "link", "set", "eth0", "up")
	}
	var table bytes.Buffer
	fmt.Fprintln(&table, "*filter")
	for i := range rules {
		fmt.Fprintf(&table, "-A FORWARD -s 192.0.2.%d -p tcp --dport %d -j RETURN\n", i%250, i+1)
	}
	fmt.Fprintln(&table, "COMMIT")
	b.must(&table, "ip", "netns", "exec", b.host, "iptables-legacy-restore")
	if got := b.value(); got != "1" {
		t.Fatalf("%s is %q in a new namespace, expected 1", nfCall, got)
	}
	return b
}

func (b *bridged) must(stdin *bytes.Buffer, argv ...string) string {
	b.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	text, err := cmd.CombinedOutput()
	must.Need(b.t, err == nil, "%v: %v: %s", argv, err, text)
	return string(text)
}

func (b *bridged) value() string {
	b.t.Helper()
	return strings.TrimSpace(b.must(nil, "ip", "netns", "exec", b.host, "cat",
		"/proc/sys/net/bridge/bridge-nf-call-iptables"))
}

// plan makes a plan within the host's namespace and returns its file.
func (b *bridged) plan(values ...string) string {
	b.t.Helper()
	treetest.Guests(b.t, unix.LOCK_SH)
	self := must.Get(os.Executable())(b.t)
	file := filepath.Join(b.t.TempDir(), "plan.json")
	b.must(nil, []string{"ip", "netns", "exec", b.host, "env", "MPPS_TEST_PLAN=" + file,
		"MPPS_TEST_VALUES=" + strings.Join(values, ";"), self, "-test.run=^TestPlanOfThisNamespace$"}...)
	return file
}

// TestPlanOfThisNamespace is run by the other tests of this file, in a namespace of theirs.
func TestPlanOfThisNamespace(t *testing.T) {
	file := os.Getenv("MPPS_TEST_PLAN")
	if file == "" {
		t.Skip("makes a plan for other tests")
	}
	text := must.Get(madePlan("/", strings.Split(os.Getenv("MPPS_TEST_VALUES"), ";"), false))(t)
	must.Do(t, os.WriteFile(file, text, 0o644))
}

// bench is the command line that measures from end to end on the host, whose lock and journal are its own there.
func (b *bridged) bench(argv ...string) []string {
	const own = `mkdir -p /run/mpps && mount -t tmpfs lock /run/mpps && mount -t tmpfs journal /var/lib && exec "$@"`
	argv = append([]string{"ip", "netns", "exec", b.host, "sh", "-c", own, "sh", "mpps"}, argv...)
	return append(argv, "--from", "netns:"+b.from+"/eth0", "--to", "netns:"+b.to+"/eth0", "--duration", "200ms",
		"--warm-up", "50ms")
}

// bound is how mpps is run on the host with lock and journal in a directory that outlasts it.
func (b *bridged) bound(dir string) []string {
	b.t.Helper()
	must.Do(b.t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
	bind := `mkdir -p /run/mpps && mount --bind ` + dir + `/run /run/mpps && mount --bind ` + dir +
		` /var/lib && exec "$@"`
	return []string{"ip", "netns", "exec", b.host, "sh", "-c", bind, "sh", "mpps"}
}

func (b *bridged) state() string {
	var text strings.Builder
	fmt.Fprintln(&text, b.value(), b.must(nil, "ip", "netns", "exec", b.host, "iptables-legacy-save", "-t", "filter"))
	for _, ns := range []string{b.host, b.from, b.to} {
		for line := range strings.Lines(b.must(nil, "ip", "-n", ns, "-o", "link")) {
			fields := strings.Fields(line)
			fmt.Fprintln(&text, ns, fields[1], strings.Contains(line, "xdp"))
		}
	}
	// Times and default policies' counters move.
	lines := strings.Split(text.String(), "\n")
	kept := lines[:0]
	for _, line := range lines {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ":") && !strings.Contains(line, " #") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// stays requires that the state is as it was before.
func (b *bridged) stays(before string) {
	b.t.Helper()
	if after := b.state(); after != before {
		b.t.Errorf("left behind:\n%sfound before:\n%s", after, before)
	}
}

// ttl is a value that no measurement depends on.
func (b *bridged) ttl() string {
	b.t.Helper()
	return strings.TrimSpace(b.must(nil, "ip", "netns", "exec", b.host, "cat", ttlFile))
}

const ttlFile = "/proc/sys/net/ipv4/ip_default_ttl"

func TestBenchPlanInTurns(t *testing.T) {
	b := newBridged(t, 1000)
	before := b.state()
	plan := b.plan(nfCall + "=0@security")
	file := filepath.Join(t.TempDir(), "ab.json")
	stdout := measures(t, b.bench("--json", "bench", "pps", "--foreign", "--plan", plan, "--seed", "7", "--blocks", "8",
		"-o", file)...)
	b.stays(before)
	must.Try(t, validate("mpps.bench-ab.1", stdout))
	ab := must.Get(measure.DecodeAB(strings.NewReader(stdout)))(t)
	t.Logf("%s, p = %.3g, %s: before %.3g, after %.3g; limited by %s and %s; %v", ab.Verdict, ab.P, ab.Test,
		ab.Comparison.Before.Value,
		ab.Comparison.After.Value, ab.BeforeRun.LimitedBy, ab.AfterRun.LimitedBy, ab.Values)
	// Eight blocks: one in which another program took the CPUs does not hide a ratio of about ten.
	if !ab.Significant || ab.Ratio.Lo <= 1 || ab.Ratio.Value < 2 || ab.Test != "signed-rank" {
		t.Errorf("without 1000 rules in the way: %s by %s, p = %v", ab.Comparison, ab.Test, ab.P)
	}
	must.Hold(t, ab.RolledBack && !ab.Partial && ab.Seed == 7 && len(ab.Order) == 8 &&
		len(ab.BeforeRun.Samples) == 16 && len(ab.AfterRun.Samples) == 16,
		"rolled back %v, partial %v, seed %d, order %v", ab.RolledBack, ab.Partial, ab.Seed, ab.Order)
	for i, order := range measure.Schedule(8, 7) {
		if want := fmt.Sprint(order[0], order[1], order[2], order[3]); strings.ReplaceAll(want, " ",
			"") != ab.Order[i] {
			t.Errorf("block %d was %s, by the seed it is %s", i+1, ab.Order[i], want)
		}
	}
	checkLedger(t, &ab.BeforeRun)
	checkLedger(t, &ab.AfterRun)

	page := filepath.Join(t.TempDir(), "report.html")
	fails(t, "report", outcome.CodeOK, []string{"mpps", "report", file, "-o", page}, "more packets")
	if code, _, stderr := program(t, "mpps", "bench", "compare", file, file); code == outcome.CodeOK ||
		!strings.Contains(stderr, "interleaved") {
		t.Errorf("compare: exit code %d: %s", code, stderr)
	}
}

// A plan whose values make no difference to the traffic is called "~", and one that changes nothing is refused.
func TestBenchPlanOfNoEffect(t *testing.T) {
	b := newBridged(t, 1)
	before := b.state()
	ttl, found := b.plan("sysctl:net.ipv4.ip_default_ttl=63"), ""
	// Six equal blocks all lean to one side in one of 32 measurements; in three of three they do not.
	for range 3 {
		stdout := measures(t, b.bench("bench", "pps", "--foreign", "--plan", ttl, "--rate", "5k")...)
		if found = stdout; strings.Contains(found, "~ no significant difference") {
			break
		}
	}
	must.Hold(t, strings.Contains(found, "~ no significant difference") &&
		strings.Contains(found, "everything is as it was found"), "found %s", found)
	must.Try(t, wide(found, 80))
	for _, kind := range []string{"rr", "stream"} {
		code, stdout, stderr := program(t, b.bench("--json", "bench", kind, "--foreign", "--plan", ttl, "--blocks", "1")...)
		ab, err := measure.DecodeAB(strings.NewReader(stdout))
		must.Hold(t, code == outcome.CodeOK && err == nil && string(ab.Kind) == kind && ab.RolledBack &&
			len(ab.AfterRun.Samples) == 2, "%s: exit code %d, %v: %s%s", kind, code, err, stderr, stdout)
		must.Try(t, validate("mpps.bench-ab.1", stdout))
	}
	for _, c := range []struct{ plan, want string }{
		{nfCall + "=1@security", "no two sides to compare"},
		{nfCall + "=0@connectivity", "cut the way"},
	} {
		code, stdout, stderr := program(t, b.bench("bench", "pps", "--foreign", "--plan", b.plan(c.plan))...)
		must.Hold(t, code == outcome.CodeUsage && stdout == "" && strings.Contains(stderr, c.want),
			"%s: exit code %d: %s%s", c.plan, code, stdout, stderr)
	}
	b.stays(before)
}

// Interrupted while the plan stands, the program puts it back and shows what it has.
func TestBenchPlanInterrupted(t *testing.T) {
	t.Parallel()
	b := newBridged(t, 10)
	before := b.state()
	argv := b.bench("--json", "bench", "pps", "--foreign", "--plan", b.plan(nfCall+"=0@security"), "--blocks", "100", "--rate", "5k")
	switches, last := 0, false
	stands := func() bool { return b.value() == "0" }
	cmd := b.started(argv, func() bool {
		if now := stands(); now != last {
			switches, last = switches+1, now
		}
		return switches >= 8
	})
	for !stands() {
		time.Sleep(10 * time.Millisecond)
	}
	if code := cmd.end(t, os.Interrupt); code != outcome.CodeFailed ||
		!strings.Contains(cmd.problems.String(), "of 100 blocks were completed") {
		t.Errorf("exit code %d: %s", code, cmd.problems.String())
	}
	ab := must.Get(measure.DecodeAB(&cmd.out))(t)
	must.Hold(t, ab.Partial && ab.RolledBack && len(ab.Order) != 0 && len(ab.Order) <= 20,
		"partial %v, rolled back %v, order %v", ab.Partial, ab.RolledBack, ab.Order)
	b.stays(before)
}

// started starts the program and waits until the plan stands.
func (b *bridged) started(argv []string, stands func() bool) *running {
	b.t.Helper()
	cmd := start(b.t, argv...)
	await(b.t, stands, func() string {
		_ = cmd.Process.Kill()
		return "the plan was never applied: " + cmd.problems.String()
	})
	return cmd
}

// What somebody else changed while the plan stood is left alone and reported, and the comparison ends.
func TestBenchPlanMeddledWith(t *testing.T) {
	t.Parallel()
	b := newBridged(t, 1)
	argv := b.bench("bench", "pps", "--foreign", "--plan", b.plan("sysctl:net.ipv4.ip_default_ttl=63"), "--blocks", "100", "--rate",
		"5k")
	cmd := b.started(argv, func() bool { return b.ttl() == "63" })
	b.must(bytes.NewBufferString("70"), "ip", "netns", "exec", b.host, "tee", ttlFile)
	if code := cmd.code(); code != outcome.CodeFailed ||
		!strings.Contains(cmd.problems.String(), "somebody else changed") {
		t.Errorf("exit code %d: %s", code, cmd.problems.String())
	}
	must.Equal(t, b.ttl(), "70", "the other's value is now")
}

// Killed while the plan stands, the program cannot put it back: the process that waits for its death does.
func TestBenchPlanKilled(t *testing.T) {
	t.Parallel()
	b := newBridged(t, 1)
	journal := t.TempDir()
	argv := append(b.bound(journal), "bench", "pps",
		"--foreign", "--plan", b.plan("sysctl:net.ipv4.ip_default_ttl=63"), "--blocks", "100", "--rate", "5k",
		"--from", "netns:"+b.from+"/eth0", "--to", "netns:"+b.to+"/eth0", "--duration", "200ms", "--warm-up", "50ms")
	b.started(argv, func() bool { return b.ttl() == "63" }).end(t, os.Kill)
	killed := time.Now()
	for b.ttl() != "64" {
		if time.Since(killed) > killedWithin {
			t.Fatalf("the plan stands %v after the program was killed", time.Since(killed))
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("put back %v after the program was killed", time.Since(killed))
	history := func() string {
		files, err := filepath.Glob(journal + "/mpps/journal/*.jsonl")
		must.Need(t, err == nil && len(files) != 0, "journals: %v, %v", files, err)
		text := must.Get(os.ReadFile(files[len(files)-1]))(t)
		return string(text)
	}
	for !strings.Contains(history(), `"event":"committed"`) {
		if time.Since(killed) > killedWithin {
			t.Fatalf("the rollback does not end: %s", history())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := history(); !strings.Contains(got, `"why":"the process that applied it is gone"`) {
		t.Errorf("the last transaction is %s", got)
	}
}

// Rolled back by somebody else while it was measured, the plan is not what was measured.
func TestBenchPlanRolledBackByOthers(t *testing.T) {
	t.Parallel()
	b := newBridged(t, 1)
	shared := t.TempDir()
	mount := b.bound(shared)
	cmd := b.started(append(mount, "bench", "pps", "--foreign", "--plan", b.plan("sysctl:net.ipv4.ip_default_ttl=63"),
		"--blocks", "100", "--rate", "5k",
		"--from", "netns:"+b.from+"/eth0", "--to", "netns:"+b.to+"/eth0", "--duration", "1s", "--warm-up", "50ms"),
		func() bool { return b.ttl() == "63" })
	for { // the apply may not have ended yet
		if code, _, stderr := program(t, append(mount, "rollback")...); code == outcome.CodeOK {
			break
		} else if code != outcome.CodeLocked {
			t.Fatalf("rollback: exit code %d: %s", code, stderr)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if code := cmd.code(); code != outcome.CodeFailed ||
		!strings.Contains(cmd.problems.String(), "somebody else has rolled back transaction 20") {
		t.Errorf("exit code %d: %s", code, cmd.problems.String())
	}
	must.Equal(t, b.ttl(), "64", "the value")
}
