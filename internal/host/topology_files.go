package host

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

	"mpps/internal/setting"
)

// folder is an open directory of the machine, for reading many small files below it: names are looked up from here
// instead of from the root. Of the live machine it is a bare descriptor (see live.go), of a recorded tree an os.Root,
// which links in the tree do not leave.
type folder struct {
	root *os.Root // nil on the live machine
	fd   int

	parent *folder   // nil at the top
	name   string    // in parent
	told   *[]string // where malformed files are told; nil: nowhere
}

// folder opens a directory; nil where there is none. A nil folder reads as empty.
func (m *Machine) folder(name string) *folder {
	var d *folder
	if m.straight(name) {
		d = liveFolder(unix.AT_FDCWD, "/"+name)
	} else {
		d = rootedFolder(subtree(m.root, name))
	}
	if d != nil {
		d.name = name
	}
	return d
}

// tell says where files are to be told of that are there and do not hold what the kernel writes into them: these read as
// if they were absent.
func (d *folder) tell(where *[]string) *folder {
	if d != nil {
		d.told = where
	}
	return d
}

// mostMalformed bounds what is told of one machine: a tree that holds nonsense in each of its files is told from fewer.
const mostMalformed = 64

func (d *folder) malformed(name, expected, text string) {
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

func (d *folder) path(name string) string {
	for ; d != nil; d = d.parent {
		name = path.Join(d.name, name)
	}
	return name
}

func (d *folder) folder(name string) *folder {
	var inner *folder
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

func rootedFolder(root *os.Root, err error) *folder {
	if err != nil {
		return nil
	}
	return &folder{root: root}
}

func (d *folder) close() {
	switch {
	case d == nil:
	case d.root == nil:
		unix.Close(d.fd)
	default:
		d.root.Close()
	}
}

// text is a file's content and whether it could be read. At most a megabyte: topology files are lists and masks.
func (d *folder) text(name string) (string, bool) {
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

func (d *folder) line(name string) string {
	text, _ := d.text(name)
	return strings.TrimSpace(text)
}

// number is a file's integer, or otherwise where it cannot be read or is not one.
func (d *folder) number(name string, otherwise int) int {
	text := d.line(name)
	n, err := strconv.Atoi(text)
	if err != nil {
		if d != nil {
			d.malformed(name, "a number", text)
		}
		return otherwise
	}
	return n
}

// bytes is a size with the kernel's unit letters (binary multiples), of a plain number times unit; 0 where there is
// none.
func (d *folder) bytes(name string, unit uint64) uint64 {
	text := d.line(name)
	for i, letter := range []string{"K", "M", "G"} {
		if rest, found := strings.CutSuffix(text, letter); found {
			text, unit = rest, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		if d != nil {
			d.malformed(name, "a size", text)
		}
		return 0
	}
	return n * unit
}

// mask is a file's CPU mask and whether there is a valid one.
func (d *folder) mask(name string) (mask, bool) {
	text, ok := d.text(name)
	if !ok {
		return nil, false
	}
	m, err := parseMask(text)
	if err != nil {
		d.malformed(name, "a CPU mask", text)
	}
	return m, err == nil
}

// list is a file's CPU list as a mask and whether there is a valid one.
func (d *folder) list(name string) (mask, bool) {
	text, ok := d.text(name)
	if !ok {
		return nil, false
	}
	text, _, _ = strings.Cut(text, "\x00") // which recordings of old kernels have at the end
	set, err := setting.ParseCPUs(text)
	if err != nil {
		d.malformed(name, "a list of CPUs or nodes", text)
	}
	return maskOf(set), err == nil
}

// either is the first of a mask file and a list file that is there.
func (d *folder) either(maskName, listName string) (mask, bool) {
	if m, ok := d.mask(maskName); ok {
		return m, true
	}
	return d.list(listName)
}

// mode is a file's permissions and whether there is such a file.
func (d *folder) mode(name string) (fs.FileMode, bool) {
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

// link is the last element of a symbolic link's target; empty where there is none.
func (d *folder) link(name string) string {
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

// names is the sorted names of the entries.
func (d *folder) names() []string {
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

// entries is the sorted names in a directory below.
func (d *folder) entries(name string) []string {
	inner := d.folder(name)
	defer inner.close()
	return inner.names()
}

// numbered is the numbers of the entries named PREFIXn, sorted; others are left out.
func (d *folder) numbered(prefix string) []int {
	var numbers []int
	for _, name := range d.names() {
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
