package journal

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
)

// Writer appends to a transaction. It is not safe for concurrent use.
type Writer struct {
	dir    *Dir
	file   *os.File
	tx     string
	seq    int
	size   int64
	sum    string
	ended  bool
	waits  bool  // to be confirmed
	broken error // an append failed and could not be cut off: nothing more is appended
}

// Create begins a transaction. When it returns, the header is on disk under the transaction's name. It sets TX, Schema
// and Started. The lock must be held, and names the transaction from then on. Create fails unless the disk has h.Room.
func (d *Dir) Create(l *Lock, h Header) (*Writer, error) {
	if err := d.makeDir(); err != nil {
		return nil, err
	}
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	last := ""
	if len(names) > 0 {
		last = names[len(names)-1]
	} else if err := d.syncParents(); err != nil {
		return nil, err
	}
	now := d.Clock.Now()
	h.Schema, h.TX, h.Started = Schema, newID(now, last), now.UTC()
	if err := l.setTX(h.TX); err != nil {
		return nil, err
	}
	w := &Writer{dir: d, tx: h.TX}
	if err := w.create(h); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return w, nil
}

// create writes the header to a draft and renames it, so that no transaction's file ever lacks its header.
func (w *Writer) create(h Header) (err error) {
	line, lineSum, err := encodeLine(h, "")
	if err != nil {
		return err
	}
	draft, flags := Path+"/"+draftName, os.O_RDWR|os.O_CREATE
	if !w.dir.claim(h.Of) {
		flags |= os.O_TRUNC
	}
	f, err := w.dir.root.OpenFile(draft, flags, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			w.dir.root.Remove(draft)
		}
	}()
	if err = w.reserve(f, h.Room); err != nil {
		return err
	}
	defer func() {
		if err != nil && h.Room > 0 {
			err = errors.Join(err, w.dir.Unreserve(w.tx))
		}
	}()
	if _, err = f.Write(line); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = w.dir.root.Rename(draft, fileName(w.tx))
	}
	if err == nil {
		err = w.dir.sync(Path)
	}
	if err != nil {
		return err
	}
	w.file, w.sum, w.size = f, lineSum, int64(len(line))
	return nil
}

// draftName is the file for preparing a header. The lock limits it to one writer; a leftover draft is overwritten.
const draftName = "draft"

// Sweep removes files of processes that died before their transaction began. The lock must be held.
func (d *Dir) Sweep() error {
	var problems []error
	for _, name := range d.orphans() {
		problems = append(problems, d.root.Remove(name))
	}
	draft := Path + "/" + draftName
	if _, err := d.root.Lstat(draft); err == nil { // a read-only file system refuses to remove even what is not there
		problems = append(problems, d.root.Remove(draft), d.sync(Path))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// makeDir creates the directory.
func (d *Dir) makeDir() error {
	made := ""
	for _, element := range strings.Split(Path, "/") {
		made = path.Join(made, element)
		err := d.root.Mkdir(made, 0o755)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return d.checkDirs()
}

// syncParents flushes the entries of the directory and those above it: a process that died may have created them.
func (d *Dir) syncParents() error {
	for name := path.Dir(Path); ; name = path.Dir(name) {
		if err := d.sync(name); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if name == "." {
			return nil
		}
	}
}

// sync flushes a directory's entries to disk.
func (d *Dir) sync(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ownerWrites is the permission that Close removes from the file of a transaction that has ended. After a power cut a
// file may stop anywhere; a file without this permission that stops in the middle was truncated later, and is refused.
const ownerWrites = 0o200

// Reopen continues a transaction and removes its unfinished last line. The lock must be held.
func (d *Dir) Reopen(l *Lock, tx string) (*Writer, *Transaction, error) {
	known, err := d.Load(tx)
	if err != nil {
		return nil, nil, err
	}
	if known.ended {
		if err := d.root.Chmod(fileName(tx), 0o644); err != nil {
			return nil, nil, fmt.Errorf("journal: %w", err)
		}
	}
	f, err := d.open(tx, os.O_RDWR)
	if err != nil {
		return nil, nil, err
	}
	t, err := d.parse(tx, f)
	if err == nil {
		err = l.setTX(tx)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	w := &Writer{dir: d, file: f, tx: tx, seq: len(t.Records), size: int64(t.size), sum: t.sum, ended: t.ended}
	if c := t.Confirmation(); c.Armed && !c.Confirmed {
		w.waits = true
	}
	if t.Torn > 0 {
		if err := f.Truncate(w.size); err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("journal: %w", err)
		}
	}
	return w, t, nil
}

func (w *Writer) TX() string { return w.tx }

// Append writes a record and sets Seq and At. Events that announce something are on disk when it returns. If it fails,
// the record is not in the file.
func (w *Writer) Append(r Record) error {
	if w.broken != nil {
		return w.broken
	}
	r.Seq, r.At = w.seq+1, w.dir.Clock.Now().UTC()
	if r.Event == Committed && w.waits {
		r.Up = w.dir.Clock.Up().Seconds()
	}
	line, lineSum, err := encodeLine(r, w.sum)
	if err != nil {
		return fmt.Errorf("journal %s: %w", w.tx, err)
	}
	if len(line) > maxLine || w.size+int64(len(line)) > maxFile {
		return fmt.Errorf("journal %s: record of %d bytes in a file of %d: expected at most %d and %d", w.tx, len(line),
			w.size, maxLine, maxFile)
	}
	_, err = w.file.WriteAt(line, w.size)
	if err == nil && r.Event.synced() {
		err = w.file.Sync()
	}
	if err != nil {
		err = fmt.Errorf("journal %s: %w", w.tx, err)
		if cut := w.file.Truncate(w.size); cut != nil {
			w.broken = errors.Join(err, cut)
		}
		return err
	}
	w.seq, w.sum, w.size = r.Seq, lineSum, w.size+int64(len(line))
	w.ended = w.ended || r.Event.ends()
	switch r.Event {
	case ConfirmArmed:
		w.waits = true
	case Confirmed, RolledBack:
		w.waits = false
	}
	if w.dir.Appended != nil {
		w.dir.Appended(w.tx, r)
	}
	return nil
}

// Close closes the file. The final record ends the transaction, not Close; after that record the file becomes
// read-only, and gives back the blocks that it did not need. One that waits to be confirmed keeps them.
func (w *Writer) Close() error {
	err := w.file.Sync()
	if err == nil && w.ended {
		err = w.file.Chmod(0o444)
	}
	if err == nil && w.ended && !w.waits {
		err = w.file.Truncate(w.size)
	}
	return errors.Join(err, w.file.Close())
}
