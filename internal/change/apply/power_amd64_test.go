package apply

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// A medium is a file system as POSIX allows it to be after a loss of power: what fsync(2) of a file or a directory has
// returned for is there, and of what came later any part. The parts are those of Pillai et al., "All File Systems Are
// Not Created Equal" (OSDI 2014): each entry of a directory by itself, of the writes to a file the first ones, a torn
// one, the size without the data, and later pages without earlier ones.
type medium struct {
	folders map[string]map[string]*inodeState // entries that are safe, by folder
	now     map[string]map[string]*inodeState // entries as the process sees them
	pending []entry                           // in their order
	last    *inodeState                       // the file that was written last
	values  map[string]string                 // of the machine: in effect at once, and kept, which is the worst case
}

// An inodeState is a file or a folder.
type inodeState struct {
	folder string // its path; empty for a file
	safe   []byte
	writes []operation // since the last fsync
	mode   fs.FileMode // a change may be there or not: it is taken to be there
}

// entry is a change of a folder: what is there under a name, nil for nothing. A rename is one change of two names.
type entry struct {
	folder, name, from string
	is                 *inodeState
}

// read takes what is below var as safe.
func (m *medium) read(t *testing.T, root string) {
	t.Helper()
	*m = medium{folders: map[string]map[string]*inodeState{"var": {}}, now: map[string]map[string]*inodeState{"var": {}},
		values: map[string]string{}}
	must.Do(t, filepath.WalkDir(filepath.Join(root, "var"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == filepath.Join(root, "var") {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		f := &inodeState{}
		if d.IsDir() {
			f.folder = rel
			m.folders[rel], m.now[rel] = map[string]*inodeState{}, map[string]*inodeState{}
		} else if f.safe, err = os.ReadFile(name); err != nil {
			return err
		}
		if info, err := d.Info(); err == nil {
			f.mode = info.Mode().Perm()
		}
		m.folders[path.Dir(rel)][d.Name()], m.now[path.Dir(rel)][d.Name()] = f, f
		return nil
	}))
}

// change makes an entry, and remembers that it is not safe yet.
func (m *medium) change(e entry) {
	if e.from != "" {
		delete(m.now[path.Dir(e.from)], path.Base(e.from))
	}
	if delete(m.now[e.folder], e.name); e.is != nil {
		m.now[e.folder][e.name] = e.is
	}
	m.pending = append(m.pending, e)
}

// forget makes the entry of a folder unsafe.
func (m *medium) forget(name string) {
	folder, base := path.Dir(name), path.Base(name)
	m.pending = append(m.pending, entry{folder: folder, name: base, is: m.folders[folder][base]})
	delete(m.folders[folder], base)
}

// do makes an operation.
func (m *medium) do(o operation) {
	folder, base := path.Dir(o.name), path.Base(o.name)
	f := m.now[folder][base]
	if strings.HasPrefix(o.name, "proc/") {
		if o.call == unix.SYS_WRITE {
			m.values[o.name] = string(o.data)
		}
		return
	}
	switch o.call {
	case unix.SYS_MKDIRAT:
		m.folders[o.name], m.now[o.name] = map[string]*inodeState{}, map[string]*inodeState{}
		m.change(entry{folder: folder, name: base, is: &inodeState{folder: o.name}})
	case unix.SYS_OPENAT:
		if f == nil {
			m.change(entry{folder: folder, name: base, is: &inodeState{mode: 0o644}})
		} else if o.at&unix.O_TRUNC != 0 {
			f.writes = append(f.writes, operation{call: unix.SYS_FTRUNCATE})
		}
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		m.change(entry{folder: path.Dir(o.to), name: path.Base(o.to), from: o.name, is: f})
	case unix.SYS_UNLINKAT:
		m.change(entry{folder: folder, name: base})
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE:
		f.writes = append(f.writes, o)
		m.last = f
	case unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2:
		f.mode = fs.FileMode(o.at)
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		if f != nil && f.folder == "" {
			f.safe, f.writes = written(f.safe, f.writes), nil
			return
		}
		m.pending = slices.DeleteFunc(m.pending, func(e entry) bool {
			if e.folder == o.name {
				e.do(m.folders)
			}
			return e.folder == o.name
		})
	}
}

// do makes the change of an entry. A rename takes the old name away only if it is there.
func (e entry) do(folders map[string]map[string]*inodeState) {
	if e.from != "" && folders[path.Dir(e.from)][path.Base(e.from)] == e.is {
		delete(folders[path.Dir(e.from)], path.Base(e.from))
	}
	if delete(folders[e.folder], e.name); e.is != nil {
		folders[e.folder][e.name] = e.is
	}
}

// written is a file after some writes.
func written(text []byte, writes []operation) []byte {
	text = bytes.Clone(text)
	for _, o := range writes {
		if o.call == unix.SYS_FTRUNCATE {
			text = append(text, make([]byte, max(0, int(o.at)-len(text)))...)[:o.at]
			continue
		}
		at := int(o.at)
		if at < 0 {
			at = len(text)
		}
		text = append(text, make([]byte, max(0, at+len(o.data)-len(text)))...)
		copy(text[at:], o.data)
	}
	return text
}

// texts are what a file may hold.
func (f *inodeState) texts() (all [][]byte) {
	for n := range len(f.writes) + 1 {
		all = append(all, written(f.safe, f.writes[:n]))
		if n < len(f.writes) && len(f.writes[n].data) > 1 {
			torn := f.writes[n]
			torn.data = torn.data[:len(torn.data)/2]
			all = append(all, written(f.safe, append(slices.Clone(f.writes[:n]), torn)))
		}
	}
	whole := all[len(all)-1]
	if len(whole) <= len(f.safe) {
		return all
	}
	const page = 4096
	sized := append(bytes.Clone(f.safe), make([]byte, len(whole)-len(f.safe))...)
	all = append(all, sized)
	if border := (len(f.safe)/page + 1) * page; border < len(whole) {
		all = append(all, append(bytes.Clone(sized[:border]), whole[border:]...))
	}
	return all
}

// A crashState is the files of a medium by their paths, and its folders.
type crashState map[string]crashed

type crashed struct {
	text string
	mode fs.FileMode
}

// crashes returns what may be there after a loss of power now.
func (m *medium) crashes() (all []crashState) {
	for subset := range 1 << len(m.pending) {
		folders := map[string]map[string]*inodeState{}
		for name, entries := range m.folders {
			folders[name] = maps.Clone(entries)
		}
		for i, e := range m.pending {
			if subset>>i&1 > 0 {
				e.do(folders)
			}
		}
		all = append(all, stateOf(folders, func(f *inodeState) []byte { return f.safe }),
			stateOf(folders, func(f *inodeState) []byte { return written(f.safe, f.writes) }))
		if m.last == nil {
			continue
		}
		for _, text := range m.last.texts() {
			all = append(all, stateOf(folders, func(f *inodeState) []byte {
				if f == m.last {
					return text
				}
				return f.safe
			}))
		}
	}
	return all
}

func stateOf(folders map[string]map[string]*inodeState, text func(*inodeState) []byte) crashState {
	s := crashState{}
	var walk func(folder string)
	walk = func(folder string) {
		for name, f := range folders[folder] {
			name = path.Join(folder, name)
			if f.folder != "" {
				s[name] = crashed{mode: fs.ModeDir}
				walk(f.folder)
				continue
			}
			s[name] = crashed{string(text(f)), f.mode}
		}
	}
	walk("var")
	return s
}

// make puts the files there.
func (s crashState) make(t *testing.T, root string) {
	t.Helper()
	err := os.RemoveAll(filepath.Join(root, "var"))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if err == nil && s[name].mode == fs.ModeDir {
			err = os.MkdirAll(filepath.Join(root, name), 0o755)
		}
	}
	for name, f := range s {
		if err == nil && f.mode != fs.ModeDir {
			err = os.WriteFile(filepath.Join(root, name), []byte(f.text), f.mode)
		}
	}
	must.Do(t, err)
}

