//go:build netns

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/tune"
)

// TestTuneBridge: on a host whose bridge walks through a thousand rules the loop takes its frames out of iptables, proves what that gains with
// packets of its own, and leaves everything else as it was; killed in the middle it is put back by a rollback.
func TestTuneBridge(t *testing.T) {
	b := newBridged(t, 1000)
	before := b.state()
	dir := t.TempDir()
	tuneIt := func(argv ...string) []string {
		return append(append(b.bound(dir)[1:], "tune", "--pps", "2.5M", "--only", "netfilter.bridge", "--consent", "security", "--runtime-only",
			"--from", "netns:"+b.from+"/eth0", "--to", "netns:"+b.to+"/eth0", "--trial", "200ms", "--budget", "2m"), argv...)
	}
	result := filepath.Join(dir, "result.json")
	var r tune.Result
	// On a machine that is busy with much else a gain may not be shown within the pairs that a candidate gets: it is never kept by
	// chance, and may be missed.
	for seed := 1; seed <= 3 && len(r.Kept) == 0; seed++ {
		cmd := exec.Command("ip", tuneIt("--seed", strconv.Itoa(seed), "-o", result)...)
		text, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitChanges && code != exitOK {
			t.Fatalf("exit code %d, %v:\n%s", code, err, text)
		}
		t.Logf("%s", text)
		saved, err := os.ReadFile(result)
		if err != nil {
			t.Fatal(err)
		}
		r = tune.Result{}
		if err := json.Unmarshal(saved, &r); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range r.Attempts {
		t.Logf("%s: %.3v", a.Key, a.Gain.Pairs)
	}
	if len(r.Kept) != 1 || r.Kept[0] != "netfilter.bridge" || r.Whole.Ratio < 1.2 || r.TX == "" || b.value() != "0" {
		t.Errorf("kept %v, %s, transaction %q, value %s", r.Kept, r.Whole, r.TX, b.value())
	}
	if r.Before == nil || r.Before.Bottleneck == nil {
		t.Error("nothing was said to hold the path back")
	} else {
		t.Logf("held back by %s: %s", r.Before.Bottleneck.Kind, r.Before.Bottleneck.Say)
	}
	if out, err := exec.Command("ip", append(b.bound(dir), "rollback")[1:]...).CombinedOutput(); err != nil || b.state() != before {
		t.Errorf("rollback: %v: %s\n%s", err, out, b.state())
	}

	doomed := exec.Command("ip", tuneIt("--seed", "2", "-q")...)
	if err := doomed.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = doomed.Process.Kill() }) // has ended, unless the test gave up
	for deadline := time.Now().Add(3 * time.Minute); b.value() != "0"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was tried within 3 minutes")
		}
	}
	if err := doomed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = doomed.Wait() // it was killed
	for deadline := time.Now().Add(20 * time.Second); b.value() != "1"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was tried stands 20 s after a kill")
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		cmd := exec.Command("ip", append(b.bound(dir), "rollback")[1:]...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() == exitLocked && time.Now().Before(deadline) { // what was tried is just being put back
			continue
		}
		if err != nil || b.value() != "1" {
			t.Errorf("rollback after a kill: %v: %s", err, out)
		}
		break
	}
	if out, err := exec.Command("ip", append(b.bound(dir), "status")[1:]...).Output(); err != nil || !strings.HasPrefix(string(out), "clean") {
		t.Errorf("status after it: %v: %s", err, out)
	}
}
