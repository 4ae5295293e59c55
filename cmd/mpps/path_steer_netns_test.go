//go:build netns

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
	"mpps/internal/outcome"
)

// TestSteerHost sees lanes that run together named, mends them, sees them apart, lets a guest come again, and takes all
// back, while guests send: every frame arrives.
func TestSteerHost(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	for q := range 2 { // as a driver would
		must.Do(t, os.WriteFile(fmt.Sprintf("/sys/class/net/nic0/queues/tx-%d/xps_cpus", q), []byte("3"),
			0))
	}
	masks := s.xps()
	s.send()
	before := s.watch()
	if len(before.Faults) == 0 {
		t.Errorf("nothing is wrong where 8 lanes leave by 2 queues: %v", exitsOf(before))
	} else {
		t.Logf("before: %s; %v", before.Faults[0].Name(), exitsOf(before))
	}
	if out := s.mpps(outcome.CodeChanges, "path", "--steer", "--for", "2s", "--dry-run",
		"--detailed-exit-code"); !strings.Contains(out, "queue-lanes:nic0") {
		t.Errorf("dry run: %s", out)
	}
	s.nothingLeft()
	if s.xps() != masks {
		t.Error("a dry run has changed XPS")
	}
	s.mpps(outcome.CodeChanges, "path", "--steer", "--for", "2s", "--detailed-exit-code")
	apart := func(when string) {
		t.Helper()
		p := s.watch()
		found := exitsOf(p)
		for i, base := range []int{0, 4} {
			for q := range 4 {
				if exits := found[fmt.Sprintf("tap%d %d", i, q)]; !slices.Equal(exits, []int{base + q}) {
					t.Errorf("%s: tap%d queue %d leaves by %v, expected %d", when, i, q, exits, base+q)
				}
			}
		}
		for _, f := range p.Faults {
			t.Errorf("%s: %s: %s", when, f.Name(), f.Evidence)
		}
	}
	apart("steered")
	if out := s.mpps(outcome.CodeOK, "path", "--steer", "--for", "2s", "--detailed-exit-code"); !strings.Contains(
		out, "nothing to change") {
		t.Errorf("steered again: %s", out)
	}

	// A guest ends and comes again while the service watches.
	watcher := exec.Command("mpps", "restore", "--watch")
	must.Do(t, watcher.Start())
	time.Sleep(300 * time.Millisecond)
	s.close(1)
	time.Sleep(100 * time.Millisecond)
	s.mpps(outcome.CodeOK, "verify") // a guest that is away is nobody's fault
	s.open(1)
	began := time.Now()
	for {
		if code, _, _ := program(t, "mpps", "verify"); code == outcome.CodeOK {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("not put back within 30 s of the guest's start")
		}
	}
	t.Logf("put back %v after a tap came back", time.Since(began).Round(time.Millisecond))
	apart("after a guest came back")
	must.Do(t, watcher.Process.Signal(syscall.SIGTERM))
	_ = watcher.Wait()

	s.mpps(outcome.CodeOK, "rollback")
	s.nothingLeft()
	if after := s.xps(); after != masks {
		t.Errorf("XPS is %q, before %q", after, masks)
	}
	if after := s.watch(); len(after.Faults) == 0 {
		t.Error("after the rollback nothing is wrong any more")
	}
	s.end()
	time.Sleep(50 * time.Millisecond)
	sent, arrived := s.sent.Load(), s.arrived()
	t.Logf("%d frames sent meanwhile, %d arrived", sent, arrived)
	if arrived < sent || arrived > sent+20 || sent < 20_000 { // the kernel sends a few of its own
		t.Errorf("%d frames of %d arrived", arrived, sent)
	}
}

// firstWrite waits until the first value was written, and so much longer.
func (s *steered) firstWrite(more time.Duration) {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(100 * time.Microsecond) {
		if text, err := os.ReadFile("/sys/class/net/nic0/queues/tx-0/xps_cpus"); err == nil &&
			strings.TrimSpace(string(text)) == "0" {
			time.Sleep(more)
			return
		}
	}
}

