package setting

import "strings"

// NeedKind is a kind of event that a written value waits for.
type NeedKind int

// The kinds of events.
const (
	AtOnce       NeedKind = iota // none: the value takes effect when written
	HostReboot                   // a boot of the host
	GuestRestart                 // a restart of a guest
	OtherNeed                    // an event that only another version of mpps knows
)

// Needs is what must happen before a written value takes effect. The zero value is nothing.
type Needs struct {
	Kind  NeedKind
	Guest string // of GuestRestart
	Words string // of OtherNeed
}

// How plans and journals spell needs: never change these.
const (
	needsReboot  = "reboot of the host"
	needsRestart = "restart of guest "
)

// RestartOf is the need of a guest's restart.
func RestartOf(guest string) Needs { return Needs{Kind: GuestRestart, Guest: guest} }

// Reboot is the need of a reboot of the host.
func Reboot() Needs { return Needs{Kind: HostReboot} }

// IsZero reports whether nothing needs to happen.
func (n Needs) IsZero() bool { return n.Kind == AtOnce }

// String returns the event as plans and journals spell it, "" for none.
func (n Needs) String() string {
	switch n.Kind {
	case HostReboot:
		return needsReboot
	case GuestRestart:
		return needsRestart + n.Guest
	}
	return n.Words
}

// MarshalText returns String.
func (n Needs) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText parses the result of String. Words of another version are kept.
func (n *Needs) UnmarshalText(text []byte) error {
	guest, restart := strings.CutPrefix(string(text), needsRestart)
	switch {
	case len(text) == 0:
		*n = Needs{}
	case string(text) == needsReboot:
		*n = Reboot()
	case restart && guest != "":
		*n = RestartOf(guest)
	default:
		*n = Needs{Kind: OtherNeed, Words: string(text)}
	}
	return nil
}
