//go:build netns

package main

import (
	"bytes"
	"fmt"
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
	cmd := start(t, argv...)
	await(t, func() bool { return linesIn(samples) >= lines }, func() string {
		_ = cmd.Process.Kill()
		return "no samples: " + cmd.out.String() + cmd.problems.String()
	})
	code := cmd.end(t, os.Interrupt)
	stdout, stderr = cmd.out.String(), cmd.problems.String()
	must.Hold(t, code == outcome.CodeFailed, "exit code %d: %s%s", code, stdout, stderr)
	return stdout, stderr
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
	must.Hold(t, first.Partial && first.Samples >= 5 && first.Samples < 18 && first.Missing == 18-first.Samples,
		"partial %v, %d samples, %d missing", first.Partial, first.Samples, first.Missing)
	h.stays(before)
	stdout := succeeds(t, "ip", "netns", "exec", h.host, "mpps", "--json", "bench", "modes", "--resume",
		samples, "--keep=false")
	m := modesOf(t, stdout)
	must.Hold(t, !m.Partial && m.Samples == 18 && m.Seed == 3 && slices.Equal(m.Order[:first.Samples], first.Order),
		"resumed: partial %v, %d samples, order %v after %v", m.Partial, m.Samples, m.Order, first.Order)
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
	stdout = succeeds(t, h.modesBench(second, "--workloads", "ndr", "--search-budget", "3s", "--repeat",
		"1", "--sink", "af_packet")...)
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
// the mode's plan; a second mode has a plan too.
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
	value := func() string {
		return strings.TrimSpace(host.must(nil, "ip", "netns", "exec", h.host, "sysctl", "-n", filter))
	}
	campaign := []string{"--json", "bench", "modes", "--mode", "routed=" + h.agent + ",from=netns:" + far +
		"/eth0,gateway=10.61.0.254,plan=" + host.plan("sysctl:"+filter+"=0"), "--mode", "other=" + h.agent +
		",via=br0,plan=" + host.plan("sysctl:net.ipv4.ip_default_ttl=63"), "--workloads", "pps,rr", "--duration",
		"150ms", "--warm-up", "30ms", "--keep=false"}
	measured := func(more ...string) (int, string, string) {
		return program(t, append(append([]string{"ip", "netns", "exec", h.host, "sh", "-c", own, "sh", "mpps"},
			campaign...), append(more, "--repeat", "2")...)...)
	}
	code, stdout, stderr := measured("--foreign")
	must.Need(t, code == outcome.CodeOK, "exit code %d: %s", code, stderr)
	m := modesOf(t, stdout)
	must.Hold(t, len(m.Rows) == 4 && m.Samples == 8 && len(m.Failures) <= 0,
		"%d samples, rows %+v, failures %+v", m.Samples, m.Rows, m.Failures)
	for i, r := range m.Rows {
		if r.Kind == measure.PPS {
			checkLedger(t, &m.Runs[i])
		}
	}
	must.Equal(t, value(), "1", "afterwards %s", filter)
	h.stays(before)
	if text := string(must.Get(os.ReadFile(history))(t)); strings.Count(text, `"rolled-back"`) != 8 {
		t.Errorf("expected a transaction for each sample, rolled back: %s", text)
	}
	if code, _, stderr = measured(); code == outcome.CodeOK {
		t.Error("a plan that mpps would not make is accepted without --foreign")
	}
	must.Contain(t, stderr, "--foreign")
	// Killed while a plan stands, the program cannot put it back: the process that waits for its death does.
	argv := append(append(host.bound(t.TempDir()), campaign...), "--foreign", "--repeat", "100")
	host.started(argv, func() bool { return value() == "0" }).end(t, os.Kill)
	await(t, func() bool { return value() == "1" }, func() string { return "the plan of a killed program stands" })
}

