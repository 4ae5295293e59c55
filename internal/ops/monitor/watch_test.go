package monitor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/change/watch"
	"mpps/internal/golden"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// watchedTree is a recorded machine that is watched, second by second.
type watchedTree struct {
	*testing.T
	root, state string
	events      []watch.Event // to be read behind end
	ctx         context.Context
	end         func()
}

// watchTree watches a tree that put has made calm.
func watchTree(t *testing.T, cpus setting.CPUSet, calm func(w *watchedTree)) *watchedTree {
	t.Helper()
	w := &watchedTree{T: t, root: t.TempDir(), state: filepath.Join(t.TempDir(), "mpps.prom")}
	must.Do(t, golden.Tree("../../../cmd/mpps/testdata/trees/two-nodes.txtar", w.root))
	calm(w)
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	env := &ops.Env{Root: w.root, Out: ops.Deaf{}}
	done := make(chan error, 1)
	go func() {
		done <- Watch(w.ctx, env, Options{Every: time.Second, Cost: 50, Metrics: w.state, CPUs: cpus,
			Event: func(e watch.Event) error {
				w.events = append(w.events, e)
				return nil
			}})
	}()
	w.end = func() {
		t.Helper()
		if w.ctx.Err() != nil {
			t.Errorf("%d looks in two minutes", w.looks())
		}
		cancel()
		must.Try(t, <-done)
	}
	return w
}

func (w *watchedTree) put(name, text string) {
	w.Helper()
	name = filepath.Join(w.root, name)
	must.Try(w, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name+".new", []byte(text), 0o644),
		os.Rename(name+".new", name)))
}

// metric is a metric without labels as it stands now; 0 where there is none.
func (w *watchedTree) metric(name string) (n int) {
	text, err := os.ReadFile(w.state)
	if _, after, is := strings.Cut(string(text), "\n"+name+" "); err == nil && is {
		if _, err = fmt.Sscan(after, &n); err != nil {
			w.Error(err)
		}
	}
	return n
}

func (w *watchedTree) looks() int { return w.metric("mpps_watch_looks_total") }

