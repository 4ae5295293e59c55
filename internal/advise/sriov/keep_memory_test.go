package sriov

import (
	"fmt"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestMemory: the functions of a guest are known after it has stopped, was undefined, or lost one while running.
func TestMemory(t *testing.T) {
	const one, two = "0000:41:10.0", "0000:41:10.2"
	h := &facts.Host{
		VFs: []facts.VF{{PF: "ens1", Index: 0, PCI: one, Driver: "vfio-pci", Guest: "a"},
			{PF: "ens1", Index: 1, PCI: two, Driver: "vfio-pci", Guest: "a"}},
		Guests: []facts.Guest{{Name: "a", State: "running", Hostdevs: []string{one, two}},
			{Name: "b", State: "shut off", Hostdevs: []string{one}}},
	}
	left := func(m *Memory, guests ...string) string { return fmt.Sprint(m.Left(guests)) }
	m := NewMemory()
	m.Note(h)
	if got := left(m, "a"); got != fmt.Sprintf("map[%s:a %s:a]", one, two) || left(m) != "map[]" ||
		left(m, "b") != fmt.Sprintf("map[%s:b]", one) {
		t.Errorf("of a: %s, of nobody: %s, of b: %s", got, left(m), left(m, "b"))
	}
	// A function from a pool is in no definition: it is known from the running guest.
	h.Guests[0].State, h.Guests[0].Hostdevs = "shut off", []string{two}
	m.Note(h)
	if got := left(m, "a"); got != fmt.Sprintf("map[%s:a %s:a]", two, one) &&
		got != fmt.Sprintf("map[%s:a %s:a]", one, two) {
		t.Errorf("stopped: %s", got)
	}
	h.Guests = h.Guests[1:]
	m.Note(h)
	must.Equal(t, left(m, "a"), fmt.Sprintf("map[%s:a %s:a]", one, two), "undefined")

	// Unplugged from a running guest whose definition still has it.
	h.Guests = []facts.Guest{{Name: "a", State: "running", Hostdevs: []string{one, two}}}
	m = NewMemory()
	m.Note(h)
	came := func() string { return fmt.Sprint(m.Reappeared(h, []string{"ens1/0"})) }
	must.Equal(t, came(), "map[]", "nothing was taken")
	h.VFs[0].Driver, h.VFs[0].NIC = "igbvf", "ens1v0"
	for range 3 { // as often as it is looked
		m.Note(h)
		must.Equal(t, came(), "map["+one+":a]", "taken out")
	}
	m.Reappeared(h, nil) // that is long ago
	must.Equal(t, came(), "map[]", "bound again by hand")
}
