package machine

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/link"
	"mpps/internal/must"
)

// TestGuestEvents starts guests before and after libvirt has created its directory, stops and undefines them.
func TestGuestEvents(t *testing.T) {
	m, root := scratch(t, "run", "etc")
	ctx, cancel := context.WithCancel(t.Context())
	events := must.Get(m.Events(ctx))(t)
	want := func(guest string, what GuestChange) {
		t.Helper()
		for {
			select {
			case e := <-events:
				if e.Object == guest && e.Guest == what && e.Created == (what == GuestStarted) {
					return
				}
				// reported twice if its file appeared while the watch was set up
				must.Need(t, e.Object == "vm1" && what == GuestStarted, "%+v, expected %s", e, guest)
			case <-time.After(20 * time.Second):
				t.Fatalf("no event of %s", guest)
			}
		}
	}
	folder := filepath.Join(root, guestFiles)
	must.Do(t, os.MkdirAll(folder, 0o755))
	for _, guest := range []string{"vm1", "a b.c"} {
		for _, name := range []string{guest + ".xml", guest + ".pid"} {
			must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte("7\n"), 0o644))
		}
		want(guest, GuestStarted)
	}
	definitions := filepath.Join(root, libvirt.DefinedFolder)
	must.Do(t, os.MkdirAll(filepath.Join(definitions, "networks"), 0o755))
	time.Sleep(50 * time.Millisecond) // until it is watched: what goes before that is not told
	write := func(name string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(definitions, name), []byte("<domain/>\n"), 0o600))
	}
	write("a b.c.xml")
	write("a b.c.xml.new")
	// as libvirt changes a definition
	must.Do(t, os.Rename(filepath.Join(definitions, "a b.c.xml.new"), filepath.Join(definitions, "a b.c.xml")))
	for file, what := range map[string]GuestChange{filepath.Join(folder, "a b.c.pid"): GuestStopped,
		filepath.Join(definitions, "a b.c.xml"): GuestUndefined} {
		must.Do(t, os.Remove(file))
		want("a b.c", what)
	}
	cancel()
	for range events {
		// until it is closed
	}
}

func TestLinkEvents(t *testing.T) {
	w := linkWatch{known: map[int]link.Device{3: {Index: 3, Name: "eth0"}}}
	for _, c := range []struct {
		d    link.Device
		e    Event
		told bool
	}{
		{link.Device{Index: 3, Name: "eth0", Carrier: "up"}, Event{}, false},
		{link.Device{Index: 3, Name: "eth0", Up: true}, Event{Object: "eth0"}, true},
		// changing rings drops only the carrier
		{link.Device{Index: 3, Name: "eth0", Up: true, Carrier: "up"}, Event{Object: "eth0", Carrier: true}, true},
		{link.Device{Index: 3, Name: "eth0", Up: true, Carrier: "up"}, Event{}, false},
		{link.Device{Index: 3, Name: "eth0", Up: true, Carrier: "down"}, Event{}, false},
		{link.Device{Index: 3, Name: "eth0", Up: true, Carrier: "up"}, Event{Object: "eth0", Carrier: true}, true},
		{link.Device{Index: 3, Name: "ens1", Up: true}, Event{Object: "ens1", Created: true}, true},
		{link.Device{Index: 9, Name: "eth0"}, Event{Object: "eth0", Created: true}, true},
		{link.Device{Index: 9, Up: true}, Event{Object: "eth0"}, true},
	} {
		if e, told := w.next(c.d); e != c.e || told != c.told {
			t.Errorf("%+v: %+v %v, expected %+v %v", c.d, e, told, c.e, c.told)
		}
	}
}

func FuzzParseInotify(f *testing.F) {
	f.Add(make([]byte, unix.SizeofInotifyEvent))
	f.Add(append(make([]byte, 12), 4, 0, 0, 0, 'a', 0, 0, 0))
	f.Fuzz(func(t *testing.T, buffer []byte) {
		for _, e := range parseInotify(buffer) {
			must.Hold(t, len(e.name) <= len(buffer), "%v", e)
		}
	})
}
