package host

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/setting"
)

// folder is an open directory of the machine, for reading many small files below it: names are looked up from here
// instead of from the root, which costs one system call per element of the path.
type folder struct{ root *os.Root }

// folder opens a directory; nil where there is none. A nil folder reads as empty.
func (m *Machine) folder(name string) *folder {
	root, err := m.root.OpenRoot(name)
	if err != nil {
		return nil
	}
	return &folder{root}
}

func (d *folder) folder(name string) *folder {
	if d == nil {
		return nil
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil
	}
	return &folder{root}
}

func (d *folder) close() {
	if d != nil {
		d.root.Close()
	}
}

// text is a file's content and whether it could be read. At most a megabyte: topology files are lists and masks.
func (d *folder) text(name string) (string, bool) {
	if d == nil {
		return "", false
	}
	f, err := d.root.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
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
	n, err := strconv.Atoi(d.line(name))
	if err != nil {
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
	return m, err == nil
}

// list is a file's CPU list as a mask and whether there is a valid one.
func (d *folder) list(name string) (mask, bool) {
	text, ok := d.text(name)
	if !ok {
		return nil, false
	}
	set, err := setting.ParseCPUs(text)
	return maskOf(set), err == nil
}

// either is the first of a mask file and a list file that is there.
func (d *folder) either(maskName, listName string) (mask, bool) {
	if m, ok := d.mask(maskName); ok {
		return m, true
	}
	return d.list(listName)
}

// names is the sorted names of the entries.
func (d *folder) names() []string {
	if d == nil {
		return nil
	}
	f, err := d.root.Open(".")
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