// TestPowerLossAnywhere records what an apply, one that undoes itself, a rollback and a status write, and plays every
// state in which a file system may be after a loss of power at any point of it. Each time the status must tell the
// truth, and a rollback must leave every value as it was before. "folders" is an apply after another that was killed
// when it had made the folders of the journal.
func TestPowerLossAnywhere(t *testing.T) {
	for _, mode := range []string{"apply", "folders", "undo", "rollback", "status"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			root, before := scene(t, mode)
			var m medium
			m.read(t, root)
			if mode == "folders" {
				m.forget("var/lib/mpps")
				m.forget(journal.Path)
			}
			started := contents(t, root)
			all, _ := recorded(t, mode, root, fails{})
			seen := map[string]bool{}
			for n := range len(all) + 1 {
				if n > 0 {
					m.do(all[n-1])
				}
				values := maps.Clone(started)
				for name, value := range m.values {
					values[filepath.Join(root, name)] = value
				}
				for _, s := range m.crashes() {
					if key := fmt.Sprint(s, values); !seen[key] {
						seen[key] = true
						s.make(t, root)
						afterLoss(t, root, fmt.Sprintf("%s, after operation %d", mode, n), before, values)
					}
					if t.Failed() {
						t.Fatalf("the state: %+v\nthe operations: %v", s, all[:n])
					}
				}
			}
			t.Logf("%d operations, %d states, 0 lost", len(all), len(seen))
			must.Hold(t, len(seen) >= 2, "there were no states to play")
		})
	}
}

