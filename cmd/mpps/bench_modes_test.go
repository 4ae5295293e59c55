package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/ops/saved"
	"mpps/internal/outcome"
)

// modesOf is the result in a JSON answer of bench modes.
func modesOf(t *testing.T, answer string) *measure.Modes {
	t.Helper()
	m, err := measure.DecodeModes(strings.NewReader(answer))
	must.Need(t, err == nil, "%v in %q", err, answer)
	must.Try(t, validate("mpps.bench-modes.1", answer))
	return m
}

// TestBenchModes measures two agents over loopback, stops and goes on.
func TestBenchModes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := startAgent(t, "mpps", "agent", "--insecure-lab", "--listen", "127.0.0.1:0"),
		startAgent(t, "mpps", "agent", "--insecure-lab", "--listen", "127.0.0.1:0")
	samples, file := filepath.Join(dir, "c.jsonl"), filepath.Join(dir, "modes.json")
	stdout := succeeds(t, "mpps", "--json", "bench", "modes", "--mode", "native="+first, "--mode",
		"other="+second, "--workloads", "rr,stream",
		"--duration", "60ms", "--warm-up", "10ms", "--repeat", "2", "--seed", "5", "--keep=false", "--checkpoint",
		samples, "-o", file, "--note", "over loopback")
	m := modesOf(t, stdout)
	must.Hold(t, !m.Partial && m.Samples == 8 && len(m.Rows) == 4 && m.Seed == 5 && m.Blocks == 2 &&
		m.Native == "native" && slices.Contains(m.Notes, "over loopback"), "found %+v", m)
	starved := map[string]bool{} // on a busy machine a trial may carry nothing, which has no ratio
	for _, r := range m.Rows {
		starved[r.Workload] = starved[r.Workload] || slices.Contains(r.Samples, 0)
	}
	for _, r := range m.Rows {
		if len(r.Samples) != 2 || r.Median.Value <= 0 || r.CPUIdle.N != 2 || r.CPUNs.Value <= 0 ||
			!starved[r.Workload] && (r.Percent == nil) != (r.Mode == "native") {
			t.Errorf("row %+v", r)
		}
		must.Hold(t, (r.Workload == "rr") == (len(r.Percentiles) > 0),
			"%s/%s: percentiles %v", r.Mode, r.Workload, r.Percentiles)
	}
	saved, err := saved.ReadModes(file)
	must.Hold(t, err == nil && saved.Samples == 8, "saved: %v, %+v", err, saved)
	// Of the file with the last samples cut off, the rest is taken, in the same order.
	text := must.Get(os.ReadFile(samples))(t)
	lines := strings.SplitAfter(string(text), "\n")
	for _, line := range lines[:len(lines)-1] {
		must.Try(t, validate("mpps.campaign.1", line))
	}
	must.Do(t, os.WriteFile(samples, []byte(strings.Join(lines[:5], "")+lines[5][:40]), 0o644))
	stdout = succeeds(t, "mpps", "--json", "bench", "modes", "--resume", samples, "--keep=false")
	elsewhere := filepath.Join(dir, "elsewhere.jsonl")
	must.Do(t, os.WriteFile(elsewhere, []byte(strings.Replace(lines[0], `"host":"`+m.Host+`"`, `"host":"other"`, 1)),
		0o644))
	fails(t, "of another host", outcome.CodeFailed, []string{"mpps", "bench", "modes", "--resume", elsewhere,
		"--keep=false"}, "is of host other")
	if again := modesOf(t, stdout); !slices.Equal(again.Order, m.Order) || again.Partial {
		t.Errorf("resumed: order %v, it was %v", again.Order, m.Order)
	}
	// What cannot work at all is not tried again and again.
	code, stdout, stderr := program(t, "mpps", "bench", "modes", "--mode", "native="+first+",from=no-such0",
		"--workloads", "pps", "--keep=false")
	must.Hold(t, code == outcome.CodeUsage && stdout == "" && strings.Contains(stderr, "pps of mode native"),
		"from an interface that is not there: exit code %d: %s", code, stderr)
	if _, _, stderr := program(t, "mpps", "report", file, "-o", filepath.Join(dir, "r.html")); strings.Contains(stderr,
		"schema") {
		t.Errorf("report: %s", stderr)
	}
}

// TestBenchModesFrozen measures a mode whose process is stopped, which it is again afterwards.
func TestBenchModesFrozen(t *testing.T) {
	t.Parallel()
	native := startAgent(t, "mpps", "agent", "--insecure-lab", "--listen", "127.0.0.1:0")
	if os.Geteuid() != 0 {
		t.Skip("a guest's QEMU without libvirt is root's")
	}
	agent := must.Get(exec.LookPath("mpps"))(t)
	qemu := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	must.Do(t, os.Symlink(agent, qemu))
	cmd := exec.Command(qemu, "agent", "--insecure-lab", "--listen", "127.0.0.1:0")
	cmd.Args[0] = "mpps"
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // stopped, it would hear nothing else
		_ = cmd.Wait()
	})
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	file := filepath.Join(t.TempDir(), "guest.pid")
	must.Do(t, os.WriteFile(file, fmt.Appendln(nil, cmd.Process.Pid), 0o644))
	must.Do(t, cmd.Process.Signal(syscall.SIGSTOP))
	cold := strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
	stdout := succeeds(t, "mpps", "--json", "bench", "modes", "--mode", "native="+native, "--mode",
		"cold="+cold+",frozen="+file,
		"--workloads", "rr", "--repeat", "1", "--duration", "50ms", "--warm-up", "0", "--keep=false")
	if m := modesOf(t, stdout); m.Samples != 2 || m.Rows[1].Median.Value <= 0 {
		t.Errorf("found %+v", m.Rows)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	must.Hold(t, err == nil && strings.Contains(string(stat), ") T "),
		"the process is not stopped any more: %.60s, %v", stat, err)
}

