package journal

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
)

// Writer appends to one transaction. It is not safe for concurrent use.
type Writer struct {
	dir    *Dir
	file   *os.File
	tx     string
	seq    int
	size   int64
	sum    string
	ended  bool
	broken error // an append failed and its remains could not be removed: nothing more is appended
}

// Create begins a transaction: the header is on disk under the transaction's name when it returns. TX, Schema and
// Started are set here. The lock must be held; it is told the transaction.
func (d *Dir) Create(l *Lock, h Header) (*Writer, error) {
	if err := d.prepare(); err != nil {
		return nil, err
	}
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	last := ""
	if len(names) > 0 {
		last = names[len(names)-1]
	}
	now := time.Now()
	h.Schema, h.Started = Schema, now.UTC()
	if h.TX, err = newID(now, last); err != nil {
		return nil, err
	}
	if err := l.Serve(h.TX); err != nil {
		return nil, err
	}
	w := &Writer{dir: d, tx: h.TX}
	if err := w.begin(h); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return w, nil
}

// begin writes the header to a file of another name and renames it, so that no file of a transaction's name ever lacks
// its header.
func (w *Writer) begin(h Header) (err error) {
	line, chained, err := encodeLine(h, "")
	if err != nil {
		return err
	}
	name := Path + "/" + w.tx + suffix
	draft := Path + "/" + draftName
	f, err := w.dir.root.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			w.dir.root.Remove(draft)
		}
	}()
	if _, err = f.Write(line); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = w.dir.root.Rename(draft, name); err != nil {
		return err
	}
	if err = w.dir.sync(Path); err != nil {
		return err
	}
	w.file, w.sum, w.size = f, chained, int64(len(line))
	return nil
}

// draftName is the file in which a header is prepared. The lock keeps it to one writer; a dead one's is overwritten.
const draftName = "draft"

// Sweep removes what a process has left that died before its transaction began. The lock must be held.
func (d *Dir) Sweep() error {
	switch err := d.root.Remove(Path + "/" + draftName); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("journal: %w", err)
	}
	return d.sync(Path)
}

// prepare makes the directory, with its parents on disk.
func (d *Dir) prepare() error {
	made := ""
	for _, element := range strings.Split(Path, "/") {
		parent := made
		made = path.Join(made, element)
		err := d.root.Mkdir(made, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			err = d.sync(max(parent, "."))
		}
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return d.trusted()
}

// sync brings a directory's entries to disk.
func (d *Dir) sync(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ownerWrites is the permission that the file of a transaction loses when it has ended (Close). What a power cut leaves
// may stop anywhere; a file without it that does so was cut off later by somebody, and is refused.
const ownerWrites = 0o200

// Reopen continues a transaction, whose unfinished last line is removed. The lock must be held.
func (d *Dir) Reopen(l *Lock, tx string) (*Writer, *Transaction, error) {
	known, err := d.Load(tx)
	if err != nil {
		return nil, nil, err
	}
	if known.ended {
		if err := d.root.Chmod(Path+"/"+tx+suffix, 0o644); err != nil {
			return nil, nil, fmt.Errorf("journal: %w", err)
		}
	}
	f, err := d.open(tx, os.O_RDWR)
	if err != nil {
		return nil, nil, err
	}
	t, err := d.parse(tx, f)
	if err == nil {
		err = l.Serve(tx)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	w := &Writer{dir: d, file: f, tx: tx, seq: len(t.Records), size: int64(t.size), sum: t.sum, ended: t.ended}
	if t.Torn > 0 {
		if err := f.Truncate(w.size); err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("journal: %w", err)
		}
	}
	return w, t, nil
}

// TX is the transaction's name.
func (w *Writer) TX() string { return w.tx }

// Append writes one record; Seq and At are set here. Events that announce something are on disk when it returns. Where
// it fails the record is not in the file.
func (w *Writer) Append(r Record) error {
	if w.broken != nil {
		return w.broken
	}
	r.Seq, r.At = w.seq+1, time.Now().UTC()
	line, chained, err := encodeLine(r, w.sum)
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
	w.seq, w.sum, w.size = r.Seq, chained, w.size+int64(len(line))
	w.ended = w.ended || r.Event.ends()
	if w.dir.Appended != nil {
		w.dir.Appended(w.tx, r)
	}
	return nil
}

// Close ends the writing. The transaction ends with the record that says so, not with this; where it has, nobody is to
// write the file any more.
func (w *Writer) Close() error {
	err := w.file.Sync()
	if err == nil && w.ended {
		err = w.file.Chmod(0o444)
	}
	return errors.Join(err, w.file.Close())
}