// scene makes the machine that a victim begins with, and returns its values before anything was applied.
func scene(t *testing.T, mode string) (root string, before map[string]string) {
	t.Helper()
	root = tree(t)
	must.Do(t, os.MkdirAll(filepath.Join(root, "var/lib"), 0o755))
	before = contents(t, root)
	e := realFiles(t, root)
	switch mode {
	case "rollback":
		applied(t, e, changes(victims), bystander)
	case "folders": // whoever made them was killed
		must.Do(t, os.MkdirAll(filepath.Join(root, journal.Path), 0o755))
	case "status":
		for range 40 { // more than the index leaves out
			applied(t, e, changes(1), bystander)
			must.Get(e.Rollback(t.Context(), RollbackOptions{}))(t)
		}
	}
	return root, before
}

func realFiles(t *testing.T, root string) *Engine {
	t.Helper()
	return on(t, root, setting.Mechanisms{setting.Sysctl: &files{root: root, dies: func(string) {}}})
}

// recorded returns the operations of a victim that lives, and how many of them the disk saw, failed ones included.
func recorded(t *testing.T, mode, root string, f fails) (all []operation, seen int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	if mode == "folders" {
		mode = "apply"
	}
	cmd.Env = append(os.Environ(), "MPPS_VICTIM="+mode, "MPPS_VICTIM_ROOT="+root, "MPPS_VICTIM_DIES=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	all, seen, err := traced(t, cmd, root, f)
	if err != nil && f.from == 0 {
		t.Fatalf("%v: %s", err, out.String())
	}
	return all, seen
}

// TestDiskFailsAnywhere lets the disk of the journal fail, or become read-only, from each operation on of an apply, one
// that undoes itself and a rollback. Once it is well again the status must tell the truth, and a rollback must leave
// every value as it was before.
func TestDiskFailsAnywhere(t *testing.T) {
	for _, mode := range []string{"apply", "undo", "rollback"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for from := 1; ; from++ {
				errno := []syscall.Errno{unix.EIO, unix.EROFS}[from%2]
				root, before := scene(t, mode)
				_, seen := recorded(t, mode, root, fails{from: from, errno: errno})
				if seen < from {
					t.Logf("%d failures, 0 values lost", from-1)
					return
				}
				afterLoss(t, root, fmt.Sprintf("operation %d: %v", from, errno), before, contents(t, root))
				if t.Failed() {
					return
				}
			}
		})
	}
}

// afterLoss checks a machine that comes up with values.
func afterLoss(t *testing.T, root, what string, before, values map[string]string) {
	t.Helper()
	for name, value := range values {
		must.Do(t, os.WriteFile(name, []byte(value), 0o644))
	}
	e := realFiles(t, root)
	defer e.Journal.Close()
	e.Journal.Indexed = true
	got, changed := state(t, e), !maps.Equal(values, before)
	if got == IsClean && changed {
		t.Errorf("%s: status is clean, but values are changed", what)
	}
	// What was put back without a journal is no longer as the journal says.
	if got == IsInFlight || got == IsFailed || got == IsInDoubt || got == IsDrifted && changed {
		t.Errorf("%s: status is %s", what, got)
	}
	must.Pass(e.Rollback(t.Context(), RollbackOptions{}))(t, "%s: rollback", what)
	must.Same(t, contents(t, root), before, "%s: after rollback", what)
	must.Equal(t, state(t, e), IsClean, "%s: after rollback the status", what)
}
