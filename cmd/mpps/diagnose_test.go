package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// busyHost is a host whose guest db is held back, and whose guest web loses nothing.
func busyHost() *facts.Host {
	thread := func(guest, role, comm string, pid, tid, cpu int, ran float64) facts.ThreadLoad {
		return facts.ThreadLoad{PID: pid, TID: tid, Comm: comm, Role: role, Guest: guest, Queue: 0, VCPU: 0, CPU: cpu,
			Affinity: setting.CPUs(cpu), Ran: ran}
	}
	l := &facts.Load{
		Seconds: 2, Method: facts.ByCounters, CostMS: 9,
		Unseen: []facts.Unseen{{What: "reasons of drops", Why: "the kernel has no BTF"}},
		CPUs: []facts.CPULoad{{CPU: 0, Softirq: 0.3, Idle: 0.7}, {CPU: 1, System: 0.2, Idle: 0.8},
			{CPU: 2, Guest: 0.3, Idle: 0.7}, {CPU: 3, Guest: 0.2, Idle: 0.8}},
		Devices: []facts.DeviceLoad{
			{Name: "eth0", Kind: "nic", SpeedMbps: 10000, RxPackets: 1000000, RxBytes: 60000000},
			{Name: "vnet0", Kind: "tap", Guest: "db", TxPackets: 300000,
				Counters: map[string]uint64{"tx_dropped": 400000}},
			{Name: "vnet1", Kind: "tap", Guest: "web", TxPackets: 290000},
		},
		Threads: []facts.ThreadLoad{
			thread("db", "vhost", "vhost-70", 70, 71, 1, 0.2), thread("db", "vcpu", "CPU 0/KVM", 70, 72, 2, 0.3),
			thread("web", "vhost", "vhost-80", 80, 81, 1, 0.15), thread("web", "vcpu", "CPU 0/KVM", 80, 82, 3, 0.2),
		},
	}
	l.Threads[1].Quota, l.Threads[1].Throttle = 0.3, 0.6
	return &facts.Host{
		Name: "blue", Taken: time.Unix(1.7e9, 0).UTC(), AsRoot: true, Readings: facts.Readings{}, Load: l,
		Guests: []facts.Guest{{Name: "db", State: "running", VCPUs: 1}, {Name: "web", State: "running", VCPUs: 1}},
	}
}

func loadFile(t *testing.T, h *facts.Host) string {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, facts.Write(&text, h, version))
	file := filepath.Join(t.TempDir(), "load.json")
	must.Do(t, os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

func diagnose(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(append([]string{"diagnose"}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestDiagnoseLoad(t *testing.T) {
	t.Parallel()
	file := loadFile(t, busyHost())
	code, out, errs := diagnose(t, "--load", file)
	for _, want := range []string{"the cgroup of db is held back 60 % of the time: it may use 0.3 CPUs",
		"knobs  placement.overcommit", "▶", "reasons of drops: the kernel has no BTF"} {
		if !strings.Contains(strings.Join(strings.Fields(out+errs), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("expected %q in\n%s%s", want, out, errs)
		}
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	must.Equal(t, code, outcome.CodeOK, "exit code")

	code, out, errs = diagnose(t, "--load", file, "--json")
	var answer struct {
		Schema string
		Result bottleneck.Diagnosis
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != outcome.CodeOK {
		t.Fatalf("%d %v %s", code, err, errs)
	}
	if b := answer.Result.Bottleneck; answer.Schema != "mpps.diagnose/1" || b == nil ||
		b.Kind != bottleneck.GuestQuota || b.Object != "db" || b.Stage != "vcpu" {
		t.Errorf("%s", out)
	}

	if code, out, _ = diagnose(t, "--load", file, "--guest", "web"); code != outcome.CodeOK ||
		!strings.Contains(out, "nothing holds the path back") {
		t.Errorf("guest web: %d\n%s", code, out)
	}
}

// TestDiagnoseEnds: where the generator is the limit, the exit code says so.
func TestDiagnoseEnds(t *testing.T) {
	t.Parallel()
	h := busyHost()
	h.Load.Threads = append(h.Load.Threads, facts.ThreadLoad{PID: 9, TID: 9, Comm: "kpktgend_0", Role: "pktgen", CPU: 0,
		Affinity: setting.CPUs(0), Ran: 0.99})
	h.Load.Threads[1].Throttle, h.Load.Devices[1].Counters = 0, nil
	h.Load.CPUs[0] = facts.CPULoad{CPU: 0, System: 0.98, Idle: 0.02}
	if code, out, _ := diagnose(t, "--load", loadFile(t, h)); code != outcome.CodeNotDevice ||
		!strings.Contains(out, "the generator kpktgend_0") {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestDiagnoseRefused(t *testing.T) {
	t.Parallel()
	bare := busyHost()
	bare.Load = nil
	file, without := loadFile(t, busyHost()), loadFile(t, bare)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--for", "1ms"}, outcome.CodeUsage, "expected 200ms to 1h"},
		{[]string{"--load", file, "--for", "5s"}, outcome.CodeUsage, "--load is a file"},
		{[]string{"--load", file, "--guest", "mail"}, outcome.CodeFailed, `no guest "mail"`},
		{[]string{"--load", without}, outcome.CodeFailed, "not what its stages did"},
		{[]string{"--load", file + ".none"}, outcome.CodeFailed, "no such file"},
		{[]string{"--scrub"}, outcome.CodeUsage, "--scrub is for the file of -o"},
		{[]string{"--root", t.TempDir()}, outcome.CodeUsage, "--root is for recorded machines"},
		{[]string{"now"}, outcome.CodeUsage, "expected"},
	} {
		code, out, errs := diagnose(t, c.args...)
		must.Hold(t, code == c.code && strings.Contains(errs, c.says) && out == "",
			"%v: exit code %d, said %q and %q; expected %d and %q", c.args, code, out, errs, c.code, c.says)
	}
}

// TestDiagnoseHere watches this machine for a moment: what it writes is judged alike from the file.
func TestDiagnoseHere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "here.json")
	code, live, errs := diagnose(t, "--for", "300ms", "--counters", "-o", file, "--json")
	if code != outcome.CodeOK && code != outcome.CodeNotDevice {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	again, out, errs := diagnose(t, "--load", file, "--json")
	must.Need(t, again == code && errs == "", "exit code %d, was %d: %s", again, code, errs)
	result := func(text string) string {
		var answer struct{ Result json.RawMessage }
		must.Do(t, json.Unmarshal([]byte(text), &answer))
		return string(answer.Result)
	}
	if result(live) != result(out) {
		t.Errorf("live\n%s\nfrom the file\n%s", result(live), result(out))
	}
}
