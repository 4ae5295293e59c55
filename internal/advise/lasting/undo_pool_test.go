package lasting

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// Three guests are given functions of a pool, by a transaction each. Whichever is undone first, the others' entries
// stay; what a release took out comes back beside what came since; and the last one takes the file with it.
func TestUndoPool(t *testing.T) {
	entry := func(guest string) facts.Reservation {
		return facts.Reservation{PF: "ens1f0", Index: -1, Network: "fast", Guest: guest, UUID: "u" + guest,
			Form: facts.ByNetwork, MAC: "52:54:00:00:00:0" + guest}
	}
	at := entry("1").Address()
	file := func(guests ...string) setting.Reading {
		all := facts.Map(guests, entry)
		if len(all) == 0 {
			return setting.Missing("no file")
		}
		return setting.Value(facts.ReservationText(all))
	}
	for name, c := range map[string]struct {
		before, after, found, want setting.Reading
		done, holds                bool
	}{
		"the first of three":         {file(), file("1"), file("1", "2", "3"), file("2", "3"), true, true},
		"the second of three":        {file("1"), file("1", "2"), file("1", "2", "3"), file("1", "3"), true, true},
		"the last that is left":      {file("1", "2"), file("1", "2", "3"), file("3"), file(), true, true},
		"taken back since":           {file(), file("1"), file("2"), file("2"), false, false},
		"a release":                  {file("1", "2"), file("2"), file("2", "3"), file("1", "2", "3"), true, true},
		"a release of the last":      {file("1"), file(), file("3"), file("1", "3"), true, true},
		"a release, given again":     {file("1"), file(), file("1"), file("1"), false, false},
		"a release, the file is off": {file("1", "2"), file("2"), file(), file("1"), true, true},
		"no file of ours":            {file(), file("1"), setting.Value("{}"), setting.Value("{}"), false, false},
	} {
		to, done := Undo(at, c.before, c.after, c.found)
		must.Hold(t, done == c.done && to.Same(c.want), "%s: %v %s", name, done, to)
		must.Equal(t, Holds(at, c.before, c.after, c.found), c.holds, "%s: holds", name)
	}
	must.Hold(t, Shared(at) && !Shared(setting.Of(setting.File, setting.Reservations, "0000:01:10.0.json")),
		"which files are shared")
}
