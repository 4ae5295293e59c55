//go:build netns

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/advise/tune"
	"mpps/internal/outcome"
)

// TestTuneBridge: on a host whose bridge walks through a thousand rules the loop takes its frames out of iptables,
// proves what that gains with packets of its own, and leaves everything else as it was; killed while something is
// tried, and in the middle of the proof, it is put back.
func TestTuneBridge(t *testing.T) {
	b := newBridged(t, 1000)
	before := b.state()
	dir := t.TempDir()
	tuneIt := func(argv ...string) []string {
		return append(append(b.bound(dir)[1:], "tune", "--pps", "2.5M", "--only", "netfilter.bridge", "--consent",
			"security", "--runtime-only",
			"--from", "netns:"+b.from+"/eth0", "--to", "netns:"+b.to+"/eth0", "--trial", "200ms", "--budget", "2m"),
			argv...)
	}
	result := filepath.Join(dir, "result.json")
	var r tune.Result
	// On a machine that is busy with much else a gain may not be shown within the pairs that a candidate gets: it is
	// never kept by chance, and may be missed.
	for seed := 1; seed <= 3 && len(r.Kept) == 0; seed++ {
		cmd := exec.Command("ip", tuneIt("--seed", strconv.Itoa(seed), "-o", result)...)
		text, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != outcome.CodeChanges && code != outcome.CodeOK {
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
	if out, err := exec.Command("ip", append(b.bound(dir), "rollback")[1:]...).CombinedOutput(); err != nil ||
		b.state() != before {
		t.Errorf("rollback: %v: %s\n%s", err, out, b.state())
	}

	for _, proving := range []bool{false, true} {
		killed := false
		for seed := 2; seed <= 4 && !killed; seed++ { // a gain may not be shown, see above, and then nothing is proven
			killed = b.killed(exec.Command("ip", tuneIt("--seed", strconv.Itoa(seed))...), proving)
			if !killed { // it ended, with its gain or without
				b.restored(dir, before)
			}
		}
		if !killed {
			t.Fatalf("nothing could be killed in three runs, in the proof: %v", proving)
		}
		for deadline := time.Now().Add(20 * time.Second); b.value() != "1"; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("what was tried stands 20 s after a kill")
			}
		}
		b.restored(dir, before)
	}
}

// killed kills a run of the loop while what it tries stands: an attempt, or in the proof everything that was kept.
// false: it ended before.
func (b *bridged) killed(run *exec.Cmd, proving bool) bool {
	b.t.Helper()
	said, err := run.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = run.Process.Kill() })                            // has ended, unless the test gave up
	hangs := time.AfterFunc(4*time.Minute, func() { _ = run.Process.Kill() }) // with a budget of two
	defer hangs.Stop()
	ended, kept := make(chan struct{}), make(chan struct{})
	var text strings.Builder // complete when it has ended
	go func() {
		defer close(ended)
		once := sync.OnceFunc(func() { close(kept) })
		for lines := bufio.NewScanner(said); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), " kept ") {
				once()
			}
		}
	}()
	wait := func(value string) bool {
		for b.value() != value {
			select {
			case <-ended:
				return false
			case <-time.After(10 * time.Millisecond):
			}
		}
		return true
	}
	stands := true
	if proving {
		select {
		case <-kept:
			stands = wait("1") // the beginning, to which the whole is compared
		case <-ended:
			stands = false
		}
	}
	stands = stands && wait("0")
	if stands {
		if err := run.Process.Kill(); err != nil {
			b.t.Fatal(err)
		}
	}
	<-ended
	_ = run.Wait() // it was killed, or found nothing
	if !stands {
		b.t.Logf("it ended before it could be killed:\n%s", text.String())
	}
	return stands
}

// restored rolls back, and requires that everything is as before.
func (b *bridged) restored(dir, before string) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		cmd := exec.Command("ip", append(b.bound(dir), "rollback")[1:]...)
		out, err := cmd.CombinedOutput()
		// what was tried is just being put back
		if cmd.ProcessState.ExitCode() == outcome.CodeLocked && time.Now().Before(deadline) {
			continue
		}
		if after := b.state(); err != nil || after != before {
			b.t.Errorf("rollback: %v: %s\n%s", err, out, after)
		}
		break
	}
	if out, err := exec.Command("ip", append(b.bound(dir), "status")[1:]...).Output(); err != nil ||
		!strings.HasPrefix(string(out), "clean") {
		b.t.Errorf("status after it: %v: %s", err, out)
	}
}
