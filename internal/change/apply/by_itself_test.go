package apply

import (
	"testing"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestAddressTakenAway: the address that a function's own driver chooses, once its own was taken away, is nobody's
// change: nothing has drifted, and a rollback gives the function its address back. A VLAN that somebody sets is
// somebody's.
func TestAddressTakenAway(t *testing.T) {
	f := newFake(t, 0)
	e := engine(t, f)
	mac, vlan := setting.Of(setting.VFAttr, "ens1/0/mac"), setting.Of(setting.VFAttr, "ens1/0/vlan")
	p := &plan.Plan{Goal: goal.Unlimited()}
	for a, value := range map[setting.Address][2]string{mac: {"52:54:00:00:00:01", facts.NoMAC}, vlan: {"7", "0"}} {
		f.values[a] = setting.Value(value[0])
		p.Changes = append(p.Changes, plan.Change{ID: "test", Address: a, From: setting.Value(value[0]),
			To: setting.Value(value[1]), Want: setting.Exact(value[1]), Risk: "none", Lasts: setting.UntilVFsRemade})
	}
	must.Get(e.Run(t.Context(), p, Options{}))(t)
	f.values[mac] = setting.Value("8a:e7:ff:73:df:5f")
	if s, err := e.Status(t.Context()); err != nil || s.State != IsApplied {
		t.Errorf("%+v, %v", s, err)
	}
	f.values[vlan] = setting.Value("9")
	if s, err := e.Status(t.Context()); err != nil || s.State != IsDrifted || s.Counts[string(Drifted)] != 1 {
		t.Errorf("with another VLAN: %+v, %v", s, err)
	}
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil {
		t.Logf("rollback: %v", err)
	}
	must.Hold(t, f.values[mac].Value == "52:54:00:00:00:01" && f.values[vlan].Value == "9",
		"after the rollback: address %s, VLAN %s", f.values[mac], f.values[vlan])
}

// TestNewThreads: a kernel thread that came since is put in its place; one that was there and has moved was moved by
// somebody.
func TestNewThreads(t *testing.T) {
	a, wanted := setting.Of(setting.ThreadCPUs, "kernel"), setting.Value("0-1")
	const seen = "2 0-1 kthreadd\n40 1 kswapd0"
	for name, c := range map[string]struct {
		found string
		want  bool
	}{
		"another came":             {seen + "\n77 0-3 loop0", true},
		"another came, in place":   {seen + "\n77 0 loop0", false},
		"one was moved":            {"2 0-1 kthreadd\n40 2 kswapd0", false},
		"one came, one was moved":  {"2 0-1 kthreadd\n40 2 kswapd0\n77 0-3 loop0", false},
		"a number that begins so":  {seen + "\n400 2 loop0", true},
		"nothing is known of them": {"", false},
	} {
		found := setting.Value("0-3")
		found.Verbatim = c.found
		must.Equal(t, newThreads(a, wanted, seen, found), c.want, "%s", name)
		if newThreads(a, wanted, "", found) || newThreads(setting.Of(setting.Sysctl, "a"), wanted, seen, found) {
			t.Errorf("%s: without knowing what there was, or of another kind", name)
		}
	}
}

func TestFewerLanes(t *testing.T) {
	nic, other := setting.Of(setting.QueueLanes, "eth0"), setting.Of(setting.Sysctl, "kernel.x")
	for _, c := range []struct {
		a           setting.Address
		left, found string
		want        bool
	}{
		{nic, "a=0+2 b=2+2", "a=0+2", true},
		{nic, "a=0+2 b=2+2", "idle", true}, // all guests were restarted
		{nic, "a=0+2 b=2+2", "a=0+2 b=4+2", false},
		{nic, "a=0+2 b=2+2", "a=0+2 c=2+2", false},
		{nic, "a=0+2 b=2+2", "", false}, // absent
		{nic, "idle", "a=0+2", false},
		{other, "a=0+2 b=2+2", "a=0+2", false},
	} {
		found := setting.Value(c.found)
		if c.found == "" {
			found = setting.Missing("gone")
		}
		must.Equal(t, fewerLanes(c.a, setting.Value(c.left), found), c.want,
			"%s left at %s, found %s", c.a, c.left, found)
	}
}

// TestLanesPutBack: lanes of which one tap came again are put back, whether or not an event told of it; a program that
// somebody took away altogether is left away.
func TestLanesPutBack(t *testing.T) {
	f := newFake(t, 0)
	nic := setting.Of(setting.QueueLanes, "eth0")
	const all = "a=0+2 b=2+2"
	f.values[nic] = setting.Value(all)
	r := &Restorer{Engine: engine(t, f), Desired: func() ([]lasting.Value, error) {
		return []lasting.Value{{ID: "overlay.queue_mapping", Address: nic, Want: setting.Exact(all),
			To: setting.Value(all)}}, nil
	}}
	must.Do(t, r.Load())
	now := time.Now()
	look(t, r, now, true)
	for _, event := range []bool{true, false} {
		now = now.Add(time.Hour)
		f.values[nic] = setting.Value("a=0+2")
		if event && r.Reset("vnet7", true, now) != 1 {
			t.Error("a tap that appears concerns no lanes")
		}
		if p := look(t, r, now, !event); len(p.PutBack) != 1 || p.Failed() != 0 || f.values[nic].Value != all {
			t.Errorf("event %v: %+v, lanes are %s", event, p, f.values[nic])
		}
	}
	now = now.Add(time.Hour)
	f.values[nic] = setting.Missing("somebody took it away")
	if p := look(t, r, now, true); len(p.ByHand) != 1 || len(p.PutBack) != 0 {
		t.Errorf("taken away by hand: %+v", p)
	}
	must.Equal(t, r.Reset("vnet8", true, now), 0, "a tap brings back what somebody took away")
}

// TestLanesRefused: a lane that does not come back, because of a classifier that came to its tap, is tried for as long
// as a guest's start takes, and then not again until a device comes.
func TestLanesRefused(t *testing.T) {
	f := newFake(t, 0)
	nic := setting.Of(setting.QueueLanes, "eth0")
	const all, part = "a=0+2 b=2+2", "a=0+2"
	f.values[nic], f.becomes[nic] = setting.Value(part), map[string]string{all: part}
	r := &Restorer{Engine: engine(t, f), Desired: func() ([]lasting.Value, error) {
		return []lasting.Value{{ID: "overlay.queue_mapping", Address: nic, Want: setting.Exact(all),
			To: setting.Value(all)}}, nil
	}}
	must.Do(t, r.Load())
	now := time.Now()
	if p := look(t, r, now, true); p.Failed() != 1 {
		t.Fatalf("first look: %+v", p)
	}
	now = now.Add(time.Minute)
	tried := len(f.writes)
	for range 10 {
		now = now.Add(10 * time.Second)
		if p := look(t, r, now, true); len(p.PutBack)+len(p.ByHand)+p.Open != 0 {
			t.Fatalf("long after: %+v", p)
		}
	}
	must.Equal(t, len(f.writes)-tried, 0, "times written more")
	delete(f.becomes, nic) // the guest is started without
	r.Reset("vnet7", true, now)
	if p := look(t, r, now, false); len(p.PutBack) != 1 || p.Failed() != 0 || f.values[nic].Value != all {
		t.Errorf("after a tap came: %+v, lanes are %s", p, f.values[nic])
	}
}
