package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// Forms in which a guest has a virtual function.
const (
	ByInterface = "interface" // <interface type='hostdev'>: libvirt sets its MAC address and VLAN at the guest's start
	ByHostdev   = "hostdev"   // <hostdev>: a PCI device like any other, libvirt sets nothing
	ByNetwork   = "network"   // <interface type='network'>: libvirt takes a free one of a pool at the guest's start
)

// Reservation says that mpps has given a virtual function to a guest, or with the form "network" one of a pool, of
// which libvirt chooses at each start of the guest. It is the first that is written when a function is given and the
// last that is removed when it is taken back, so that two who look for one at the same time never take the same, and an
// interrupted one is found.
type Reservation struct {
	PF      string `json:"pf"`
	Index   int    `json:"index"`             // of the function; −1 of a pool
	PCI     string `json:"pci,omitempty"`     // of the function; empty of a pool
	Network string `json:"network,omitempty"` // of libvirt, the pool; empty otherwise
	Guest   string `json:"guest"`
	UUID    string `json:"uuid"` // of the guest, which may be renamed
	Form    string `json:"form"` // ByInterface, ByHostdev or ByNetwork
	MAC     string `json:"mac"`  // that the guest sees, and keeps
	// Leaving is set where the function was taken back from a guest that runs with it: it is nobody's once the guest
	// has ended, and is to be set back then.
	Leaving bool `json:"leaving,omitempty"`
}

const reservationSchema = "mpps.vfs/1"

const aboutReservation = "Written by mpps: which guest has this virtual function. Undo: 'mpps sriov release', or " +
	"'mpps rollback' of what gave it; 'mpps sriov check' tells whether it still holds."

// reserved is the form of a file.
type reserved struct {
	Schema string        `json:"schema"`
	About  string        `json:"about"`
	Given  []Reservation `json:"given"`
}

// Address is the file in which a reservation stands: one for each function, one for each pool.
func (r Reservation) Address() setting.Address {
	if r.Network != "" {
		return setting.Of(setting.File, setting.Reservations, "network-"+r.Network+".json")
	}
	return setting.Of(setting.File, setting.Reservations, r.PCI+".json")
}

// ReservationText is a file of reservations, which all stand at one address: a line each, in the order of guests and
// their addresses. Without any there is no file.
func ReservationText(given []Reservation) string {
	given = slices.Clone(given)
	slices.SortFunc(given, func(a, b Reservation) int {
		if by := strings.Compare(a.Guest, b.Guest); by != 0 {
			return by
		}
		return strings.Compare(a.MAC, b.MAC)
	})
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n \"schema\": %q,\n \"about\": %q,\n \"given\": [", reservationSchema, aboutReservation)
	for i, r := range given {
		line, err := json.Marshal(r)
		if err != nil {
			panic(fmt.Sprintf("a reservation is always JSON: %v", err)) // strings and a number
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(line)
	}
	b.WriteString("\n ]\n}\n")
	return b.String()
}

// ParseReservations reads such a file. It refuses what is not of this form, or is said of something else than the file
// is named after.
func ParseReservations(at setting.Address, text string) ([]Reservation, error) {
	var file reserved
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return nil, fmt.Errorf("/%s: %w", at.Path, err)
	}
	if file.Schema != reservationSchema {
		return nil, fmt.Errorf("/%s: expected schema %s, found %q", at.Path, reservationSchema, file.Schema)
	}
	for _, r := range file.Given {
		switch {
		case r.Address() != at:
			return nil, fmt.Errorf("/%s: a reservation of %s stands in it", at.Path, r.Address().Path)
		case r.Guest == "":
			return nil, fmt.Errorf("/%s: a reservation without a guest", at.Path)
		}
	}
	return file.Given, nil
}
