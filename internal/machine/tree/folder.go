package tree

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder is an open directory of the machine, for reading many small files below it: names are looked up from here
// instead of from the root. On the live machine it is a bare descriptor (live.go). In a recorded tree it is an os.Root,
// which links do not leave. A guest's files are in memory (memory.go).
type Folder struct {
	root *os.Root // of a recorded tree
	mem  *memDir  // of a tree in memory; with neither, the live machine
	fd   int
	ctx  context.Context // as Tree's
	*Missed

	parent    *Folder   // nil at the top
	name      string    // in parent
	malformed *[]string // lists malformed files; may be nil
}

// Folder opens a directory; nil if it cannot be opened. A nil folder reads as empty.
func (t *Tree) Folder(name string) *Folder {
	from, file := t.at(name)
	return from.open(file, Folder{name: name})
}

// Folder opens a directory below; nil if it cannot be opened.
func (d *Folder) Folder(name string) *Folder {
	if d == nil {
		return nil
	}
	return d.open(name, Folder{parent: d, name: name, malformed: d.malformed})
}

// open opens a directory below and returns it with the fields of as.
func (d *Folder) open(name string, as Folder) *Folder {
	if ended(d.ctx) != nil {
		return nil
	}
	as.ctx, as.Missed = d.ctx, d.Missed
	var err error
	switch {
	case d.mem != nil:
		as.mem, err = d.mem.below(name)
	case d.root == nil:
		as.fd, err = openFD(d.fd, name, unix.O_PATH|unix.O_DIRECTORY)
	default:
		as.root, err = openSubtree(d.root, name)
	}
	if err != nil {
		d.miss(name, err)
		return nil
	}
	return &as
}

// ListMalformed makes the folder and those opened below it add malformed files to a list: files that exist and do not
// hold what the kernel writes into them. They read as if absent.
func (d *Folder) ListMalformed(where *[]string) *Folder {
	if d != nil {
		d.malformed = where
	}
	return d
}

// mostMalformed is the longest such list.
const mostMalformed = 64

// AddMalformed adds a file whose text is not what was expected to the list.
func (d *Folder) AddMalformed(name, expected, text string) {
	text = strings.TrimSpace(text)
	if d == nil || d.malformed == nil || text == "" || len(*d.malformed) >= mostMalformed {
		return
	}
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	*d.malformed = append(*d.malformed, fmt.Sprintf("%s: expected %s, found %q", d.path(name), expected, text))
}

func (d *Folder) path(name string) string {
	for ; d != nil; d = d.parent {
		name = path.Join(d.name, name)
	}
	return name
}

func (d *Folder) Close() {
	switch {
	case d == nil, d.mem != nil:
	case d.root == nil:
		unix.Close(d.fd)
	default:
		d.root.Close()
	}
}

// read returns at most the first bytes of a file.
func (d *Folder) read(name string, most int) (string, error) {
	text, err := d.readText(name, most)
	d.miss(name, err)
	return text, err
}

func (d *Folder) readText(name string, most int) (string, error) {
	if err := ended(d.ctx); err != nil {
		return "", err
	}
	switch {
	case d.mem != nil:
		return d.mem.read(name, most)
	case d.root == nil:
		return readLive(d.fd, name, most)
	}
	f, err := openRegular(d.root, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(most)))
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// Text returns a file's text and whether it could be read. It reads at most 1 MiB: topology files are lists and masks.
func (d *Folder) Text(name string) (string, bool) {
	if d == nil {
		return "", false
	}
	text, err := d.read(name, 1<<20)
	return text, err == nil
}

// Line returns a file's text without surrounding white space; empty if it cannot be read.
func (d *Folder) Line(name string) string {
	text, _ := d.Text(name)
	return strings.TrimSpace(text)
}

// Number returns a file's integer, or otherwise if it cannot be read or is not an integer.
func (d *Folder) Number(name string, otherwise int) int {
	text := d.Line(name)
	n, err := strconv.Atoi(text)
	if err != nil {
		d.AddMalformed(name, "a number", text)
		return otherwise
	}
	return n
}

// Mode returns a file's permissions and whether it exists.
func (d *Folder) Mode(name string) (fs.FileMode, bool) {
	switch {
	case d == nil, ended(d.ctx) != nil:
		return 0, false
	case d.mem != nil:
		info, err := d.mem.stat(name, true)
		if err != nil {
			return 0, false
		}
		return info.Mode().Perm(), true
	case d.root == nil:
		var info unix.Stat_t
		err := unix.Fstatat(d.fd, name, &info, 0)
		return fs.FileMode(info.Mode) & fs.ModePerm, err == nil
	}
	info, err := d.root.Stat(name)
	if err != nil {
		return 0, false
	}
	return info.Mode().Perm(), true
}

// Target returns the last element of a symbolic link's target; empty if there is no link.
func (d *Folder) Target(name string) string {
	switch {
	case d == nil, ended(d.ctx) != nil:
		return ""
	case d.mem == nil && d.root == nil:
		return linkAt(d.fd, name)
	}
	target, err := d.readlink(name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// readlink returns the target of a symbolic link, not on the live machine.
func (d *Folder) readlink(name string) (string, error) {
	if err := ended(d.ctx); err != nil {
		return "", err
	}
	if d.mem != nil {
		return d.mem.readlink(name)
	}
	return d.root.Readlink(name)
}

// Names returns the sorted names of the entries.
func (d *Folder) Names() []string { return d.Entries(".") }

// Entries returns the sorted names in a directory below; empty if it cannot be read.
func (d *Folder) Entries(name string) []string {
	if d == nil || ended(d.ctx) != nil {
		return nil
	}
	if d.mem != nil {
		names, _ := d.mem.entries(name)
		return names
	}
	open := openDirectory
	if d.root == nil {
		open = func(_ *os.Root, name string) (*os.File, error) { return openLive(d.fd, name) }
	}
	f, err := open(d.root, name)
	if err != nil {
		d.miss(name, err)
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		d.miss(name, err)
		return nil
	}
	slices.Sort(names)
	return names
}

// Numbers returns the sorted numbers of the entries named PREFIXn; it skips others.
func (d *Folder) Numbers(prefix string) []int {
	var numbers []int
	for _, name := range d.Names() {
		digits, found := strings.CutPrefix(name, prefix)
		if !found {
			continue
		}
		if n, err := strconv.ParseUint(digits, 10, 14); err == nil {
			numbers = append(numbers, int(n))
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// Links returns a directory's link count; 0 except on the live machine.
func (d *Folder) Links() uint64 {
	var stat unix.Stat_t
	if d.mem != nil || d.root != nil || unix.Fstat(d.fd, &stat) != nil {
		return 0
	}
	return uint64(stat.Nlink)
}
