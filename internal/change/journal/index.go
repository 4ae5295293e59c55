package journal

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mpps/internal/model/setting"
	"mpps/internal/owner"
)

// After years a directory holds thousands of transactions that are over: applied and rolled back, or failed and undone.
// The index notes which files these are, so that they need not be read. It is a cache: a note counts only for the very
// file that was read (size, times, inode), and an apply that may stand is read whatever is noted.

const (
	indexName = "index"
	// A reader of the index refuses another version, and reads the journals.
	indexSchema = "mpps.journal-index/1"
	maxIndex    = maxFiles * 256
	// enough is how many files must have been read in vain for the index to be written again.
	enough = 64
)

// identity changes with a file: every write, rename, chmod and chown sets its ctime.
type identity struct {
	size, mtime, ctime, inode int64 // bytes, nanoseconds since 1970
}

func identityOf(info fs.FileInfo) identity {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{size: stat.Size, mtime: stat.Mtim.Nano(), ctime: stat.Ctim.Nano(), inode: int64(stat.Ino)}
}

// note is the index's entry for a transaction that has ended: all that is needed of it if it is settled.
type note struct {
	tx    string
	of    string // rollback: the transaction that is undone
	state State  // by its own records
	file  identity
}

// apply is the apply that a transaction is, or undoes.
func (n note) apply() string { return cmp.Or(n.of, n.tx) }

// noteOf returns the note of a transaction, false if there is more to it than its end: a rollback is not complete, it
// left values that others needed, or what it replaced may still be in effect (Engine.Lingers of package apply).
func noteOf(t *Transaction) (note, bool) {
	n := note{tx: t.Header.TX, of: t.Header.Of, state: t.State(), file: t.file}
	if !t.ended || t.Torn > 0 {
		return n, false
	}
	if t.Header.Kind == Apply {
		return n, true
	}
	return n, n.state == Applied && !slices.ContainsFunc(t.Changes(), func(c Change) bool {
		return c.Reason == Needed || c.Address.Kind == setting.Domain || c.Address.Kind.FromBootLoader()
	})
}

// split separates noted transactions into the settled ones, and those that must be read: an apply that may stand, or to
// which one of the transactions in read belongs, each with its rollbacks. Both are in the order of noted.
func split(noted []note, read []*Transaction) (settled []note, open []string) {
	mustRead, undone := map[string]bool{}, make(map[string]bool, len(noted))
	for _, t := range read {
		mustRead[cmp.Or(t.Header.Of, t.Header.TX)] = true
	}
	for _, n := range noted {
		if n.of != "" || n.state == FailedUndone {
			undone[n.apply()] = true
		}
	}
	for _, n := range noted {
		if undone[n.apply()] && !mustRead[n.apply()] {
			settled = append(settled, n)
		} else {
			open = append(open, n.tx)
		}
	}
	return settled, open
}

// noted returns the notes of files that are as they were when they were read, and the names of all others.
func (d *Dir) noted(names []string) (noted []note, others []string, err error) {
	known := d.index()
	if len(known) == 0 {
		return nil, names, nil
	}
	dir, err := d.root.OpenRoot(Path)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	defer dir.Close()
	for _, name := range names {
		n, ok := known[name]
		if ok {
			info, err := dir.Lstat(name + suffix)
			ok = err == nil && info.Mode().IsRegular() && owner.Check(info) == nil && identityOf(info) == n.file
		}
		if ok {
			noted = append(noted, n)
		} else {
			others = append(others, name)
		}
	}
	return noted, others, nil
}

// index reads the index. One that is missing, damaged, of another version or not trusted is empty.
func (d *Dir) index() map[string]note {
	f, err := d.root.OpenFile(Path+"/"+indexName, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || owner.Check(info) != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil
	}
	return parseIndex(text)
}

// The index has a line for each note, and the sum of the rest in its first line.

func parseIndex(text []byte) map[string]note {
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(head) != indexHead(rest) {
		return nil
	}
	notes := make(map[string]note, bytes.Count(rest, []byte("\n")))
	for line := range strings.Lines(string(rest)) {
		n, err := parseNote(strings.Fields(line))
		if err != nil {
			return nil
		}
		notes[n.tx] = n
	}
	return notes
}

func parseNote(fields []string) (note, error) {
	if len(fields) != 7 {
		return note{}, fmt.Errorf("%d fields", len(fields))
	}
	var numbers [4]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(fields[3+i], 10, 64); err != nil {
			return note{}, err
		}
	}
	return note{tx: fields[0], of: strings.TrimPrefix(fields[1], "-"), state: State(fields[2]), file: identity{
		size: numbers[0], mtime: numbers[1], ctime: numbers[2], inode: numbers[3]}}, nil
}

func (n note) String() string {
	return fmt.Sprintf("%s %s %s %d %d %d %d\n", n.tx, cmp.Or(n.of, "-"), n.state, n.file.size, n.file.mtime,
		n.file.ctime, n.file.inode)
}

// indexHead includes the version of the journals: notes by a program of another version must not count.
func indexHead(rest []byte) string { return indexSchema + " " + Schema + " " + sum("", rest) }

// indexFile is a draft of the index, created before the files that it notes are read. File times advance in steps (a
// jiffy), so a file that is written after it was read may keep its times. But a file written after the draft was
// created has no earlier time than the draft: a note stays valid if its file's ctime is earlier.
type indexFile struct {
	dir  *Dir
	file *os.File
	name string
	made int64 // its ctime
}

// draftIndex begins a new index if that pays: enough files without a note are about to be read. It returns nil
// otherwise, or if this process cannot write it: the files are then read again the next time.
func (d *Dir) draftIndex(unnoted int) *indexFile {
	if !d.Indexed || unnoted < enough {
		return nil
	}
	var random [6]byte
	rand.Read(random[:]) // never fails
	x := &indexFile{dir: d, name: Path + "/" + indexDraft + hex.EncodeToString(random[:])}
	var err error
	if x.file, err = d.root.OpenFile(x.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return nil
	}
	info, err := x.file.Stat()
	if err != nil {
		x.remove()
		return nil
	}
	x.made = identityOf(info).ctime
	return x
}

func (x *indexFile) remove() {
	_ = errors.Join(x.file.Close(), x.dir.root.Remove(x.name)) // Sweep removes what is left
}

// write writes an index of the known notes and of those others that have ended; they were read after the draft was
// created.
func (x *indexFile) write(noted []note, others []*Transaction) {
	if x == nil {
		return
	}
	all := slices.Clone(noted)
	for _, t := range others {
		if n, ok := noteOf(t); ok && n.file.ctime < x.made {
			all = append(all, n)
		}
	}
	if len(all) < len(noted)+enough {
		x.remove()
		return
	}
	var rest bytes.Buffer
	for _, n := range all {
		rest.WriteString(n.String())
	}
	// No lock and no fsync: readers see one index or another, and refuse half of one.
	_, err := x.file.Write(append([]byte(indexHead(rest.Bytes())+"\n"), rest.Bytes()...))
	if err == nil {
		err = x.dir.root.Rename(x.name, Path+"/"+indexName)
	}
	if err != nil {
		x.remove()
		return
	}
	_ = x.file.Close() // it is only a cache
}

const indexDraft = indexName + "-"
