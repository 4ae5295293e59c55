package lasting

import (
	"path"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// The reservations of a VF pool are in one file, so that two transactions that want the last VF at once conflict on the
// same value. Each transaction adds its own entry or removes one.

// isPool reports whether an address is the reservation file of a pool.
func isPool(a setting.Address) bool {
	return a.Kind == setting.File && path.Dir(a.Path) == setting.Reservations &&
		strings.HasPrefix(path.Base(a.Path), "network-")
}

// reservations returns the entries of such a file; none if it is absent.
func reservations(a setting.Address, r setting.Reading) (given []facts.Reservation, err error) {
	if r.State == setting.Known {
		given, err = facts.ParseReservations(a, r.Value)
	}
	return given, err
}

func minus(all, those []facts.Reservation) []facts.Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r facts.Reservation) bool { return slices.Contains(those, r) })
}

// undoPool returns the file without what a transaction added and with what it removed.
func undoPool(a setting.Address, before, after, found setting.Reading) (to setting.Reading, done bool) {
	had, err1 := reservations(a, before)
	gave, err2 := reservations(a, after)
	has, err3 := reservations(a, found)
	if err1 != nil || err2 != nil || err3 != nil || found.State == setting.Unknown {
		return found, false
	}
	left := minus(has, minus(gave, had))
	left = append(left, minus(minus(had, gave), left)...)
	switch {
	case len(minus(left, has)) == 0 && len(left) == len(has):
		return found, false
	case len(left) == 0:
		return setting.Missing("no entries are left"), true
	}
	return setting.Value(facts.ReservationText(left)), true
}

// poolHolds reports whether the file still has what a transaction added, and nothing that it removed.
func poolHolds(a setting.Address, before, after, found setting.Reading) bool {
	had, err1 := reservations(a, before)
	gave, err2 := reservations(a, after)
	has, err3 := reservations(a, found)
	if err1 != nil || err2 != nil || err3 != nil || found.State == setting.Unknown {
		return false
	}
	mine, out := minus(gave, had), minus(had, gave)
	return len(mine)+len(out) > 0 && len(minus(mine, has)) == 0 && len(minus(out, has)) == len(out)
}
