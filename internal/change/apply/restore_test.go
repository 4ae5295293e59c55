package apply

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// restorer keeps two values of a device, one of a guest's thread and one of the host.
func restorer(t *testing.T) (*Restorer, *fake, []setting.Address) {
	t.Helper()
	f := newFake(t, 0)
	addresses := []setting.Address{
		setting.Of(setting.NICRing, "eth0", "rx"), setting.Of(setting.SysfsCPUs, "class/net/eth0/queues/tx-0/xps_cpus"),
		setting.Of(setting.ThreadAffinity, "vm1", "vcpu", "0"), setting.Of(setting.KSM, "run"),
	}
	var values []lasting.Value
	for _, a := range addresses {
		f.values[a] = setting.Value("2")
		values = append(values, lasting.Value{ID: "test." + string(a.Kind), Address: a, Want: setting.Exact("2"),
			To: setting.Value("2")})
	}
	r := &Restorer{Engine: engine(t, f), Desired: func() ([]lasting.Value, error) { return values, nil }}
	must.Do(t, r.Load())
	return r, f, addresses
}

func look(t *testing.T, r *Restorer, at time.Time, all bool) Pass {
	t.Helper()
	pass := must.Get(r.Look(t.Context(), at, all))(t)
	return pass
}

// TestRestoreTellsResetFromHand changes values with and without something happening to what holds them.
func TestRestoreTellsResetFromHand(t *testing.T) {
	r, f, a := restorer(t)
	now := time.Now()
	if p := look(t, r, now, true); len(p.PutBack)+len(p.ByHand) != 0 || len(f.writes) != 0 {
		t.Fatalf("values as wanted: %+v", p)
	}
	// An ifup resets both values of the device.
	f.values[a[0]], f.values[a[1]] = setting.Value("9"), setting.Value("9")
	if n := r.Reset("eth0", false, now); n != 2 {
		t.Fatalf("%d values belong to eth0, expected 2", n)
	}
	if p := look(t, r, now, false); len(p.PutBack) != 2 || p.Failed() != 0 || p.Open != 2 {
		t.Fatalf("after an ifup: %+v", p)
	}
	// Somebody changes one while nothing happens: it is left alone, also at the next ifup.
	now = now.Add(time.Minute)
	f.values[a[0]] = setting.Value("7")
	if p := look(t, r, now, true); len(p.PutBack) != 0 || len(p.ByHand) != 1 || p.ByHand[0].Found != "7" ||
		p.ByHand[0].Wanted != "2" {
		t.Fatalf("changed by hand: %+v", p)
	}
	f.values[a[1]] = setting.Value("9")
	r.Reset("eth0", false, now)
	if p := look(t, r, now, false); len(p.PutBack) != 1 || p.PutBack[0].Address != a[1] || f.values[a[0]].Value != "7" {
		t.Fatalf("an ifup after a change by hand: %+v", p)
	}
	// The driver is reloaded: what was changed by hand is gone with the device.
	f.values[a[0]] = setting.Value("9")
	r.Reset("eth0", true, now)
	if p := look(t, r, now, false); len(p.PutBack) != 1 || len(p.ByHand) != 0 || f.values[a[0]].Value != "2" {
		t.Fatalf("a driver's reload after a change by hand: %+v", p)
	}
	// Asked for it, it puts back what was changed by hand.
	now = now.Add(time.Minute)
	f.values[a[3]] = setting.Value("1")
	if p := look(t, r, now, true); len(p.ByHand) != 1 {
		t.Fatalf("changed by hand: %+v", p)
	}
	r.Insist = true
	if p := look(t, r, now, true); len(p.PutBack) != 1 || len(p.ByHand) != 0 || f.values[a[3]].Value != "2" {
		t.Fatalf("insisting: %+v", p)
	}
}

// TestRestoreWhatAppears starts a guest of which no event told.
func TestRestoreWhatAppears(t *testing.T) {
	r, f, a := restorer(t)
	now := time.Now()
	thread := f.values[a[2]]
	delete(f.values, a[2])
	if p := look(t, r, now, true); p.Absent != 1 || len(p.PutBack) != 0 {
		t.Fatalf("guest is off: %+v", p)
	}
	thread.Value = "0-3"
	f.values[a[2]] = thread
	if p := look(t, r, now.Add(time.Minute), true); len(p.PutBack) != 1 || f.values[a[2]].Value != "2" {
		t.Fatalf("guest was started: %+v", p)
	}
}

