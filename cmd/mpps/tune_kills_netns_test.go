//go:build netns

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

// longestRun is how long a run of the loop in TestTuneKilled is left to itself at most: it has tried, kept and proven
// its change by then, or is at it.
const longestRun = 20 * time.Second

// TestTuneKilled kills runs of the loop at random moments: what is being tried is put back without anybody's help, what
// was kept before may stand, and a rollback restores the beginning to the byte. MPPS_TUNE_KILLS is how many runs, 200
// by 'make kills'; the first of them dies while what it tries stands.
func TestTuneKilled(t *testing.T) {
	kills := 2
	if text := os.Getenv("MPPS_TUNE_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil || kills < 1 {
			t.Fatalf("MPPS_TUNE_KILLS=%s: expected a number", text)
		}
	}
	b := newBridged(t, 1000)
	before, dir := b.state(), t.TempDir()
	random := rand.New(rand.NewPCG(1, uint64(kills)))
	stood, over := 0, 0
	for n := range kills {
		run := b.tune(dir, "--seed", strconv.Itoa(n+1))
		var said strings.Builder
		run.Stderr = &said
		must.Do(t, run.Start())
		ended := make(chan struct{})
		go func() {
			_ = run.Wait() // it is killed, or ends with what it found
			close(ended)
		}()
		alive := b.until(ended, time.Duration(random.Float64()*float64(longestRun)), n == 0)
		if alive && b.value() == "0" {
			stood++
		}
		_ = run.Process.Kill() // or it has ended
		<-ended
		if !alive {
			over++
		} else if text := b.settled(dir, 20*time.Second); text != "" {
			t.Errorf("what was tried stands 20 s after a kill: %s", text)
		}
		b.restored(dir, before)
		if t.Failed() {
			t.Fatalf("run %d:\n%s", n, said.String())
		}
	}
	t.Logf("%d runs: a change stood at the kill in %d, %d had ended", kills, stood, over)
	if stood == 0 {
		t.Error("no run was killed while a change stood")
	}
}

// until waits for a moment, or until what is tried stands. false: the run ended before.
func (b *bridged) until(ended <-chan struct{}, moment time.Duration, stands bool) bool {
	b.t.Helper()
	if !stands {
		select {
		case <-time.After(moment):
			return true
		case <-ended:
			return false
		}
	}
	for b.value() != "0" {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ended:
			return false
		}
	}
	return true
}

// settled waits until nothing stands, or only what was kept, which waits for no confirmation: the run counts as
// interrupted then. It returns what status says if that takes longer than a time.
func (b *bridged) settled(dir string, limit time.Duration) string {
	b.t.Helper()
	text := ""
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if b.value() == "1" {
			return ""
		}
		out, _ := exec.Command("ip", append(b.bound(dir), "status")[1:]...).CombinedOutput() // says what it is
		if text = string(out); strings.HasPrefix(text, "interrupted") {
			return ""
		}
	}
	return text
}
