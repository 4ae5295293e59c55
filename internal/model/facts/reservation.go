package facts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
	"mpps/internal/strictjson"
)

// How a guest gets a VF.
const (
	ByInterface = "interface" // <interface type='hostdev'>: libvirt sets MAC address and VLAN when the guest starts
	ByHostdev   = "hostdev"   // <hostdev>: a plain PCI device, libvirt sets nothing
	ByNetwork   = "network"   // <interface type='network'>: libvirt takes a free VF of a pool when the guest starts
)

// Reservation records that mpps gave a guest a VF, or with the form "network" one of a pool, which libvirt chooses at
// each start. It is written first when a VF is given and removed last when it is taken back, so that concurrent runs
// never take the same one and an interrupted run can be found.
type Reservation struct {
	PF      string `json:"pf"`
	Index   int    `json:"index"`             // of the VF; −1 for a pool
	PCI     string `json:"pci,omitempty"`     // of the VF; empty for a pool
	Network string `json:"network,omitempty"` // libvirt's name of the pool; empty otherwise
	Guest   string `json:"guest"`
	UUID    string `json:"uuid"` // of the guest, whose name may change
	Form    string `json:"form"` // ByInterface, ByHostdev or ByNetwork
	MAC     string `json:"mac"`  // the guest's permanent address
	// Leaving is set if the VF was taken back from a guest that still runs with it: it becomes free, and must be reset,
	// when the guest ends.
	Leaving bool `json:"leaving,omitempty"`
}

const reservationSchema = "mpps.vfs/1"

const aboutReservation = "Written by mpps: which guest has this virtual function. Undo: 'mpps sriov release', or " +
	"'mpps rollback' of what gave it; 'mpps sriov check' tells whether it still holds."

// reservationFile is the file format.
type reservationFile struct {
	Schema string        `json:"schema"`
	About  string        `json:"about"`
	Given  []Reservation `json:"given"`
}

// Address returns the file of a reservation: one per VF, one per pool.
func (r Reservation) Address() setting.Address {
	if r.Network != "" {
		return setting.Of(setting.File, setting.Reservations, "network-"+r.Network+".json")
	}
	return setting.Of(setting.File, setting.Reservations, r.PCI+".json")
}

// ReservationText returns the file for reservations with the same address: one per line, sorted by guest and MAC
// address. Without reservations there is no file.
func ReservationText(given []Reservation) string {
	given = slices.Clone(given)
	slices.SortFunc(given, func(a, b Reservation) int {
		return cmp.Or(strings.Compare(a.Guest, b.Guest), strings.Compare(a.MAC, b.MAC))
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

// ParseReservations reads such a file. It refuses other formats, and reservations for another address.
func ParseReservations(at setting.Address, text string) ([]Reservation, error) {
	var file reservationFile
	if err := strictjson.Unmarshal([]byte(text), &file); err != nil {
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