// netperfOfLab puts netperf out of a root tree that the lab has built into the search path: Debian 12 has none in main.
func netperfOfLab(t *testing.T) bool {
	t.Helper()
	found, _ := filepath.Glob("/var/cache/mpps-lab/tree-*/root/usr/bin/netserver")
	if len(found) == 0 {
		return false
	}
	tree := strings.TrimSuffix(found[0], "/usr/bin/netserver")
	dir := t.TempDir()
	for _, name := range []string{"netperf", "netserver"} {
		text := fmt.Sprintf("#!/bin/sh\nexec %[1]s/lib64/ld-linux-x86-64.so.2 --library-path "+
			"%[1]s/usr/lib/x86_64-linux-gnu %[1]s/usr/bin/%[2]s \"$@\"\n", tree, name)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return true
}

// The real programs make the traffic, are named in the result and are gone afterwards.
func TestBenchEngines(t *testing.T) {
	h := newHostAndGuest(t)
	between := []string{"--from", "netns:" + h.host + "/br0", "--to", "netns:" + h.guest + "/eth0"}
	bench := func(argv ...string) (int, string, string) {
		return program(t, append([]string{"mpps", "--json", "bench"}, append(argv, "--duration", "1s", "--warm-up",
			"0s", "--repeat", "1", "--keep=false")...)...)
	}
	programs := func() string { return h.ip("netns", "pids", h.host) + h.ip("netns", "pids", h.guest) }
	before := programs()
	for _, c := range []struct {
		engine string
		argv   []string
	}{
		{"iperf3", []string{"stream", "--connections", "2"}},
		{"netperf", []string{"rr"}},
		{"netperf", []string{"stream", "--reverse"}},
	} {
		t.Run(c.engine+" "+strings.Join(c.argv, " "), func(t *testing.T) {
			if _, err := exec.LookPath(c.engine); err != nil && (c.engine != "netperf" || !netperfOfLab(t)) {
				t.Skipf("%s is not installed, and Debian has netperf in main since 13 only", c.engine)
			}
			code, stdout, stderr := bench(append(append(c.argv, "--engine", c.engine), between...)...)
			must.Need(t, code == outcome.CodeOK, "exit code %d: %s", code, stderr)
			run := result(t, stdout)
			s := run.Samples[0]
			if !strings.HasPrefix(run.Environment.Engine, c.engine+" ") || s.Value(run.Kind) <= 0 || len(s.CPU) != 1 ||
				s.CPUNsPerUnit <= 0 {
				t.Errorf("engine %q, value %g, CPU %+v", run.Environment.Engine, s.Value(run.Kind), s.CPU)
			}
			if transactions := run.Kind.Unit() == "transaction/s"; transactions &&
				(s.Latency == nil || s.Latency.At(50) == 0 || s.Transactions == 0) || !transactions && s.Bytes == 0 {
				t.Errorf("%d transactions of latency %+v, %d bytes", s.Transactions, s.Latency, s.Bytes)
			}
			if after := programs(); after != before {
				t.Errorf("processes left behind: %q, found before: %q", after, before)
			}
		})
	}
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not installed: scripts/deps test does that")
	}
	inside := func(argv ...string) (int, string, string) {
		return program(t, append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "bench", "stream",
			"--engine", "iperf3", "--agent", h.agent,
			"--duration", "1s", "--repeat", "1", "--keep=false", "--warm-up", "0s", "--ramp", "0s"}, argv...)...)
	}
	// An agent starts nothing: the server is the user's.
	code, _, stderr := inside("--engine-port", "5999")
	must.Hold(t, code == outcome.CodeFailed && strings.Contains(stderr, "server cannot be reached") &&
		strings.Contains(stderr, "start 'iperf3 -s' there"), "without a server: exit code %d: %s", code, stderr)
	server := exec.Command("ip", "netns", "exec", h.guest, "iperf3", "-s", "-B", "10.50.0.2", "-p", "5999")
	must.Do(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed
	}()
	h.listens(5999)
	code, stdout, stderr := inside("--engine-port", "5999")
	must.Need(t, code == outcome.CodeOK, "exit code %d: %s", code, stderr)
	if run := result(t, stdout); run.Samples[0].Bytes == 0 || len(run.Samples[0].CPU) != 2 ||
		run.To.Address != "10.50.0.2:5999" {
		t.Errorf("%d bytes to %s, CPU of %d machines", run.Samples[0].Bytes, run.To.Address, len(run.Samples[0].CPU))
	}
}

// Ctrl-C ends a measurement by another program at once, and the program with it.
func TestBenchEngineInterrupted(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not installed: scripts/deps test does that")
	}
	h := newHostAndGuest(t)
	before := h.ip("netns", "pids", h.host) + h.ip("netns", "pids", h.guest)
	cmd := start(t, "mpps", "--json", "bench", "stream", "--engine", "iperf3", "--from", "netns:"+h.host+"/br0",
		"--to", "netns:"+h.guest+"/eth0", "--duration", "60s", "--warm-up", "0s", "--keep=false")
	await(t, func() bool { return h.ip("netns", "pids", h.host) != "" },
		func() string { return "no client was started" })
	begin := time.Now()
	if code := cmd.end(t, os.Interrupt); code != outcome.CodeFailed || time.Since(begin) > 20*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(begin))
	}
	if after := h.ip("netns", "pids", h.host) + h.ip("netns", "pids", h.guest); after != before {
		t.Errorf("processes left behind: %q, found before: %q", after, before)
	}
}
