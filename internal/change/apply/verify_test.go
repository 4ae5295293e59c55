package apply

import (
	"strings"
	"testing"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRowsSayWhyNot applies six values and lets five of them become something else in every way that there is.
func TestRowsSayWhyNot(t *testing.T) {
	f := newFake(t, 7)
	e := engine(t, f)
	p := changes(7)
	p.Changes[6].Needs = setting.Reboot()
	must.Get(e.Run(t.Context(), p, Options{}))(t)
	if s, err := e.Status(t.Context()); err != nil || s.State != IsWaiting || s.Counts[string(WaitsFor)] != 1 ||
		s.Rows[6].Why != "takes effect after reboot of the host" {
		t.Errorf("before the reboot: %+v, %v", s, err)
	}
	e.BootID = "boot-2"
	if s, err := e.Status(t.Context()); err != nil || s.State != IsApplied {
		t.Errorf("after the reboot: %s, %v", s.State, err)
	}
	e.BootID = "boot-1"
	e.Owner = func(c journal.Change, found setting.Reading) string {
		if c.Address == address(1) && found.Value == "theirs" {
			return "somebody sets it to theirs"
		}
		return ""
	}
	f.values[address(0)] = setting.Value("mine")
	f.values[address(1)] = setting.Value("theirs")
	f.values[address(2)] = setting.Reading{State: setting.Known, Value: "old", ReadOnly: true, Why: "fixed"}
	f.values[address(3)] = setting.Reading{State: setting.Absent, Why: "not offered", Unsupported: true}
	f.values[address(4)] = setting.NoObject("guest is off")
	f.values[address(5)] = setting.CouldNotTell("needs root")
	s, err := e.Status(t.Context())
	must.Do(t, err)
	for i, want := range []RowState{Drifted, Owned, ReadOnly, Unsupported, NotThere, Untold, WaitsFor} {
		if r := s.Rows[i]; r.State != want || r.Why == "" {
			t.Errorf("row %d is %s (%s), expected %s with a reason", i, r.State, r.Why, want)
		}
	}
	e.Lent = func(a setting.Address) string {
		return map[setting.Address]string{address(0): "guest b runs with it"}[a]
	}
	if s, err := e.Status(t.Context()); err != nil || s.Rows[0].State != NotThere ||
		s.Rows[0].Why != "guest b runs with it" {
		t.Errorf("lent: %+v, %v", s.Rows[0], err)
	}
	e.Lent = nil
	e.BootID = "boot-3"
	if s, err = e.Status(t.Context()); err != nil || !strings.HasSuffix(s.Rows[0].Why, "the host was restarted "+
		"since, and the value lasts until reboot") {
		t.Errorf("after another boot: %+v, %v", s.Rows[0], err)
	}
	must.Hold(t, s.State == IsDrifted && s.Why == "4 of 7 values are not as applied",
		"status is %s: %s", s.State, s.Why)
}
