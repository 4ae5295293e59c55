package apply

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// functions keeps a rate of function 0 of ens1, and has another attribute of it that is in no list.
func functions(t *testing.T) (r *Restorer, f *fake, rate, trust setting.Address) {
	t.Helper()
	f = newFake(t, 0)
	rate, trust = setting.Of(setting.VFAttr, "ens1/0/max_tx_rate"), setting.Of(setting.VFAttr, "ens1/0/trust")
	f.values[rate], f.values[trust] = setting.Value("100"), setting.Value("off")
	r = &Restorer{Engine: engine(t, f), Desired: func() ([]lasting.Value, error) {
		return []lasting.Value{{ID: "test.rate", Address: rate, Want: setting.Exact("100"), To: setting.Value("100")}},
			nil
	}}
	must.Do(t, r.Load())
	return r, f, rate, trust
}

// TestRateAfterAnotherSpeed: a card takes a limit away when its link comes up at another speed, and takes none again
// until the link is at the first speed: that is nobody's change by hand, and the limit comes back with the link.
func TestRateAfterAnotherSpeed(t *testing.T) {
	r, f, rate, _ := functions(t)
	now := time.Now()
	look(t, r, now, true)
	f.refuse[rate] = errors.New("only while its link is up at 10000 Mb/s")
	f.values[rate] = setting.Value("0")
	if n := r.Link("ens1", now); n != 1 || r.Link("ens2", now) != 0 {
		t.Fatalf("%d values concerned", n)
	}
	if p := look(t, r, now, false); p.Failed() != 1 {
		t.Fatalf("%+v", p)
	}
	for _, after := range []time.Duration{resetWindow + time.Second, time.Hour} {
		if p := look(t, r, now.Add(after), true); len(p.ByHand)+len(p.PutBack) != 0 {
			t.Errorf("after %v: %+v", after, p)
		}
	}
	delete(f.refuse, rate)
	now = now.Add(2 * time.Hour)
	must.Equal(t, r.Link("ens1", now), 1, "a value that was refused is not looked at again")
	if p := look(t, r, now, false); len(p.PutBack) != 1 || p.Failed() != 0 || f.values[rate].Value != "100" {
		t.Errorf("%+v, the rate is %s", p, f.values[rate])
	}
	// What somebody changed while the link was up is left alone.
	f.values[rate] = setting.Value("50")
	look(t, r, now.Add(time.Hour), true)
	must.Equal(t, r.Link("ens1", now.Add(time.Hour)), 0,
		"what was changed by hand would be put back when the link comes")
}

// TestFunctionMadeAnew: a function that was remade has nothing of what is kept, and that is nobody's change by hand;
// one beside it is not looked at.
func TestFunctionMadeAnew(t *testing.T) {
	r, f, rate, _ := functions(t)
	now := time.Now()
	look(t, r, now, true)
	f.values[rate] = setting.Value("0")
	look(t, r, now.Add(time.Hour), true) // by hand, as it seems
	must.Hold(t, r.Function("ens1/1", now) == 0 && r.Function("ens1/0", now.Add(time.Hour)) == 1,
		"another function's values are looked at")
	if p := look(t, r, now.Add(time.Hour), false); len(p.PutBack) != 1 || f.values[rate].Value != "100" {
		t.Errorf("%+v", p)
	}
}

// TestLent: a value of a function that a guest has for which it was not set is nobody's business, until the function is
// back.
func TestLent(t *testing.T) {
	r, f, rate, _ := functions(t)
	lent := map[setting.Address]string{rate: "guest b runs with it"}
	r.Due = func(context.Context, []Event, []lasting.Value) (Due, error) { return Due{Lent: lent}, nil }
	now := time.Now()
	consider := func() {
		t.Helper()
		must.Get(r.Consider(t.Context(), nil, now))(t)
	}
	consider()
	f.values[rate] = setting.Value("0")
	if p := look(t, r, now, true); p.Absent != 1 || len(p.PutBack)+len(p.ByHand) != 0 {
		t.Errorf("lent: %+v", p)
	}
	lent, now = nil, now.Add(time.Hour)
	consider()
	if p := look(t, r, now, false); len(p.PutBack) != 1 || f.values[rate].Value != "100" {
		t.Errorf("back: %+v", p)
	}
}

