//go:build netns

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// modesBench is the command line that measures the guest as two modes: through the bridge, and from an interface of
// another namespace that is a port of it too.
func (h *hostAndGuest) modesBench(second string, argv ...string) []string {
	return append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "bench", "modes", "--mode", "native=" +
		h.agent + ",via=br0",
		"--mode", "other=" + h.agent + ",from=netns:" + second + "/eth0,guest-nic=eth0", "--duration", "150ms",
		"--warm-up", "30ms", "--keep=false"}, argv...)
}

// newSecond makes a namespace beside the guest's, in the bridge too.
func (h *hostAndGuest) newSecond() string {
	h.t.Helper()
	ns := h.guest + "2"
	h.ip("netns", "add", ns)
	h.t.Cleanup(func() { h.ip("netns", "del", ns) })
	h.ip("-n", h.host, "link", "add", "tap1", "type", "veth", "peer", "name", "eth0", "netns", ns)
	h.ip("-n", h.host, "link", "set", "tap1", "master", "br0", "up")
	h.ip("-n", ns, "address", "add", "10.50.0.3/24", "dev", "eth0")
	h.ip("-n", ns, "link", "set", "eth0", "up")
	return ns
}

// linesIn returns the number of lines in a file, which may come to be while it is waited for.
func linesIn(file string) int {
	text, _ := os.ReadFile(file)
	return bytes.Count(text, []byte("\n"))
}

// interrupt runs a program, interrupts it once its file of samples has some lines, requires that it fails, and returns
// what it printed.
func interrupt(t *testing.T, argv []string, samples string, lines int) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	must.Do(t, cmd.Start())
	for deadline := time.Now().Add(60 * time.Second); linesIn(samples) < lines; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			t.Fatalf("no samples: %s%s", out.String(), problems.String())
		}
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != outcome.CodeFailed {
		t.Errorf("exit code %d: %s%s", code, out.String(), problems.String())
	}
	return out.String(), problems.String()
}

// TestBenchModesInterrupted interrupts a campaign, finds everything as it was, and goes on to the same end.
func TestBenchModesInterrupted(t *testing.T) {
	t.Parallel()
	h := newHostAndGuest(t)
	second := h.newSecond()
	before := h.state()
	samples := filepath.Join(t.TempDir(), "c.jsonl")
	argv := h.modesBench(second, "--workloads", "stream,rr,pps", "--repeat", "3", "--seed", "3", "--checkpoint",
		samples)
	out, problems := interrupt(t, argv, samples, 6)
	must.Contain(t, problems, "--resume "+samples)
	first := modesOf(t, out)
	if !first.Partial || first.Samples < 5 || first.Samples >= 18 || first.Missing != 18-first.Samples {
		t.Errorf("partial %v, %d samples, %d missing", first.Partial, first.Samples, first.Missing)
	}
	if after := h.state(); after != before {
		t.Errorf("interrupted: left behind:\n%sfound before:\n%s", after, before)
	}
	code, stdout, stderr := program(t, "ip", "netns", "exec", h.host, "mpps", "--json", "bench", "modes", "--resume",
		samples, "--keep=false")
	if code != outcome.CodeOK {
		t.Fatalf("resumed: exit code %d: %s", code, stderr)
	}
	m := modesOf(t, stdout)
	if m.Partial || m.Samples != 18 || m.Seed != 3 || !slices.Equal(m.Order[:first.Samples], first.Order) {
		t.Errorf("resumed: partial %v, %d samples, order %v after %v", m.Partial, m.Samples, m.Order, first.Order)
	}
	for i, r := range m.Rows {
		if len(r.Samples) != 3 || r.Median.Value <= 0 || (r.Percent == nil) != (r.Mode == "native") {
			t.Errorf("row %+v", r)
		}
		if r.Kind == measure.PPS {
			checkLedger(t, &m.Runs[i])
			if b := m.Runs[i].Baseline; b.Generator == nil || b.Generator.PPS == 0 || b.Receiver == nil {
				t.Errorf("%s: alone: %+v", r.Mode, b)
			}
		}
	}
	code, stdout, stderr = program(t, h.modesBench(second, "--workloads", "ndr", "--search-budget", "3s", "--repeat",
		"1", "--sink", "af_packet")...)
	if code != outcome.CodeOK {
		t.Fatalf("searches: exit code %d: %s", code, stderr)
	}
	for _, r := range modesOf(t, stdout).Rows {
		if len(r.Samples) != 1 || r.Search == nil || r.Search.Seconds <= 0 ||
			(r.Median.Value == 0) != (r.Search.None != "") {
			t.Errorf("row %+v, %+v", r, r.Search)
		}
		t.Logf("%s: %v packet/s without loss, %+v, limited by %s", r.Mode, r.Samples, r.Search, r.LimitedBy)
	}
	if from := m.Runs[len(m.Runs)-1].From; from.Where != "netns:"+second || from.Interface != "eth0" {
		t.Errorf("the other mode was sent from %+v", from)
	}
	h.stays(before)
}

