package facts

import (
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestReservationText(t *testing.T) {
	function := Reservation{PF: "ens1f0", Index: 1, PCI: "0000:01:10.1", Guest: "vm1", UUID: "u", Form: ByInterface,
		MAC: "52:54:00:00:00:01"}
	pool := []Reservation{
		{PF: "ens1f0", Index: -1, Network: "fast", Guest: "vm2", Form: ByNetwork, MAC: "52:54:00:00:00:03"},
		{PF: "ens1f0", Index: -1, Network: "fast", Guest: "vm1", Form: ByNetwork, MAC: "52:54:00:00:00:02"},
	}
	for _, given := range [][]Reservation{{function}, pool} {
		at := given[0].Address()
		must.Try(t, setting.CheckFile(at.Path))
		text := ReservationText(given)
		back, err := ParseReservations(at, text)
		must.Hold(t, err == nil && len(back) == len(given) && ReservationText(back) == text,
			"%v: %+v\n%s", err, back, text)
		must.Fail(ParseReservations(setting.Of(setting.File, setting.Reservations, "0000:01:10.7.json"), text))(t,
			"%s is taken under another name", at)
		for old, new := range map[string]string{"mpps.vfs/1": "mpps.vfs/2", `"guest":"vm1"`: `"guest":""`,
			"given": "given\""} {
			must.Fail(ParseReservations(at, strings.Replace(text, old, new, 1)))(t,
				"%s: taken with %s in place of %s", at, new, old)
		}
	}
	if back, _ := ParseReservations(pool[0].Address(), ReservationText(pool)); back[0].Guest != "vm1" {
		t.Errorf("a pool's guests are not in order: %+v", back)
	}
}

func TestScrubReservations(t *testing.T) {
	h := &Host{
		Guests: []Guest{{Name: "payroll", UUID: "11111111-2222-4333-8444-555555555555"}},
		Reservations: []Reservation{{PF: "ens1f0", PCI: "0000:01:10.1", Guest: "payroll",
			UUID: "11111111-2222-4333-8444-555555555555", Form: ByHostdev, MAC: "52:54:00:12:34:56"}},
	}
	c := Scrub(h)
	if r := c.Reservations[0]; r.Guest != c.Guests[0].Name || r.Guest == "payroll" || r.UUID != c.Guests[0].UUID ||
		r.MAC == h.Reservations[0].MAC || r.PCI != "0000:01:10.1" {
		t.Errorf("%+v", r)
	}
}