// TestUpkeep: what is due when a guest stops is written soon, asked for again under the lock, and told; a value of the
// list that libvirt has changed meanwhile comes back too.
func TestUpkeep(t *testing.T) {
	r, f, rate, trust := functions(t)
	f.values[trust] = setting.Value("on")
	var mu sync.Mutex
	var asked []string
	r.Due = func(_ context.Context, events []Event, list []lasting.Value) (Due, error) {
		mu.Lock()
		defer mu.Unlock()
		what := ""
		for _, e := range events {
			what += e.Object + " " + string(e.Guest)
		}
		asked = append(asked, what)
		if what == "" {
			return Due{}, nil
		}
		return Due{Values: []lasting.Value{{ID: "test.trust", Address: trust, Want: setting.Exact("off"),
			To: setting.Value("off")}}, Reset: []setting.Address{rate}}, nil
	}
	events := make(chan Event)
	ctx, cancel := context.WithCancel(t.Context())
	var told []PutBack
	done := make(chan error)
	go func() {
		done <- r.Watch(ctx, false, events, func(p Pass, err error) {
			mu.Lock()
			defer mu.Unlock()
			must.Try(t, err)
			told = append(told, p.PutBack...)
		})
	}()
	events <- Event{Object: "a", Created: true, Guest: Started}
	f.mu.Lock()
	f.values[rate] = setting.Value("0")
	f.mu.Unlock()
	events <- Event{Object: "a", Guest: Stopped}
	began := time.Now()
	for f.Read(ctx, trust).Value != "off" || f.Read(ctx, rate).Value != "100" {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("trust %s, rate %s after 20 s", f.Read(ctx, trust), f.Read(ctx, rate))
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%v after the guest stopped", time.Since(began))
	cancel()
	must.Try(t, <-done)
	mu.Lock()
	defer mu.Unlock()
	must.Hold(t, asked[0] == "" && len(asked) >= 3 && asked[1] == "a stopped" && asked[2] == "a stopped",
		"asked %q", asked)
	must.Hold(t, len(told) == 2 && strings.Contains(told[0].ID+told[1].ID, "test.trust"), "told %+v", told)
}

// TestUpkeepWaits: the looks after an event become rarer and end; what a guest did before counts no more; another mpps
// is waited for.
func TestUpkeepWaits(t *testing.T) {
	var u upkeep
	now := time.Now()
	if _, any := u.wait(now); any {
		t.Error("looks without an event")
	}
	u.happened(Event{Object: "a", Guest: Started}, now)
	u.happened(Event{Object: "b", Guest: Started}, now)
	u.happened(Event{Object: "a", Guest: Stopped}, now)
	must.Hold(t, len(u.events) == 2 && u.events[1].Guest == Stopped, "%+v", u.events)
	for range upkeepLooks {
		wait, any := u.wait(now)
		must.Need(t, any && wait >= 0, "%v %v", wait, any)
		u.looked()
	}
	if _, any := u.wait(now); any {
		t.Error("looks for ever")
	}

	r, f, _, trust := functions(t)
	f.values[trust] = setting.Value("on")
	r.Due = func(context.Context, []Event, []lasting.Value) (Due, error) {
		return Due{Values: []lasting.Value{{ID: "test.trust", Address: trust, Want: setting.Exact("off"),
			To: setting.Value("off")}}}, nil
	}
	lock := must.Get(r.Journal.Lock("somebody else"))(t)
	w := watch{Restorer: r, report: func(p Pass, err error) { t.Logf("%+v, %v", p, err) }}
	w.guests.happened(Event{Object: "a", Guest: Stopped}, now)
	w.tend(t.Context(), now.Add(time.Second))
	if wait, any := w.guests.wait(now.Add(time.Second)); !any || wait > 100*time.Millisecond ||
		f.values[trust].Value != "on" {
		t.Errorf("while another is at work: wait %v (%v), trust %s", wait, any, f.values[trust])
	}
	must.Do(t, lock.Release())
	w.tend(t.Context(), now.Add(2*time.Second))
	must.Hold(t, f.values[trust].Value == "off" && len(f.writes) == 1, "trust %s, wrote %v", f.values[trust], f.writes)
}
