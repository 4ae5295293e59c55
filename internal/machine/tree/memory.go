package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a tree in memory. Its files come from a guest, which is not trusted: each limit is far above what a large
// guest has, and bounds the time and the memory that a reader spends.
const (
	maxBytes   = 16 << 20 // of names, texts and targets of links
	maxObjects = 100_000
	maxDepth   = 64
	maxName    = 255  // bytes, as NAME_MAX
	maxPath    = 4096 // bytes, as PATH_MAX
	maxLinks   = 40   // followed by one lookup, as MAXSYMLINKS

	// maxWork is for all lookups and reads together: one unit is an element of a path, an entry of a directory or 64
	// bytes of a text. 16 M take about 1 s; a guest with 512 CPUs takes about 2 M.
	maxWork = 16 << 20
)

// Errors of a tree in memory.
var (
	ErrTooMuch = errors.New("it reports more files than a guest has")
	errEscapes = errors.New("path escapes from the tree")
)

// Memory is a tree of files in memory. It is for one goroutine.
type Memory struct {
	ctx   context.Context // every lookup fails once it is done
	root  *memFile
	bytes int
	made  int
	work  int
	err   error // the first limit that was reached
}

// memFile is a directory if kids is not nil, a symbolic link if target is not empty, otherwise a file.
type memFile struct {
	name   string
	parent *memFile // of the root itself: the root
	kids   map[string]*memFile
	target string
	text   string
}

// memDir is a directory of a tree in memory, and the one above which paths do not resolve.
type memDir struct {
	m       *Memory
	top, at *memFile
}

// NewMemory returns an empty tree, which can be read until ctx is done.
func NewMemory(ctx context.Context) *Memory {
	root := &memFile{kids: map[string]*memFile{}}
	root.parent = root
	return &Memory{ctx: ctx, root: root}
}

// Tree returns the tree as a recorded machine. name is shown as its path.
func (m *Memory) Tree(name string) *Tree {
	return &Tree{Path: name, mem: &memDir{m, m.root, m.root}}
}

// Err returns the limit that was reached, or the cause if the context is done. What was read before may be incomplete.
func (m *Memory) Err() error {
	if m.err == nil && m.ctx.Err() != nil {
		m.err = context.Cause(m.ctx)
	}
	return m.err
}

// spend takes units of work.
func (m *Memory) spend(units int) error {
	if m.work += units; m.work > maxWork && m.err == nil {
		m.err = fmt.Errorf("%w, or files that take too long to read", ErrTooMuch)
	}
	return m.Err()
}

// hold takes bytes of memory, and one object.
func (m *Memory) hold(bytes int) error {
	m.bytes, m.made = m.bytes+bytes, m.made+1
	if (m.bytes > maxBytes || m.made > maxObjects) && m.err == nil {
		m.err = ErrTooMuch
	}
	return m.Err()
}

// File writes a file with its missing directories. It replaces a file of that name.
func (m *Memory) File(name, text string) error {
	f, err := m.place(name)
	if err != nil {
		return err
	}
	if len(f.kids) > 0 || f.target != "" {
		return &fs.PathError{Op: "write", Path: name, Err: unix.EISDIR}
	}
	f.kids, f.text = nil, text
	return m.hold(len(text))
}

// Link makes a symbolic link with the missing directories above it. It replaces a link of that name. The target is
// relative.
func (m *Memory) Link(name, target string) error {
	dir, base := path.Split(name)
	at, err := m.walk(memDir{m, m.root, m.root}, dir, true, true)
	if err != nil {
		return err
	}
	switch old := at.kids[base]; {
	case at.kids == nil || old != nil && old.target == "":
		return &fs.PathError{Op: "link", Path: name, Err: unix.EEXIST}
	case !validName(base) || target == "" || path.IsAbs(target) || len(target) > maxPath:
		return &fs.PathError{Op: "link", Path: name, Err: unix.EINVAL}
	}
	at.kids[base] = &memFile{name: base, parent: at, target: target}
	return m.hold(len(base) + len(target))
}

// Dir makes a directory with its parents.
func (m *Memory) Dir(name string) error {
	at, err := m.place(name)
	if err == nil && at.kids == nil {
		err = &fs.PathError{Op: "mkdir", Path: name, Err: unix.ENOTDIR}
	}
	return err
}

// place returns the object of a name, a new directory if there is none.
func (m *Memory) place(name string) (*memFile, error) {
	return m.walk(memDir{m, m.root, m.root}, name, true, true)
}

