package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mpps/internal/owner"
)

// The journal's directory, relative to the root directory.
const (
	Path   = "var/lib/mpps/journal"
	suffix = ".jsonl"
)

func fileName(tx string) string { return Path + "/" + tx + suffix }

// maxFiles bounds how many transactions a directory may hold.
const maxFiles = 100_000

// Dir is the journal of a machine.
type Dir struct {
	root *os.Root
	// Appended, if set, is called after each record is written, to report progress.
	Appended func(tx string, r Record)
	Clock    Clock
	// Indexed is whether the index is kept up to date. Open sets it for the machine's own root alone: nothing is
	// written to a recorded tree that is only looked at.
	Indexed bool

	read int // files, for tests
}

// Open opens the journal below a root directory. It creates nothing; the first transaction does.
func Open(root string) (*Dir, error) {
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("root directory of the journal: %w", err)
	}
	return &Dir{root: opened, Clock: SystemClock, Indexed: filepath.Clean(root) == "/"}, nil
}

// Close closes the root directory. A lock taken through it is released separately.
func (d *Dir) Close() error { return d.root.Close() }

// names lists the transactions, oldest first. It ignores files with other names.
func (d *Dir) names() ([]string, error) {
	if err := d.checkDirs(); err != nil {
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

// checkDirs refuses directories that anybody but root or this user can write.
func (d *Dir) checkDirs() error {
	for _, name := range []string{path.Dir(Path), Path} {
		info, err := d.root.Lstat(name)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if !info.IsDir() {
			return &Refused{File: "/" + name, Problem: fmt.Errorf("it is a %s, expected a directory", fileType(info)),
				hint: "see who made it, and move it away"}
		}
		if err := owner.Check(info); err != nil {
			return &Refused{File: "/" + name, Problem: err, hint: "see what others wrote there, then 'chown root' " +
				"and 'chmod 755' it"}
		}
	}
	return nil
}

func fileType(info fs.FileInfo) string {
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
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	d.read++
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
		return nil, &Refused{File: "/" + fileName(tx), Problem: err}
	}
	t.file = identityOf(info)
	return t, nil
}

// open opens a transaction's file. It must be a regular file that nobody else may write.
func (d *Dir) open(tx string, flags int) (*os.File, error) {
	if err := d.checkDirs(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s", ErrNoTransaction, tx)
		}
		return nil, err
	}
	name := fileName(tx)
	before, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoTransaction, tx)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if !before.Mode().IsRegular() {
		return nil, &Refused{File: "/" + name, Problem: fmt.Errorf("it is a %s, expected a file", fileType(before)),
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
		if wrong := owner.Check(info); wrong != nil {
			err = &Refused{File: "/" + name, Problem: wrong, hint: "compare its 'before' values with the machine; " +
				"believe it only after 'chown root' and 'chmod 644'"}
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
