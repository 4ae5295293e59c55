package lab

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestSavedIsOfOneMachine: a state is that of one command line, tree and beginning; where sockets are does not matter.
func TestSavedIsOfOneMachine(t *testing.T) {
	of := func(change func(*Lab, *machine)) string {
		tree := &Tree{Dir: "/cache/tree-1", Release: "6.12", QEMU: "QEMU emulator version 10.0.2"}
		c := config("a")
		c.Begin = &Beginning{Key: "bridge"}
		l := &Lab{tree: tree, st: &state{Config: c}}
		m := machine{Tree: tree, Run: "/run/mpps-lab/a", Accel: TCG, CPUs: 4, MemoryMiB: 6144, Mode: Shell,
			Kernel: tree.Kernel(), Menu: []string{"quiet"}}
		change(l, &m)
		return l.saved(m).dir
	}
	first := of(func(*Lab, *machine) {})
	must.Equal(t, of(func(_ *Lab, m *machine) { m.Run = "/run/mpps-lab/b" }), first, "for a lab of another name")
	seen := map[string]string{first: "as it was"}
	for name, change := range map[string]func(*Lab, *machine){
		"another QEMU":      func(l *Lab, _ *machine) { l.tree.QEMU = "QEMU emulator version 10.0.3" },
		"another kernel":    func(l *Lab, _ *machine) { l.tree.Release = "6.13" },
		"another boot menu": func(_ *Lab, m *machine) { m.Menu = []string{"isolcpus=3"} },
		"an argument":       func(_ *Lab, m *machine) { m.Args = []string{"iommu=pt"} },
		"more CPUs":         func(_ *Lab, m *machine) { m.CPUs = 8 },
		"less memory":       func(_ *Lab, m *machine) { m.MemoryMiB = 2048 },
		"systemd":           func(_ *Lab, m *machine) { m.Mode = Systemd },
		"another beginning": func(l *Lab, _ *machine) { l.st.Config.Begin.Key = "bridge and rules" },
		"no beginning":      func(l *Lab, _ *machine) { l.st.Config.Begin = nil },
	} {
		dir := of(change)
		must.Equal(t, seen[dir], "", "%s has the state of", name)
		seen[dir] = name
	}
}

// TestMakeRoom removes the states used longest ago, unfinished ones that nobody writes any more, and their locks.
func TestMakeRoom(t *testing.T) {
	const size = 64 << 10
	dir := t.TempDir()
	for i, name := range []string{"newest", "older", "oldest", "unfinished-now", "unfinished-then"} {
		path := filepath.Join(dir, name)
		must.Do(t, errors.Join(os.Mkdir(path, 0o755),
			os.WriteFile(filepath.Join(path, savedMemory), make([]byte, size), 0o644)))
		at := time.Now().Add(-time.Duration(i) * time.Hour)
		if name == "unfinished-now" {
			at = time.Now()
		}
		must.Do(t, os.Chtimes(path, at, at))
	}
	for _, name := range []string{"older.lock", "removed.lock"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	s := saved{filepath.Join(dir, "next")}
	for _, c := range []struct {
		room int64
		want []string
	}{
		{10 * size, []string{"newest", "older", "older.lock", "oldest", "unfinished-now"}},
		{2*size + size/2, []string{"newest", "older", "older.lock", "unfinished-now"}},
		{size / 2, []string{"unfinished-now"}},
	} {
		must.Do(t, s.makeRoom(c.room))
		var left []string
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			left = append(left, e.Name())
		}
		must.Hold(t, err == nil && slices.Equal(left, c.want),
			"room for %d bytes: found %v, %v, expected %v", c.room, left, err, c.want)
	}
	must.Refuse(t, (saved{filepath.Join(dir, "none", "next")}).makeRoom(size), "no folder: found no error")
}