// TestFrozenIsAGuest: no process but a guest's QEMU is stopped, whatever the file of a campaign names.
func TestFrozenIsAGuest(t *testing.T) {
	t.Parallel()
	native := startAgent(t, "mpps", "agent", "--insecure-lab", "--listen", "127.0.0.1:0")
	victim := exec.Command("sleep", "60")
	must.Do(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "guest.pid"), filepath.Join(dir, "pipe")
	must.Do(t, errors.Join(os.WriteFile(file, fmt.Appendln(nil, victim.Process.Pid), 0o644),
		syscall.Mkfifo(pipe, 0o644)))
	for _, frozen := range []string{file, pipe} {
		code, _, stderr := program(t, "mpps", "bench", "modes", "--mode", "native="+native, "--mode", "cold="+native+
			",frozen="+frozen, "--workloads", "rr", "--repeat", "1", "--duration", "50ms", "--warm-up", "0", "--keep=false")
		must.Hold(t, code != outcome.CodeOK && strings.Contains(stderr, "frozen guest"),
			"%s: exit code %d: %s", frozen, code, stderr)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", victim.Process.Pid))
	must.Hold(t, err == nil && !strings.Contains(string(stat), ") T "), "the process was stopped: %.60s, %v", stat, err)
}

func TestBenchModesRefuses(t *testing.T) {
	t.Parallel()
	const one = "--mode=native=127.0.0.1:1"
	for _, c := range []struct {
		argv []string
		code int
		want string
	}{
		{nil, outcome.CodeUsage, "nothing says which modes"},
		{[]string{one}, outcome.CodeUsage, "mode native: nothing says where its packets leave"},
		{[]string{one, "--workloads", "rr,x"}, outcome.CodeUsage, `found "x"`},
		{[]string{one, "--workloads", "rr", "--repeat", "3,6"}, outcome.CodeUsage, "nothing says when to stop"},
		{[]string{one, "--workloads", "rr", "--repeat", "x"}, outcome.CodeUsage, "expected N or MIN,MAX"},
		{[]string{one, "--workloads", "rr", "--repeat", "6,3", "-I", "95,5"}, outcome.CodeUsage,
			"the smaller number first"},
		{[]string{one, "--workloads", "rr", "-I", "99,5"}, outcome.CodeUsage, "needs 8"},
		{[]string{one, "--workloads", "rr", "-I", "100,5"}, outcome.CodeUsage, "LEVEL,WIDTH in percent"},
		{[]string{one, one, "--workloads", "rr"}, outcome.CodeUsage, "two modes have the name native"},
		{[]string{one, "--workloads", "rr", "--native", "bare"}, outcome.CodeUsage, "no mode bare"},
		{[]string{"--mode", "x"}, outcome.CodeUsage, "expected NAME=HOST:PORT"},
		{[]string{"--mode", "x=127.0.0.1:1,by=air"}, outcome.CodeUsage, `found "by=air"`},
		{[]string{"--mode", "x=127.0.0.1:1,via=br0,from=eth0"}, outcome.CodeUsage, "via and from"},
		{[]string{"--mode", "x=127.0.0.1:1,from=netns:/x"}, outcome.CodeUsage, "bad namespace"},
		{[]string{one, "--workloads", "rr", "--sink", "x"}, outcome.CodeUsage, "--sink"},
		{[]string{one, "--workloads", "rr", "--duration", "-1s"}, outcome.CodeUsage, "--duration -1s: expected more " +
			"than nothing"},
		{[]string{one, "--workloads", "rr"}, outcome.CodeFailed, "mode native: agent 127.0.0.1:1"},
		{[]string{one, "--workloads", "rr", "-o", "no-such-folder/x"}, outcome.CodeUsage,
			"in a directory that is there"},
		{[]string{"--resume", "no-such-file"}, outcome.CodeFailed, "no such file"},
		{[]string{"--resume", "bench_modes_test.go"}, outcome.CodeFailed, "not a campaign file"},
		{[]string{"--resume", "x", "--repeat", "4"}, outcome.CodeUsage, "the file has the plan"},
	} {
		code, stdout, stderr := program(t, append([]string{"mpps", "bench", "modes", "--keep=false"}, c.argv...)...)
		must.Hold(t, code == c.code && strings.Contains(stderr, c.want) && stdout == "",
			"%v: exit code %d, expected %d; found %s, expected %q", c.argv, code, c.code, stderr, c.want)
	}
}

// TestParseInterval: the width is 5 % where it is left out.
func TestParseInterval(t *testing.T) {
	if got := fmt.Sprint(parseInterval("99")); got != "{0.99 0.05} <nil>" {
		t.Errorf("found %s", got)
	}
}