// TestSteerKilled: mpps is killed somewhere in the middle; a rollback leaves nothing of it.
func TestSteerKilled(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	s.send()
	for q := range 8 {
		must.Do(t, os.WriteFile(fmt.Sprintf("/sys/class/net/nic0/queues/tx-%d/xps_cpus", q), []byte("1"),
			0))
	}
	masks := s.xps()
	steer := []string{"path", "--steer", "--for", "100ms", "--by", "program", "--nic", "nic0"}
	began := time.Now()
	s.mpps(outcome.CodeOK, steer...)
	took := time.Since(began)
	s.mpps(outcome.CodeOK, "rollback")
	half, whole := 0, 0
	for round := range 15 {
		cmd := exec.Command("mpps", steer...)
		must.Do(t, cmd.Start())
		if round%3 == 0 {
			time.Sleep(took/2 + rand.N(took/2))
		} else {
			s.firstWrite(rand.N(20 * time.Millisecond))
		}
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		pins, err := filepath.Glob("/sys/fs/bpf/mpps/lanes-v1/nic0/*")
		switch _, last := os.Stat("/var/lib/mpps/desired.json"); {
		case err != nil:
			t.Fatal(err)
		case last == nil:
			whole++
		case len(pins) > 0 || s.xps() != masks:
			half++
		}
		if code, _, stderr := program(t, "mpps", "rollback"); code != outcome.CodeOK &&
			!strings.Contains(stderr, "no transaction") {
			t.Fatalf("rollback: exit code %d: %s", code, stderr)
		}
		s.nothingLeft()
		if after := s.xps(); after != masks {
			t.Fatalf("XPS is %q, before %q", after, masks)
		}
	}
	if half == 0 {
		t.Error("it was never killed between the first value and the last")
	}
	t.Logf("killed 15 times within %v: %d times between the first value and the last, %d times behind it",
		took.Round(time.Millisecond), half, whole)
	s.end()
	time.Sleep(50 * time.Millisecond)
	if sent, arrived := s.sent.Load(), s.arrived(); arrived < sent {
		t.Errorf("%d frames of %d arrived", arrived, sent)
	}
}

// TestSteerClassifier: a classifier that comes to a tap after it was steered is told by verify and by the next
// steering, and one that is there before is planned around.
func TestSteerClassifier(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	s.send()
	s.mpps(outcome.CodeOK, "path", "--steer", "--for", "1s", "--by", "program", "--nic", "nic0")
	s.must("tc", "qdisc", "add", "dev", "tap1", "handle", "ffff:", "ingress")
	s.must("tc", "filter", "add", "dev", "tap1", "parent", "ffff:", "protocol", "all", "u32", "match", "u32", "0", "0",
		"flowid", ":1")
	if code, stdout, _ := program(t, "mpps", "verify"); code == outcome.CodeOK {
		t.Errorf("verify is content: %s", stdout)
	}
	for _, round := range []string{"after", "before"} {
		code, stdout, stderr := program(t, "mpps", "path", "--steer", "--for", "1s", "--by", "program", "--nic",
			"nic0")
		if code != outcome.CodeOK || !strings.Contains(stdout+stderr, "classifier at the ingress of tap1 (u32;") {
			t.Errorf("%s: exit code %d: %s%s", round, code, stdout, stderr)
		}
		found := exitsOf(s.watch())
		for q := range 4 {
			if exits := found[fmt.Sprintf("tap0 %d", q)]; !slices.Equal(exits, []int{q}) {
				t.Errorf("%s: tap0 queue %d leaves by %v", round, q, exits)
			}
		}
		for range 3 {
			if code, _, _ := program(t, "mpps", "rollback"); code != outcome.CodeOK {
				break
			}
		}
		s.nothingLeft()
	}
	s.end()
}
