// Package tune has the tests of the closed loop on the emulated host: a real guest behind a bridge whose frames walk
// through rules that nobody needs.
package tune
