package host

import (
	"context"
	"sync"
	"syscall"
	"time"

	"mpps/internal/domain"
)

// definitions remembers parsed definitions, so that reading twenty values of each of 200 guests does not start virsh
// four thousand times. A remembered one counts only while libvirt's own file of it is the same: libvirt writes that
// anew with every change. Where that file cannot be seen nothing is remembered.
type definitions struct {
	lock  sync.Mutex // also of the documents: reading one fills its caches
	known map[string]definition
}

type definition struct {
	doc   *domain.Doc
	stamp stamp
}

// stamp tells two versions of a file apart.
type stamp struct {
	inode    uint64
	size     int64
	modified time.Time
}

func (m *Machine) stampOf(guest string) (stamp, bool) {
	info, err := m.root.Stat(definedFolder + "/" + guest + ".xml")
	if err != nil {
		return stamp{}, false
	}
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = system.Ino
	}
	return s, true
}

// remember keeps a definition that was read after the stamp was taken.
func (d *definitions) remember(guest string, doc *domain.Doc, s stamp) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.known == nil {
		d.known = map[string]definition{}
	}
	d.known[guest] = definition{doc, s}
}

// definedValue reads one value of a guest's persistent definition, from memory where that is still true.
func (m *Machine) definedValue(ctx context.Context, guest, path string) (value string, present bool, err error) {
	s, visible := m.stampOf(guest)
	m.definitions.lock.Lock()
	known, found := m.definitions.known[guest]
	if found && visible && known.stamp == s {
		defer m.definitions.lock.Unlock()
		return known.doc.Get(path)
	}
	m.definitions.lock.Unlock()

	l, err := m.libvirt()
	if err != nil {
		return "", false, err
	}
	text, err := l.definition(ctx, guest, false)
	if err != nil {
		return "", false, err
	}
	doc, err := domain.Parse([]byte(text))
	if err != nil {
		return "", false, err
	}
	value, present, err = doc.Get(path)
	if visible {
		m.definitions.remember(guest, doc, s)
	}
	return value, present, err
}
