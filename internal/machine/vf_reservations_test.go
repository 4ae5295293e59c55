package machine

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/machine/vf"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// A reservation is written like any other file, and its folder with it; a malformed one is reported and not taken for
// one.
func TestReservations(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "var/lib"), 0o755))
	m := must.Get(Open(dir))(t)
	defer m.Close()
	f := file{m}
	given := facts.Reservation{PF: "ens1f0", Index: 1, PCI: "0000:01:10.1", Guest: "vm1", UUID: "u",
		Form: facts.ByInterface, MAC: "52:54:00:00:00:01"}
	at := given.Address()
	if r := f.Read(context.Background(), at); r.State != setting.Absent {
		t.Fatalf("before: %s", r)
	}
	if err := f.Write(context.Background(), at, setting.NotThere().Target()); err != nil {
		t.Fatalf("removing what is not there: %v", err)
	}
	must.Do(t, f.Write(context.Background(), at, setting.Value(facts.ReservationText([]facts.Reservation{given}))))
	for name, text := range map[string]string{"0000:01:10.2.json": "{", ".0000:01:10.3.json.mpps-draft": "half",
		"notes": "by hand"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, setting.Reservations, name), []byte(text), 0o644))
	}
	leaving := facts.Reservation{PF: "ens1f0", Index: 4, PCI: "0000:01:11.0", Guest: "vm2", UUID: "v",
		Form: facts.ByHostdev, MAC: "52:54:00:00:00:02", Leaving: true}
	must.Do(t, f.Write(context.Background(), leaving.Address(),
		setting.Value(facts.ReservationText([]facts.Reservation{leaving}))))
	var h facts.Host
	vf.Reservations(context.Background(), m.Tree, &h)
	must.Hold(t, len(h.Reservations) == 1 && h.Reservations[0] == given && len(h.Unseen) == 2 && len(h.Leaving) == 1 &&
		h.Leaving[0] == leaving, "found %+v, unseen %+v", h.Reservations, h.Unseen)
	for _, name := range []string{"../vfs/x.json", "0000:01:10.json", "network-.json", "network-a b.json",
		"0000:01:10.1.json.bak"} {
		must.Refuse(t, setting.CheckFile(setting.Reservations+"/"+name), "%s is taken for a reservation", name)
	}
	must.Do(t, f.Write(context.Background(), at, setting.NotThere().Target()))
	must.Equal(t, f.Read(context.Background(), at).State, setting.Absent, "removed")
}
