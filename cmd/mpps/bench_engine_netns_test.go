//go:build netns

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
	"mpps/internal/outcome"
)

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
			if code != outcome.CodeOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
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
	if code != outcome.CodeFailed || !strings.Contains(stderr, "server cannot be reached") ||
		!strings.Contains(stderr, "start 'iperf3 -s' there") {
		t.Errorf("without a server: exit code %d: %s", code, stderr)
	}
	server := exec.Command("ip", "netns", "exec", h.guest, "iperf3", "-s", "-B", "10.50.0.2", "-p", "5999")
	must.Do(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed
	}()
	h.listens(5999)
	code, stdout, stderr := inside("--engine-port", "5999")
	if code != outcome.CodeOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
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
	cmd := exec.Command("mpps", "--json", "bench", "stream", "--engine", "iperf3", "--from", "netns:"+h.host+"/br0",
		"--to", "netns:"+h.guest+"/eth0",
		"--duration", "60s", "--warm-up", "0s", "--keep=false")
	must.Do(t, cmd.Start())
	for deadline := time.Now().Add(15 * time.Second); h.ip("netns", "pids",
		h.host) == ""; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no client was started")
		}
	}
	begin := time.Now()
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != outcome.CodeFailed || time.Since(begin) > 20*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(begin))
	}
	if after := h.ip("netns", "pids", h.host) + h.ip("netns", "pids", h.guest); after != before {
		t.Errorf("processes left behind: %q, found before: %q", after, before)
	}
}
