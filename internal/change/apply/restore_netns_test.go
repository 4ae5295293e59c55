//go:build netns

package apply_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/change/apply"
	"mpps/internal/machine"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRestoreOnEvents makes a device again and brings it down and up, in its own network namespace, and measures
// how long its values take to come back. What is changed by hand in between stays.
func TestRestoreOnEvents(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	create := func() {
		ip("link", "add", "ve0", "numtxqueues", "4", "numrxqueues", "4", "type", "veth", "peer", "name", "ve1")
		ip("link", "set", "ve0", "up")
	}
	const queue = "/sys/class/net/ve0/tx_queue_len"
	const mask = "/sys/class/net/ve0/queues/rx-0/rps_cpus"
	holds := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		return strings.TrimLeft(strings.TrimSpace(string(text)), "0,")
	}
	values := []lasting.Value{
		{ID: "test.queue", Address: setting.Of(setting.Sysfs, strings.TrimPrefix(queue, "/sys/")),
			Want: setting.Exact("777"), To: setting.Value("777")},
		{ID: "test.mask", Address: setting.Of(setting.SysfsCPUs, strings.TrimPrefix(mask, "/sys/")),
			Want: setting.Exact("0"), To: setting.Value("0")},
		{ID: "test.parameter", Address: setting.Of(setting.Sysctl, "net.ipv4.conf.ve0.rp_filter"),
			Want: setting.Exact("2"), To: setting.Value("2")},
		{ID: "test.channels", Address: setting.Of(setting.NICChannels, "ve0", "tx"), Want: setting.Exact("3"),
			To: setting.Value("3")},
	}
	m := must.Get(machine.Open("/"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	happened := must.Get(m.Events(ctx))(t)
	events := translated(happened)
	var put, left atomic.Int32
	r := &apply.Restorer{Engine: kernelEngine(t), Desired: func() ([]lasting.Value, error) { return values, nil }}
	done := started(func() error {
		return r.Watch(ctx, false, events, func(p apply.Pass, err error) {
			must.Hold(t, err == nil && p.Failed() <= 0, "%+v, %v", p, err)
			put.Add(int32(len(p.PutBack)))
			left.Store(int32(len(p.ByHand)))
		})
	})
	time.Sleep(300 * time.Millisecond) // nothing is there yet
	all := func() bool {
		return holds(queue) == "777" && holds(mask) == "1" && holds("/proc/sys/net/ipv4/conf/ve0/rp_filter") == "2" &&
			len(glob(t, "/sys/class/net/ve0/queues/tx-*")) == 3
	}
	var slowest time.Duration
	for range 5 {
		before := put.Load()
		began := time.Now()
		create()
		for !all() {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("not put back within 20 s: queue %s, mask %s", holds(queue), holds(mask))
			}
			time.Sleep(2 * time.Millisecond)
		}
		slowest = max(slowest, time.Since(began))
		// The last value may be written and not yet read back, for which the device must be there.
		for put.Load() < before+int32(len(values)) && time.Since(began) < 20*time.Second {
			time.Sleep(2 * time.Millisecond)
		}
		ip("link", "del", "ve0")
	}
	t.Logf("4 values of a device that was recreated are put back in %v or less", slowest)

	// Down and up resets nothing of a veth by itself: something else does, as a script of ifup would.
	create()
	for !all() {
		time.Sleep(2 * time.Millisecond)
	}
	ip("link", "set", "ve0", "down")
	ip("link", "set", "ve0", "txqueuelen", "100")
	began := time.Now()
	ip("link", "set", "ve0", "up")
	for !all() {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("not put back within 20 s of an ifup: queue %s", holds(queue))
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Logf("put back %v after an ifup", time.Since(began))
	if put.Load() < 6 || left.Load() != 0 {
		t.Errorf("%d values put back, %d left alone", put.Load(), left.Load())
	}
	cancel()
	must.Try(t, <-done)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found := must.Get(filepath.Glob(pattern))(t)
	return found
}

// translated translates events as the program does.
func translated(in <-chan machine.Event) <-chan apply.Event {
	out := make(chan apply.Event)
	go func() {
		defer close(out)
		for e := range in {
			out <- apply.Event{Object: e.Object, Created: e.Created, Carrier: e.Carrier, Function: e.Function,
				Guest: apply.GuestChange(e.Guest)}
		}
	}()
	return out
}

func started(run func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	return done
}
