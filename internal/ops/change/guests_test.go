package change

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/golden"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// TestBetween: a guest runs with what stood in its definition when it was started.
func TestBetween(t *testing.T) {
	from := time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)
	until := from.Add(time.Hour)
	for began, want := range map[time.Time]bool{
		from.Add(-time.Minute): false, from.Add(time.Minute): true, until.Add(time.Minute): false,
		from.Add(-500 * time.Millisecond): true, {}: true,
	} {
		must.Equal(t, between(began, from, until), want, "started at %v", began)
	}
}

// TestWatchGuests: the guest of a recorded host runs with an e1000 and a definition that says virtio, or the reverse.
func TestWatchGuests(t *testing.T) {
	root := t.TempDir()
	must.Do(t, golden.Tree("../../../cmd/mpps/testdata/trees/two-nodes.txtar", root))
	model := journal.Change{Address: setting.Of(setting.Domain, "web1", "interface/52:54:00:aa:00:01/model")}
	other := journal.Change{Address: setting.Of(setting.Domain, "web1", "emulatorpin")}
	env := &ops.Env{Root: root, Out: ops.Deaf{}}
	watch := func() *Engine {
		e := must.Get(Open(env, nil))(t)
		t.Cleanup(func() { e.Close() })
		e.WatchGuests(t.Context())
		return e
	}
	began := guests(t.Context(), watch().Machine)["web1"].began
	if began.IsZero() {
		began = time.Now() // the tree does not tell: it may have been at any time
	}
	hour := time.Hour
	if e := watch(); e.Waiting(model) != "" || e.Lingers(model, began.Add(-hour), began.Add(hour)) != "" {
		t.Error("something waits though the guest runs with its definition")
	}
	file := filepath.Join(root, "etc/libvirt/qemu/web1.xml")
	text := must.Get(os.ReadFile(file))(t)
	edited := strings.Replace(string(text), "e1000", "virtio", 1)
	if err := os.WriteFile(file, []byte(edited), 0o644); err != nil || edited == string(text) {
		t.Fatalf("no e1000 in the definition, %v", err)
	}
	e := watch()
	if why := e.Waiting(model); !strings.Contains(why, "guest web1 runs with its former definition") {
		t.Errorf("found %q", why)
	}
	if why := e.Lingers(model, began.Add(-hour), began.Add(hour)); !strings.Contains(why,
		"guest web1 still runs with what was put back") {
		t.Errorf("found %q", why)
	}
	must.Equal(t, e.Waiting(other)+e.Lingers(other, began.Add(-hour), began.Add(hour)), "",
		"a value in which they do not differ")
}
