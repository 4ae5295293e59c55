package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Where a machine's journal lies, below its root directory.
const (
	Path   = "var/lib/mpps/journal"
	suffix = ".jsonl"
)

// maxFiles bounds how many transactions a directory may hold.
const maxFiles = 100_000

// Dir is the journal of one machine.
type Dir struct {
	root *os.Root
	// Appended, where set, is called for every record after it has been written: progress for people.
	Appended func(tx string, r Record)
}

// Open opens the journal below a root directory. Nothing is created before the first transaction.
func Open(root string) (*Dir, error) {
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("root directory of the journal: %w", err)
	}
	return &Dir{root: opened}, nil
}

// Close releases the root directory. A lock that was taken from it is released on its own.
func (d *Dir) Close() error { return d.root.Close() }

// names lists the transactions, oldest first. Files of other names are nobody's business.
func (d *Dir) names() ([]string, error) {
	if err := d.trusted(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	dir, err := d.root.Open(Path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if len(entries) > maxFiles {
		return nil, &Refused{File: "/" + Path, Problem: fmt.Errorf("more than %d files", maxFiles),
			hint: "move old ones away"}
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry, suffix); ok && idForm.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// trusted reports whether only the owner of this machine can write in the directory.
func (d *Dir) trusted() error {
	for _, name := range []string{path.Dir(Path), Path} {
		info, err := d.root.Lstat(name)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if !info.IsDir() {
			return &Refused{File: "/" + name, Problem: fmt.Errorf("it is a %s, expected a directory", what(info)),
				hint: "see who made it, and move it away"}
		}
		if err := owned(info); err != nil {
			return &Refused{File: "/" + name, Problem: err, hint: "see what others wrote there, then 'chown root' " +
				"and 'chmod 755' it"}
		}
	}
	return nil
}

// owned reports whether a file is root's or our own and nobody else may write it.
func owned(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner cannot be told")
	}
	if uid := int(stat.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, expected %d", uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others than its owner may write it (mode %04o)", mode)
	}
	return nil
}

func what(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode.IsDir():
		return "directory"
	case mode.IsRegular():
		return "file"
	}
	return "special file"
}

// Load reads one transaction.
func (d *Dir) Load(tx string) (*Transaction, error) {
	if !idForm.MatchString(tx) {
		return nil, fmt.Errorf("%w: %q", ErrNoTransaction, tx)
	}
	f, err := d.open(tx, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return d.parse(tx, f)
}

func (d *Dir) parse(tx string, f *os.File) (*Transaction, error) {
	name := Path + "/" + tx + suffix
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	t, err := Parse(text)
	switch {
	case err != nil:
	case t.Header.TX != tx:
		err = fmt.Errorf("it holds the transaction %s", t.Header.TX)
	case info.Mode().Perm()&ownerWrites == 0 && !t.ended:
		err = fmt.Errorf("truncated: it was complete, and ends after %d records now", len(t.Records))
	}
	if err != nil {
		return nil, &Refused{File: "/" + name, Problem: err}
	}
	return t, nil
}

// open opens a transaction's file, which must be a file that nobody else may write.
func (d *Dir) open(tx string, flags int) (*os.File, error) {
	if err := d.trusted(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s", ErrNoTransaction, tx)
		}
		return nil, err
	}
	name := Path + "/" + tx + suffix
	before, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoTransaction, tx)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if !before.Mode().IsRegular() {
		return nil, &Refused{File: "/" + name, Problem: fmt.Errorf("it is a %s, expected a file", what(before)),
			hint: "see who made it, and move it away"}
	}
	f, err := d.root.OpenFile(name, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(before, info):
		err = &Refused{File: "/" + name, Problem: errors.New("it was replaced while it was opened")}
	default:
		if owner := owned(info); owner != nil {
			err = &Refused{File: "/" + name, Problem: owner, hint: "compare its 'before' values with the machine; " +
				"believe it only after 'chown root' and 'chmod 644'"}
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
