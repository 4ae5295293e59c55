//go:build netns

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/realtime"
	"mpps/internal/must"
	"mpps/internal/owned"
)

// TestRealtimeCheckSeesWhatRan: on the kernel of this machine a program is bound to one CPU and kept busy. It is found
// there, with the time that it ran by its own clock, and its finding is gone with it.
func TestRealtimeCheckSeesWhatRan(t *testing.T) {
	busy := exec.Command("yes")
	if err := owned.Start(busy); err != nil {
		t.Skipf("nothing to be busy with: %v", err)
	}
	end := func() {
		_ = busy.Process.Kill()
		_ = busy.Wait() // it was killed
	}
	t.Cleanup(end)
	pid := busy.Process.Pid
	var allowed, one unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(0, &allowed))
	cpu := -1
	for n := range 1024 {
		if allowed.IsSet(n) {
			cpu = n // the last one
		}
	}
	one.Set(cpu)
	must.Do(t, unix.SchedSetaffinity(pid, &one))

	look := func() (realtime.Report, time.Duration) {
		t.Helper()
		before := processClock(t, pid)
		code, stdout, stderr := program(t, "mpps", "--json", "realtime", "check", "--cpus", strconv.Itoa(cpu), "--for",
			"2s")
		after := processClock(t, pid)
		must.Need(t, code == 0, "exit code %d: %s", code, stderr)
		var got struct{ Result realtime.Report }
		must.Do(t, json.Unmarshal([]byte(stdout), &got))
		return got.Result, after - before
	}
	object := fmt.Sprintf("thread yes (%d)", pid)
	begun := time.Now()
	r, ran := look()
	whole := time.Since(begun)
	at := slices.IndexFunc(r.Findings, func(f realtime.Finding) bool {
		return f.ID == "threads.user_ran" && f.Object == object
	})
	must.Need(t, at >= 0, "%s is not among what was found: %s; %+v", object, r.Verdict, r.Ran)
	f := r.Findings[at]
	share := time.Duration(float64(ran) * r.Seconds / whole.Seconds()) // of its time that fell into the interval
	found := time.Duration(f.Numbers["run_ms"] * float64(time.Millisecond))
	must.Hold(t, found <= ran+50*time.Millisecond && found >= share/3 && found != 0,
		"it ran %v by its own clock (%v of it in the %.1f s watched), and %v were found", ran, share, r.Seconds, found)
	must.Hold(t, len(f.CPUs) == 1 && f.CPUs[0] == cpu, "found on CPUs %s, it was bound to %d", f.CPUs, cpu)
	if r.Seconds < 1.9 || r.Watching <= 0 || r.Watching > 200 {
		t.Errorf("watched for %.2f s, which took %.1f ms", r.Seconds, r.Watching)
	}
	t.Logf("ran %v, found %v; watching took %.1f ms of %.1f s", ran, found, r.Watching, r.Seconds)

	end()
	if r, _ := look(); slices.ContainsFunc(r.Findings, func(f realtime.Finding) bool { return f.Object == object }) {
		t.Errorf("%s is still found after its end", object)
	}
}

// processClock is how much CPU time a process has used, 0 where it is gone (clock_getcpuclockid(3)).
func processClock(t *testing.T, pid int) time.Duration {
	t.Helper()
	var spec unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &spec); err != nil {
		return 0
	}
	return time.Duration(spec.Nano())
}
