//go:build lab

package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// ends waits for a command of a host that has just begun to hang and sees that it ends as it should.
func ends(t *testing.T, l *lab.Lab, script, reason string, within time.Duration) {
	t.Helper()
	t.Setenv("MPPS_LAB_STATS", "") // a death on purpose is none of the lab's
	began := time.Now()
	_, err := l.Shell(t.Context(), script+"sleep 600")
	took := time.Since(began)
	if !errors.Is(err, lab.ErrGone) || l.Reason() != reason || took > within {
		t.Errorf("found %v (%s) after %v, expected ErrGone (%s)", err, l.Reason(), took, reason)
	}
	if died := l.Death(t.Context()); !strings.HasPrefix(died, "the lab host: ") {
		t.Errorf("found %q, which no second try is made for", died)
	}
	t.Logf("noticed after %v", took)
}

// TestHeartStops: a host whose heart does not beat any more ends by itself.
func TestHeartStops(t *testing.T) {
	l := labtest.Host(t, labtest.NoBinary, labtest.Fresh)
	ends(t, l, "pkill -STOP -f /lab/heart && ", "watchdog", 40*time.Second)
}

// TestCPUStalls: so does a host of which a CPU runs nothing but one real-time thread. Left as it is, the kernel's fair
// server gives the heart 5 % of such a CPU, which is enough for it: only without that server the CPU has stopped.
func TestCPUStalls(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t, labtest.NoBinary, labtest.Fresh)
	ends(t, l, `sysctl -qw kernel.sched_rt_runtime_us=-1
server=/sys/kernel/debug/sched/fair_server/cpu3/runtime
[ ! -e $server ] || echo 0 >$server
taskset -c 3 chrt -f 99 sh -c 'while :; do :; done' &
`, "watchdog", 40*time.Second)
}

// TestQEMUStandsStill: a QEMU that is stopped, and the watchdog in it, is noticed from outside.
func TestQEMUStandsStill(t *testing.T) {
	l := labtest.Host(t, labtest.NoBinary, labtest.Fresh)
	var pid int
	must.Get(fmt.Sscanf(l.Netns(), "/proc/%d/", &pid))(t)
	must.Do(t, unix.Kill(pid, unix.SIGSTOP))
	ends(t, l, "", "frozen", 30*time.Second)
}

// TestFileServerEnds: so is a file server that ends, for which the host's kernel would wait for ever.
func TestFileServerEnds(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t, labtest.NoBinary, labtest.Fresh)
	killed := 0
	for _, file := range must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t) {
		argv, err := os.ReadFile(file)
		var pid, parent int
		if _, scanned := fmt.Sscanf(file, "/proc/%d/", &pid); err != nil || scanned != nil ||
			!strings.Contains(string(argv), "/virtiofsd\x00") {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		_, after, _ := strings.Cut(string(stat), ") ")
		if _, err := fmt.Sscanf(after[min(2, len(after)):], "%d", &parent); err == nil && parent == os.Getpid() {
			must.Do(t, unix.Kill(pid, unix.SIGKILL))
			killed++
		}
	}
	must.Need(t, killed > 0, "no file server of this process")
	ends(t, l, "", "frozen", 30*time.Second)
}

// TestTruncatedState: a lab whose saved state does not come up makes another one.
func TestTruncatedState(t *testing.T) {
	labtest.Long(t)
	labtest.Place(t)
	name := fmt.Sprintf("truncated-%d", os.Getpid())
	begin := func() *lab.Lab {
		l := must.Get(lab.Start(t.Context(), lab.Config{Name: name, Bare: true, MemoryMiB: 2048,
			Log: func(s string) { t.Log(s) },
			Begin: &lab.Beginning{Name: "truncated", Key: name,
				Make: func(context.Context, *lab.Lab) error { return nil }}}))(t)
		outputOf(t, l, "true")
		return l
	}
	end := func(l *lab.Lab) {
		must.Do(t, l.Stop(t.Context()))
	}
	tree := must.Get(lab.OpenTree(lab.Dir()))(t)
	l := begin()
	emulated := l.Emulated()
	end(l)
	if !emulated {
		t.Skip("with KVM there is no saved state")
	}
	// Other processes of tests make states too, of other names.
	states := must.Get(filepath.Glob(filepath.Join(tree.Dir, "saved/truncated-*/memory")))(t)
	must.Need(t, len(states) == 1, "states of this test: %v", states)
	memory := states[0]
	whole := must.Get(os.Stat(memory))(t)
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(memory)); os.Remove(filepath.Dir(memory) + ".lock") })
	must.Do(t, os.Truncate(memory, 64<<10))
	l = begin()
	retries := l.Retries()
	end(l)
	again, err := os.Stat(memory)
	must.Hold(t, err == nil && again.Size() >= whole.Size()/2 && retries != 0,
		"%d retries, the state is %v, %v", retries, again, err)
	l = begin()
	retries = l.Retries()
	end(l)
	must.Equal(t, retries, 0, "retries with the state made again")
}
