package tree

import (
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
// instead of from the root. Of the live machine it is a bare descriptor (live.go), of a recorded tree an os.Root,
// which links in the tree do not leave.
type Folder struct {
	root *os.Root // nil on the live machine
	fd   int

	parent *Folder   // nil at the top
	name   string    // in parent
	told   *[]string // lists malformed files; may be nil
}

// Folder opens a directory; nil where there is none. A nil folder reads as empty.
func (t *Tree) Folder(name string) *Folder {
	var d *Folder
	if t.straight(name) {
		d = liveFolder(unix.AT_FDCWD, "/"+name)
	} else {
		d = rootedFolder(subtree(t.Root, name))
	}
	if d != nil {
		d.name = name
	}
	return d
}

// Tell lists in where the files that exist and do not hold what the kernel writes into them. These read as if absent.
func (d *Folder) Tell(where *[]string) *Folder {
	if d != nil {
		d.told = where
	}
	return d
}

// mostMalformed bounds that list.
const mostMalformed = 64

func (d *Folder) Malformed(name, expected, text string) {
	text = strings.TrimSpace(text)
	if d.told == nil || text == "" {
		return
	}
	if len(*d.told) >= mostMalformed {
		return
	}
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	*d.told = append(*d.told, fmt.Sprintf("%s: expected %s, found %q", d.path(name), expected, text))
}

func (d *Folder) path(name string) string {
	for ; d != nil; d = d.parent {
		name = path.Join(d.name, name)
	}
	return name
}

func (d *Folder) Folder(name string) *Folder {
	var inner *Folder
	switch {
	case d == nil:
		return nil
	case d.root == nil:
		inner = liveFolder(d.fd, name)
	default:
		inner = rootedFolder(subtree(d.root, name))
	}
	if inner != nil {
		inner.parent, inner.name, inner.told = d, name, d.told
	}
	return inner
}

func rootedFolder(root *os.Root, err error) *Folder {
	if err != nil {
		return nil
	}
	return &Folder{root: root}
}

func (d *Folder) Close() {
	switch {
	case d == nil:
	case d.root == nil:
		unix.Close(d.fd)
	default:
		d.root.Close()
	}
}

// Text is a file's content and whether it could be read. At most a megabyte: topology files are lists and masks.
func (d *Folder) Text(name string) (string, bool) {
	const most = 1 << 20
	switch {
	case d == nil:
		return "", false
	case d.root == nil:
		text, err := readLive(d.fd, name, most)
		return text, err == nil
	}
	f, err := regular(d.root, name, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return "", false
	}
	return string(text), true
}

func (d *Folder) Line(name string) string {
	text, _ := d.Text(name)
	return strings.TrimSpace(text)
}

// Number is a file's integer, or otherwise where it cannot be read or is not one.
func (d *Folder) Number(name string, otherwise int) int {
	text := d.Line(name)
	n, err := strconv.Atoi(text)
	if err != nil {
		if d != nil {
			d.Malformed(name, "a number", text)
		}
		return otherwise
	}
	return n
}

// Mode is a file's permissions and whether there is such a file.
func (d *Folder) Mode(name string) (fs.FileMode, bool) {
	switch {
	case d == nil:
		return 0, false
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

// Target is the last element of a symbolic link's target; empty where there is none.
func (d *Folder) Target(name string) string {
	switch {
	case d == nil:
		return ""
	case d.root == nil:
		return linkAt(d.fd, name)
	}
	target, err := d.root.Readlink(name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// Names is the sorted names of the entries.
func (d *Folder) Names() []string {
	var f *os.File
	var err error
	switch {
	case d == nil:
		return nil
	case d.root == nil:
		f, err = openLive(d.fd, ".")
	default:
		f, err = d.root.Open(".")
	}
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}

// Entries is the sorted names in a directory below.
func (d *Folder) Entries(name string) []string {
	inner := d.Folder(name)
	defer inner.Close()
	return inner.Names()
}

// Numbered is the numbers of the entries named PREFIXn, sorted; others are left out.
func (d *Folder) Numbered(prefix string) []int {
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

// Links is how many links a directory has; 0 where the tree is recorded.
func (d *Folder) Links() uint64 {
	var stat unix.Stat_t
	if d.root != nil || unix.Fstat(d.fd, &stat) != nil {
		return 0
	}
	return uint64(stat.Nlink)
}