// until waits for a look. Looks are counted, not seconds: other tests take CPU time of this process too.
func (w *watchedTree) until(look int) {
	for w.looks() < look && w.ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// reported are the events behind the first look.
func (w *watchedTree) reported() []string {
	var all []string
	for _, e := range w.events {
		if !e.Found {
			all = append(all, e.Event+" "+e.Code+" "+e.Object)
		}
	}
	return all
}

// TestWatchTells: what changes below a root while it is watched is told as it comes and as it goes: an interrupt, the
// next boot's arguments, a daemon.
func TestWatchTells(t *testing.T) {
	t.Parallel()
	menu := func(args string) string {
		return "set default=\"0\"\nmenuentry 'Debian' --class gnu $menuentry_id_option 'a' " +
			"{\n\tlinux\t/boot/vmlinuz-6.12.0 root=/dev/vda1 ro " + args + "\n}\n"
	}
	calm := func(w *watchedTree) {
		w.put("boot/grub/grub.cfg", menu("quiet"))
		w.put("proc/irq/45/smp_affinity_list", "0\n")
		w.put("proc/irq/45/effective_affinity_list", "0\n")
		w.put("proc/77/comm", "other\n")
	}
	w := watchTree(t, setting.CPUs(2, 3), calm)
	w.until(2)
	w.put("boot/grub/grub.cfg", menu("quiet isolcpus=3"))
	w.put("proc/irq/45/smp_affinity_list", "2\n")
	w.put("proc/irq/45/effective_affinity_list", "2\n")
	w.put("proc/77/comm", "tuned\n")
	w.until(5)
	calm(w)
	w.until(8)
	w.end()
	told := w.reported()
	for _, want := range []string{
		"changed boot.arguments next boot", "begins lists.next_boot isolcpus", "changed service.started tuned",
		"begins irq.aimed irq 45",
		"ends lists.next_boot isolcpus", "changed service.stopped tuned", "ends irq.aimed irq 45",
	} {
		n := 0
		for _, got := range told {
			if strings.HasPrefix(got, want) {
				n++
			}
		}
		if expected := 1 + strings.Count(want, "boot.arguments"); n != expected {
			t.Errorf("%q was told %d times, expected %d, in\n%s", want, n, expected, strings.Join(told, "\n"))
		}
	}
}

// TestWatchLosesIsolation: a host on which nothing is set aside is not called realtime; one on which nothing is set
// aside any more is told of, and its CPUs are judged on: what stood there does not end.
func TestWatchLosesIsolation(t *testing.T) {
	t.Parallel()
	const isolated = "sys/devices/system/cpu/isolated"
	w := watchTree(t, nil, func(w *watchedTree) {
		w.put(isolated, "\n")
		w.put("sys/devices/system/cpu/nohz_full", "\n")
		w.put("proc/irq/45/smp_affinity_list", "2\n")
		w.put("proc/irq/45/effective_affinity_list", "2\n")
	})
	w.until(1)
	if ok, cpus := w.metric("mpps_realtime_ok"), w.metric("mpps_realtime_cpus"); ok != 0 || cpus != 0 {
		t.Errorf("with nothing set aside: ok %d, CPUs %d", ok, cpus)
	}
	w.put(isolated, "2-3\n")
	w.until(5)
	w.put(isolated, "\n")
	w.until(9)
	if ok, cpus := w.metric("mpps_realtime_ok"), w.metric("mpps_realtime_cpus"); ok != 0 || cpus != 2 {
		t.Errorf("with nothing set aside any more: ok %d, CPUs %d", ok, cpus)
	}
	w.end()
	told := strings.Join(w.reported(), "\n")
	for _, want := range []string{"changed isolation.came CPUs set aside", "begins irq.aimed irq 45",
		"begins isolation.lost CPUs set aside", "begins lists.isolcpus isolcpus"} {
		must.Hold(t, strings.Count(told, want) == 1, "expected %q once in\n%s", want, told)
	}
	must.Lack(t, told, "ends irq.aimed", "ends isolation.lost")
}

// TestWatchSaysWhatItDidNotSee: threads that there was no time for may have been anything: what was seen begins,
// nothing ends, and the host is not said to be fine.
func TestWatchSaysWhatItDidNotSee(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must.Do(t, golden.Tree("../../../cmd/mpps/testdata/trees/two-nodes.txtar", root))
	m := must.Get(machine.Open(root))(t)
	defer m.Close()
	m.Inside.Select(ops.NoGuest)
	w := &watcher{Options: Options{CPUs: setting.CPUs(3)}, env: &ops.Env{Root: root, Out: ops.Deaf{}}, machine: m,
		watch: watch.New()}
	ran := facts.ThreadRun{TID: 9, PID: 9, Comm: "dd", CPU: 3, Affinity: setting.CPUs(3), RunNS: 1e9, Switches: 3}
	for left, saw := range map[string]bool{"": true, "threads of 37 processes": false} {
		seen := &facts.Observation{Seconds: 2, CPUs: setting.CPUs(3), Threads: []facts.ThreadRun{ran}}
		if left != "" {
			seen.Unseen = []facts.Unseen{{What: left, Why: "there was no time"}}
		}
		l := watch.Look{Saw: map[watch.Source]bool{}, Unseen: map[watch.Source]string{}}
		w.realtime(t.Context(), &l, seen)
		found := slices.ContainsFunc(l.Findings, func(f watch.Finding) bool { return f.Code == "threads.user_ran" })
		if why := l.Unseen[watch.Observed]; !found || l.Saw[watch.Observed] != saw || (why == "") != saw ||
			!strings.Contains(why, left) {
			t.Errorf("%q: found %v, saw %v, unseen %q", left, found, l.Saw[watch.Observed], why)
		}
	}
}

// TestWatchPauses: looks wait where they are dear, by what they may take.
func TestWatchPauses(t *testing.T) {
	for _, c := range []struct {
		cost        float64
		used, pause time.Duration
	}{{1, 10 * time.Millisecond, 2 * time.Second}, {1, 600 * time.Millisecond, time.Minute},
		{20, 600 * time.Millisecond, 3 * time.Second}} {
		must.Equal(t, (&Options{Every: 2 * time.Second, Cost: c.cost}).pause(c.used), c.pause,
			"%v of CPU time at %v %%", c.used, c.cost)
	}
	for _, cost := range []float64{0, -1, 51, math.NaN()} {
		must.Refuse(t, (&Options{Every: time.Second, Cost: cost}).check(), "--cost %v was taken", cost)
	}
}

// TestWatchWaitsForTheApplyThatStartsIt: the first look comes when the lock is free, or when it was waited for long
// enough.
func TestWatchWaitsForTheApplyThatStartsIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	j := must.Get(journal.Open(root))(t)
	defer j.Close()
	lock := must.Get(j.Lock("apply"))(t)
	w := &watcher{Options: Options{For: time.Second}, env: &ops.Env{Root: root, Out: ops.Deaf{}}}
	took := func() time.Duration {
		began := time.Now()
		w.waitForHolder(t.Context())
		return time.Since(began)
	}
	if d := took(); d < 400*time.Millisecond {
		t.Errorf("waited %v for a transaction", d)
	}
	w.For = time.Minute
	time.AfterFunc(300*time.Millisecond, func() {
		must.Try(t, lock.Release())
	})
	if d := took(); d < 200*time.Millisecond || d > 20*time.Second {
		t.Errorf("waited %v for a transaction that ended after 0.3 s", d)
	}
}
