package libvirt

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/setting"
)

// Definitions caches parsed definitions, so that reading twenty values of each of 200 guests does not start virsh four
// thousand times. An entry is valid while libvirt's file of the guest is unchanged: libvirt rewrites it with every
// change. If that file cannot be read, nothing is cached.
type Definitions struct {
	lock  sync.Mutex // also for the documents: reading one fills its caches
	known map[string]definition
}

type definition struct {
	doc   *domain.Doc
	stamp stamp
}

// stamp identifies the version of a file.
type stamp struct {
	inode    uint64
	size     int64
	modified time.Time
}

func stampOf(m *tree.Tree, guest string) (stamp, bool) {
	info, err := m.Stat(DefinedFolder + "/" + guest + ".xml")
	if err != nil {
		return stamp{}, false
	}
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = system.Ino
	}
	return s, true
}

// remember caches a definition that was read after its stamp.
func (d *Definitions) remember(guest string, doc *domain.Doc, s stamp) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.known == nil {
		d.known = map[string]definition{}
	}
	d.known[guest] = definition{doc, s}
}

// value reads one value of a guest's persistent definition, from the cache if it is valid.
func (d *Definitions) value(ctx context.Context, m *tree.Tree, guest, path string) (setting.Reading, error) {
	s, visible := stampOf(m, guest)
	d.lock.Lock()
	known, found := d.known[guest]
	if found && visible && known.stamp == s {
		defer d.lock.Unlock()
		return valueIn(known.doc, path)
	}
	d.lock.Unlock()

	l, err := Open(m)
	if err != nil {
		return setting.Reading{}, err
	}
	text, err := l.definition(ctx, guest, false)
	if err != nil {
		return setting.Reading{}, err
	}
	doc, err := domain.Parse([]byte(text))
	if err != nil {
		return setting.Reading{}, err
	}
	reading, err := valueIn(doc, path)
	if visible {
		d.remember(guest, doc, s)
	}
	return reading, err
}

// canonicalIn returns a value of a document as a reading of a kind, and as it stands there; absent is the reason where
// it does not.
func canonicalIn(doc *domain.Doc, kind setting.Kind, path, absent string) (setting.Reading, string, error) {
	value, present, err := doc.Get(path)
	switch {
	case err != nil:
		return setting.Reading{}, "", err
	case !present:
		return setting.Missing(absent), "", nil
	}
	canonical, err := setting.Kinds[kind].Canonical(value)
	if err != nil {
		return setting.Reading{}, "", err
	}
	reading := setting.Value(canonical)
	reading.Verbatim = doc.Verbatim(path)
	return reading, value, nil
}

// valueIn returns one value of a definition.
func valueIn(doc *domain.Doc, path string) (setting.Reading, error) {
	reading, value, err := canonicalIn(doc, setting.Domain, path, "not in the definition")
	if err != nil || reading.State != setting.Known {
		return reading, err
	}
	if reading.Verbatim != "" && strings.HasPrefix(value, "<") {
		return reading, nil // only ever restored as it was
	}
	if _, err := doc.Check(path, value); err != nil {
		var unsettable *domain.PathError
		if errors.As(err, &unsettable) {
			reading.ReadOnly = true
			reading.Why = unsettable.Problem
		} else {
			reading.AsFound, reading.Why = true, "stands there, though it would be refused: "+err.Error()
		}
	}
	return reading, nil
}