// TestRestoreAfterBoot finds everything reset; what was right at first sight and is changed then was changed by hand.
func TestRestoreAfterBoot(t *testing.T) {
	r, f, a := restorer(t)
	f.values[a[0]] = setting.Value("9")
	now := time.Now()
	r.Boot(now)
	if p := look(t, r, now, true); len(p.PutBack) != 1 {
		t.Fatalf("%+v", p)
	}
	r.settle()
	f.values[a[3]], f.values[a[0]] = setting.Value("1"), setting.Value("9")
	if p := look(t, r, now.Add(time.Second), true); len(p.ByHand) != 1 || p.ByHand[0].Address != a[3] ||
		len(p.PutBack) != 1 {
		t.Fatalf("%+v", p)
	}
}

// TestRestoreKeepsOut writes nothing where somebody is at work, a transaction is half done, or nothing is desired any
// more.
func TestRestoreKeepsOut(t *testing.T) {
	r, f, a := restorer(t)
	f.values[a[0]] = setting.Value("9")
	now := time.Now()
	r.Boot(now)
	lock := must.Get(r.Journal.Lock("apply"))(t)
	var locked *journal.Locked
	if _, err := r.Look(t.Context(), now, true); !errors.As(err, &locked) {
		t.Errorf("while another is at work: %v", err)
	}
	w, err := r.Journal.Create(lock, journal.Header{Kind: journal.Apply, BootID: r.BootID})
	must.Do(t, errors.Join(err, w.Close(), lock.Release()))
	var unsettled *Unsettled
	if _, err := r.Look(t.Context(), now, true); !errors.As(err, &unsettled) {
		t.Errorf("beside an interrupted transaction: %v", err)
	}
	must.Get(r.Rollback(t.Context(), RollbackOptions{}))(t)
	all := r.Desired
	r.Desired = func() ([]lasting.Value, error) { return nil, nil }
	if p, err := r.Look(t.Context(), now, true); err != nil || len(p.PutBack) != 0 {
		t.Errorf("rolled back in the meantime: %+v, %v", p, err)
	}
	must.Equal(t, len(f.writes), 0, "wrote %v", f.writes)
	r.Desired = all
	if p, err := r.Once(t.Context(), nil); err != nil || p.Values != 0 && len(p.PutBack) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestApplyWaitsForRestore: putting values back takes a moment, and an apply that comes then does not fail.
func TestApplyWaitsForRestore(t *testing.T) {
	e := engine(t, newFake(t, 1))
	lock := must.Get(e.Journal.Lock(restoring))(t)
	time.AfterFunc(50*time.Millisecond, func() { _ = lock.Release() })
	must.Try(t, must.Err(e.Run(t.Context(), changes(1), Options{})))
}

// TestWatch puts a value back within a moment of an event, and once only tells what is changed by hand.
func TestWatch(t *testing.T) {
	r, f, a := restorer(t)
	events := make(chan Event)
	var mu sync.Mutex
	var passes []Pass
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- r.Watch(ctx, false, events, func(p Pass, err error) {
			mu.Lock()
			defer mu.Unlock()
			must.Try(t, err)
			passes = append(passes, p)
		})
	}()
	events <- Event{Object: "none"}
	f.mu.Lock()
	f.values[a[0]] = setting.Value("9")
	f.mu.Unlock()
	events <- Event{Object: "eth0"}
	began := time.Now()
	for f.Read(ctx, a[0]).Value != "2" {
		must.Need(t, time.Since(began) <= 20*time.Second, "not put back within 20 s")
		time.Sleep(time.Millisecond)
	}
	t.Logf("put back %v after the event", time.Since(began))
	cancel()
	must.Try(t, <-done)
	mu.Lock()
	defer mu.Unlock()
	must.Hold(t, len(passes) == 2 && len(passes[1].PutBack) == 1, "told %+v", passes)
}

// TestExpired: the host was restarted while a transaction waited to be confirmed.
func TestExpired(t *testing.T) {
	f := newFake(t, 2)
	e := engine(t, f)
	must.Get(e.Run(t.Context(), &plan.Plan{Goal: goal.Unlimited(), Changes: changes(2).Changes},
		Options{Confirm: time.Minute}))(t)
	if done, err := e.Expired(t.Context()); err != nil || len(done) != 0 {
		t.Fatalf("in the same boot: %+v, %v", done, err)
	}
	e.BootID = "boot-2"
	if done, err := e.Expired(t.Context()); err != nil || len(done) != 1 || f.values[address(0)].Value != "old" {
		t.Fatalf("after a boot: %+v, %v", done, err)
	}
	if done, err := e.Expired(t.Context()); err != nil || len(done) != 0 {
		t.Fatalf("again: %+v, %v", done, err)
	}
}
