package lasting

import (
	"path"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// The reservations of a pool of virtual functions stand in one file, so that two who want the last function at once
// change the same value. Each transaction puts its own entry into it, or takes one out.

// isPool reports whether an address is the file of a pool.
func isPool(a setting.Address) bool {
	return a.Kind == setting.File && path.Dir(a.Path) == setting.Reservations &&
		strings.HasPrefix(path.Base(a.Path), "network-")
}

// reservations are the entries of such a file; none where it is not there.
func reservations(a setting.Address, r setting.Reading) (given []facts.Reservation, err error) {
	if r.State == setting.Known {
		given, err = facts.ParseReservations(a, r.Value)
	}
	return given, err
}

func without(all, those []facts.Reservation) []facts.Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r facts.Reservation) bool { return slices.Contains(those, r) })
}

// undoPool is the file without what a transaction put into it, and with what it took out.
func undoPool(a setting.Address, before, after, found setting.Reading) (to setting.Reading, done bool) {
	had, err1 := reservations(a, before)
	gave, err2 := reservations(a, after)
	has, err3 := reservations(a, found)
	if err1 != nil || err2 != nil || err3 != nil || found.State == setting.Unknown {
		return found, false
	}
	left := without(has, without(gave, had))
	left = append(left, without(without(had, gave), left)...)
	switch {
	case len(without(left, has)) == 0 && len(left) == len(has):
		return found, false
	case len(left) == 0:
		return setting.Missing("no entries are left"), true
	}
	return setting.Value(facts.ReservationText(left)), true
}

// poolHolds reports whether the file still holds what a transaction put into it, and nothing that it took out.
func poolHolds(a setting.Address, before, after, found setting.Reading) bool {
	had, err1 := reservations(a, before)
	gave, err2 := reservations(a, after)
	has, err3 := reservations(a, found)
	if err1 != nil || err2 != nil || err3 != nil || found.State == setting.Unknown {
		return false
	}
	mine, out := without(gave, had), without(had, gave)
	return len(mine)+len(out) > 0 && len(without(mine, has)) == 0 && len(without(out, has)) == len(out)
}