// TestBenchModesPlanAndGateway: packets reach the guest by a router, whose reverse path filter would drop them but for
// the mode's plan.
func TestBenchModesPlanAndGateway(t *testing.T) {
	t.Parallel()
	h := newHostAndGuest(t)
	far := h.guest + "2"
	h.ip("netns", "add", far)
	t.Cleanup(func() { h.ip("netns", "del", far) })
	h.ip("-n", h.host, "link", "add", "r0", "type", "veth", "peer", "name", "eth0", "netns", far)
	h.ip("-n", h.host, "address", "add", "10.61.0.254/24", "dev", "r0")
	h.ip("-n", h.host, "link", "set", "r0", "up")
	h.ip("-n", far, "address", "add", "10.61.0.1/24", "dev", "eth0")
	h.ip("-n", far, "link", "set", "eth0", "up")
	h.ip("-n", far, "route", "add", "10.50.0.0/24", "via", "10.61.0.254")
	h.ip("-n", h.guest, "route", "add", "10.61.0.0/24", "via", "10.50.0.1")
	h.ip("-n", h.host, "route", "add", "198.19.0.0/16", "via", "10.50.0.2")
	const filter = "net.ipv4.conf.r0.rp_filter"
	host := &bridged{t: t, host: h.host}
	host.must(nil, "ip", "netns", "exec", h.host, "sysctl", "-qw", "net.ipv4.ip_forward=1",
		"net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.br0.rp_filter=0", filter+"=1")
	before := h.state()
	history := filepath.Join(t.TempDir(), "history.json")
	own := `mkdir -p /run/mpps && mount -t tmpfs lock /run/mpps && mount -t tmpfs journal /var/lib && "$@"
code=$?
mpps --json history > ` + history + `
exit $code`
	measured := func(more ...string) (int, string, string) {
		return program(t, append([]string{"ip", "netns", "exec", h.host, "sh", "-c", own, "sh", "mpps", "--json", "bench",
			"modes", "--mode", "routed=" + h.agent + ",from=netns:" + far + "/eth0,gateway=10.61.0.254,plan=" +
				host.plan("sysctl:"+filter+"=0"), "--workloads", "pps,rr", "--duration", "150ms", "--warm-up", "30ms",
			"--repeat", "2", "--keep=false"}, more...)...)
	}
	code, stdout, stderr := measured("--foreign")
	if code != outcome.CodeOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	m := modesOf(t, stdout)
	if len(m.Rows) != 2 || m.Samples != 4 || len(m.Failures) > 0 {
		t.Errorf("%d samples, rows %+v, failures %+v", m.Samples, m.Rows, m.Failures)
	}
	for i, r := range m.Rows {
		if r.Kind == measure.PPS {
			checkLedger(t, &m.Runs[i])
		}
	}
	if got := strings.TrimSpace(host.must(nil, "ip", "netns", "exec", h.host, "sysctl", "-n", filter)); got != "1" {
		t.Errorf("afterwards %s is %s", filter, got)
	}
	h.stays(before)
	if text := string(must.Get(os.ReadFile(history))(t)); strings.Count(text, `"rolled-back"`) != 4 {
		t.Errorf("expected a transaction for each sample, rolled back: %s", text)
	}
	if code, _, stderr = measured(); code == outcome.CodeOK {
		t.Error("a plan that mpps would not make is accepted without --foreign")
	}
	must.Contain(t, stderr, "--foreign")
}