// Where returns the path of an object with all links resolved; empty if there is none.
func (m *Memory) Where(name string) string {
	f, err := m.walk(memDir{m, m.root, m.root}, name, true, false)
	if err != nil {
		return ""
	}
	var elements []string
	for ; f.parent != f; f = f.parent {
		elements = append(elements, f.name)
	}
	slices.Reverse(elements)
	return strings.Join(elements, "/")
}

func validName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName && !strings.ContainsAny(name, "/\x00")
}

// walk looks a path up. follow also resolves a link that is the last element; make creates missing directories. Like
// the kernel's it keeps the rest of the path instead of recursing, so that the links of one lookup are counted
// together.
func (m *Memory) walk(from memDir, name string, follow, make bool) (*memFile, error) {
	fail := func(err error) (*memFile, error) { return nil, &fs.PathError{Op: "open", Path: clip(name), Err: err} }
	at, depth, links := from.at, 0, 0
	for up := at; up != from.top; up = up.parent {
		depth++
	}
	for rest := name; rest != ""; {
		if len(rest) > maxPath {
			return fail(unix.ENAMETOOLONG)
		}
		var element string
		element, rest, _ = strings.Cut(rest, "/")
		if err := m.spend(1); err != nil {
			return fail(err)
		}
		if at.kids == nil {
			return fail(unix.ENOTDIR)
		}
		switch {
		case element == "" || element == ".":
			continue
		case element == ".." && depth == 0:
			return fail(errEscapes)
		case element == "..":
			at, depth = at.parent, depth-1
			continue
		}
		next, err := m.child(at, element, make, depth)
		switch {
		case err != nil:
			return fail(err)
		case next.target == "" || !follow && strings.Trim(rest, "/") == "":
			at, depth = next, depth+1
		case links == maxLinks:
			return fail(unix.ELOOP)
		default:
			links, rest = links+1, next.target+"/"+rest
		}
	}
	return at, nil
}

// child returns an entry of a directory.
func (m *Memory) child(at *memFile, name string, make bool, depth int) (*memFile, error) {
	next := at.kids[name]
	switch {
	case next != nil:
		return next, nil
	case !make:
		return nil, unix.ENOENT
	case !validName(name):
		return nil, unix.ENAMETOOLONG
	case depth >= maxDepth:
		return nil, ErrTooMuch
	}
	next = &memFile{name: name, parent: at, kids: map[string]*memFile{}}
	at.kids[name] = next
	return next, m.hold(len(name))
}

// clip shortens a name for an error.
func clip(name string) string {
	if len(name) > 80 {
		return name[:80] + "…"
	}
	return name
}

// below returns a directory below.
func (d *memDir) below(name string) (*memDir, error) {
	f, err := d.m.walk(*d, name, true, false)
	if err != nil {
		return nil, err
	}
	if f.kids == nil {
		return nil, &fs.PathError{Op: "open", Path: clip(name), Err: unix.ENOTDIR}
	}
	return &memDir{d.m, d.top, f}, nil
}

// read returns at most the first bytes of a file.
func (d *memDir) read(name string, most int) (string, error) {
	f, err := d.m.walk(*d, name, true, false)
	if err != nil {
		return "", err
	}
	if f.kids != nil {
		return "", &fs.PathError{Op: "open", Path: clip(name), Err: unix.EISDIR}
	}
	text := f.text[:min(len(f.text), most)]
	return text, d.m.spend(len(text) / 64)
}

// entries returns the sorted names in a directory.
func (d *memDir) entries(name string) ([]string, error) {
	f, err := d.m.walk(*d, name, true, false)
	if err != nil {
		return nil, err
	}
	if err := d.m.spend(len(f.kids)); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(f.kids)), nil
}

// stat returns what is known of a file.
func (d *memDir) stat(name string, follow bool) (fs.FileInfo, error) {
	f, err := d.m.walk(*d, name, follow, false)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// readlink returns the target of a symbolic link.
func (d *memDir) readlink(name string) (string, error) {
	f, err := d.m.walk(*d, name, false, false)
	if err == nil && f.target == "" {
		err = &fs.PathError{Op: "readlink", Path: clip(name), Err: unix.EINVAL}
	}
	if err != nil {
		return "", err
	}
	return f.target, nil
}

// A memFile is its own fs.FileInfo.

func (f *memFile) Name() string       { return f.name }
func (f *memFile) Size() int64        { return int64(len(f.text)) }
func (f *memFile) ModTime() time.Time { return time.Time{} }
func (f *memFile) IsDir() bool        { return f.kids != nil }
func (f *memFile) Sys() any           { return nil }

func (f *memFile) Mode() fs.FileMode {
	switch {
	case f.kids != nil:
		return fs.ModeDir | 0o700
	case f.target != "":
		return fs.ModeSymlink | 0o777
	}
	return 0o600
}
