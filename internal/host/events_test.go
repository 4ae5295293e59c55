package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestGuestEvents starts guests before and after libvirt has made its directory.
func TestGuestEvents(t *testing.T) {
	m, root := scratch(t, "run")
	ctx, cancel := context.WithCancel(t.Context())
	events, err := m.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := func(guest string) {
		t.Helper()
		for {
			select {
			case e := <-events:
				if e.Object == guest && e.Anew {
					return
				}
				if e.Object != "vm1" { // told twice where its file came while the watch was set up
					t.Fatalf("%+v, expected %s", e, guest)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("no event of %s", guest)
			}
		}
	}
	folder := filepath.Join(root, guestFiles)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, guest := range []string{"vm1", "a b.c"} {
		for _, name := range []string{guest + ".xml", guest + ".pid"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte("7\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want(guest)
	}
	cancel()
	for range events {
		// until it is closed
	}
}

func TestLinkEvents(t *testing.T) {
	w := linkWatch{known: map[int]device{3: {index: 3, name: "eth0"}}}
	for _, c := range []struct {
		d    device
		e    Event
		told bool
	}{
		{device{index: 3, name: "eth0", carrier: "up"}, Event{}, false},
		{device{index: 3, name: "eth0", up: true}, Event{Object: "eth0"}, true},
		{device{index: 3, name: "eth0", up: true, carrier: "up"}, Event{}, false}, // a change of rings takes the carrier only
		{device{index: 3, name: "ens1", up: true}, Event{Object: "ens1", Anew: true}, true},
		{device{index: 9, name: "eth0"}, Event{Object: "eth0", Anew: true}, true},
		{device{index: 9, up: true}, Event{Object: "eth0"}, true},
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
			if len(e.name) > len(buffer) {
				t.Error(e)
			}
		}
	})
}