// TestMakeRoomForNewest removes older states of the same name, whatever room there is, but none that is locked.
func TestMakeRoomForNewest(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"demo-1", "demo-2", "other-1", "0123"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	unlock := must.Get(tryLock(saved{filepath.Join(dir, "demo-2")}.lock()))(t)
	defer unlock()
	must.Do(t, saved{filepath.Join(dir, "demo-3")}.makeRoom(savedRoom))
	left := must.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
	for i, path := range left {
		left[i] = filepath.Base(path)
	}
	must.Same(t, left, []string{"0123", "demo-2", "demo-2.lock", "other-1"}, "left")
}

// fakeHost comes up from a state that has the file "sound".
type fakeHost struct {
	made  *int
	fails func()
}

func (h fakeHost) waits() {}

func (h fakeHost) failed(error) error {
	h.fails()
	return nil
}

func (h fakeHost) restore(_ context.Context, s saved) error {
	_, err := os.Stat(filepath.Join(s.dir, "sound"))
	return err
}

func (h fakeHost) make(_ context.Context, s saved) error {
	*h.made++ // under the state's lock
	return errors.Join(os.Mkdir(s.dir, 0o755), os.WriteFile(filepath.Join(s.dir, "sound"), nil, 0o644))
}

// TestBadStateOfTwo: two hosts find the same bad state. While the second ends what it has begun, the first replaces the
// state: the second begins from the new one.
func TestBadStateOfTwo(t *testing.T) {
	s := saved{filepath.Join(t.TempDir(), "saved", "0123")}
	must.Do(t, os.MkdirAll(s.dir, 0o755))
	made, failed, replaced := 0, make(chan bool), make(chan bool)
	second := make(chan error)
	go func() {
		second <- s.begin(t.Context(), fakeHost{&made, func() { failed <- true; <-replaced }})
	}()
	<-failed
	must.Do(t, s.begin(t.Context(), fakeHost{&made, func() {}}))
	must.Equal(t, made, 1, "states made by the first")
	replaced <- true
	must.Do(t, <-second)
	must.Equal(t, made, 1, "states made by both")
	must.Do(t, fakeHost{}.restore(t.Context(), s))
}

// TestBadStateAlways: a host for which no state comes up gives up.
func TestBadStateAlways(t *testing.T) {
	s := saved{filepath.Join(t.TempDir(), "saved", "0123")}
	must.Do(t, os.MkdirAll(s.dir, 0o755))
	made, tries := 0, 0
	replace := func() { // as another process that makes bad ones
		tries++
		must.Do(t, errors.Join(os.Rename(s.dir, s.dir+string(rune('a'+tries))), os.Mkdir(s.dir, 0o755)))
	}
	must.Is(t, s.begin(t.Context(), fakeHost{&made, replace}), fs.ErrNotExist, "begun")
	must.Hold(t, tries == bootTries && made == 0, "%d tries, %d made", tries, made)
}

// TestExpect: the time that is announced is that of what there is to do.
func TestExpect(t *testing.T) {
	inScratch(t)
	cache := t.TempDir()
	t.Setenv("MPPS_LAB", cache)
	c := Config{Name: "demo", Accel: TCG, Begin: &Beginning{Key: "guest"}}
	tree := Expect(t.Context(), c)
	c.Tree = &Tree{Dir: filepath.Join(cache, "tree-1"), Release: "6.12.107+deb13-amd64"}
	config := must.Get(os.ReadFile("testdata/grub/grub.cfg"))(t)
	menu := filepath.Join(c.Tree.Root(), grubConfig)
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(menu), 0o755), os.WriteFile(menu, config, 0o644)))
	boot := Expect(t.Context(), c)
	filled := c
	filled.fill()
	l := newLab(filled)
	defer l.Close()
	m := must.Get(l.machine(t.Context()))(t)
	must.Do(t, os.MkdirAll(l.saved(m).dir, 0o755))
	state := Expect(t.Context(), c)
	c.Begin = nil
	other := Expect(t.Context(), c)
	c.Persist = true
	must.Equal(t, Expect(t.Context(), c), boot, "a persistent one, booted each time")
	must.Hold(t, tree >= time.Minute && boot >= 20*time.Second && boot <= tree/2 && state <= 10*time.Second &&
		other == boot,
		"found %v with nothing, %v with a tree, %v with a state, %v with that of another", tree, boot, state, other)
}
