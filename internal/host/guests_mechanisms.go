package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/setting"
)

// domains reads and writes values of the persistent definitions of guests (setting.Domain).
type domains struct{ machine *Machine }

func (d domains) Read(ctx context.Context, a setting.Address) setting.Reading {
	value, present, err := d.machine.definedValue(ctx, a.Object(), a.Rest())
	switch {
	case errors.Is(err, errNoGuest), errors.Is(err, errNoLibvirt):
		return setting.NoObject(fmt.Sprintf("guest %s: %v", a.Object(), err))
	case err != nil:
		return setting.CouldNotTell(err.Error())
	case !present:
		return setting.Missing("not in the definition of " + a.Object())
	}
	canonical, err := setting.Kinds[setting.Domain].Canonical(value)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return setting.Value(canonical)
}

// Write edits the definition and gives the edited text, no other, to libvirt; then it asks libvirt what it made of it.
// Where that is not what was wanted the definition that stood before is put back.
func (d domains) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	l, err := d.machine.libvirt()
	if err == nil {
		err = redefine(ctx, l, a.Object(), a.Rest(), to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// redefine changes one value of a guest's definition.
func redefine(ctx context.Context, l libvirt, guest, path string, to setting.Reading) error {
	if to.State == setting.Unknown {
		return errors.New("an unknown value cannot be written")
	}
	before, err := l.definition(ctx, guest, true)
	if err != nil {
		return err
	}
	doc, err := domain.Parse([]byte(before))
	if err != nil {
		return err
	}
	if name := doc.Guest().Name; name != guest {
		return fmt.Errorf("libvirt gave the definition of %q", name)
	}
	if err := edit(doc, path, to); err != nil {
		return err
	}
	if doc.String() == before {
		return nil
	}
	wanted, err := valueIn(doc.String(), path)
	if err != nil {
		return err
	}
	if err := l.define(ctx, doc.String()); err != nil {
		return err
	}
	after, err := l.definition(ctx, guest, false)
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	found, err := valueIn(after, path)
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	if found.Same(wanted) {
		return nil
	}
	refused := fmt.Errorf("wanted %s, but libvirt made it %s", wanted, found)
	if err := l.define(ctx, before); err != nil {
		return errors.Join(refused, fmt.Errorf("putting the definition back: %w", err))
	}
	return refused
}

// valueIn reads one value of a definition.
func valueIn(text, path string) (setting.Reading, error) {
	doc, err := domain.Parse([]byte(text))
	if err != nil {
		return setting.Reading{}, err
	}
	value, present, err := doc.Get(path)
	switch {
	case err != nil:
		return setting.Reading{}, err
	case !present:
		return setting.Missing("not in the definition"), nil
	}
	value, err = setting.Kinds[setting.Domain].Canonical(value)
	return setting.Value(value), err
}

// edit puts a value into a document or takes it out. A value that Set refuses because it would do nothing may still be
// one that stood there before: a rollback has to be able to put it back, so Restore is asked then, and libvirt has the
// last word.
func edit(doc *domain.Doc, path string, to setting.Reading) error {
	if to.State == setting.Absent {
		return doc.Delete(path)
	}
	if err := doc.Set(path, to.Value); err != nil {
		if doc.Restore(path, to.Value, true) != nil {
			return err
		}
	}
	return nil
}

// threads reads and writes the CPUs of guests' threads (setting.ThreadAffinity). Which thread an address means is
// found out anew each time: threads come and go with the guest.
type threads struct{ machine *Machine }

func (t threads) Read(_ context.Context, a setting.Address) setting.Reading {
	thread, err := t.find(a)
	switch {
	case errors.Is(err, errNotRunning), errors.Is(err, errNoThread):
		return setting.Missing(err.Error())
	case err != nil:
		return setting.CouldNotTell(err.Error())
	case len(thread.Affinity) == 0:
		return setting.CouldNotTell(fmt.Sprintf("affinity of thread %d cannot be read", thread.TID))
	}
	return setting.Value(thread.Affinity.String())
}

func (t threads) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	if to.State != setting.Known {
		return fmt.Errorf("%s: expected CPUs, found %s", a, to)
	}
	set, err := setting.ParseCPUs(to.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	if !t.machine.live {
		return fmt.Errorf("%s: %w", a, errNotLive)
	}
	thread, err := t.find(a)
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	if err := setAffinity(thread.TID, set); err != nil {
		return fmt.Errorf("%s: %w%s", a, err, t.machine.confined(thread.TID, set))
	}
	return nil
}

// confined says so where a thread's cpuset is why it cannot run on any of the given CPUs: libvirt puts vhost workers
// into the cpuset of the emulator, which follows its <emulatorpin>.
func (m *Machine) confined(tid int, set setting.CPUSet) string {
	mount, found := m.findCpusets()
	if !found {
		return ""
	}
	name, found := m.cpusetOf("proc/" + strconv.Itoa(tid))
	if !found {
		return ""
	}
	allowed := m.cpus(path.Join(mount.folder, path.Clean("/"+name), mount.cpus))
	if len(allowed) == 0 || len(allowed.And(set)) > 0 {
		return ""
	}
	return fmt.Sprintf(" (its cpuset %s allows CPUs %s; libvirt sets that from emulatorpin, vcpupin and iothreadpin)", name, allowed)
}

var (
	errNotRunning = errors.New("the guest does not run")
	errNoThread   = errors.New("the guest has no such thread")
)

// find is the thread that an address names: ROLE or ROLE/INDEX, of vhost workers vhost/NIC/QUEUE.
func (t threads) find(a setting.Address) (facts.Thread, error) {
	m := t.machine
	all := m.processes()
	for _, p := range all {
		if !isQEMU(p.comm) {
			continue
		}
		q, ok := m.readQEMU(p.pid)
		if !ok || q.name != a.Object() {
			continue
		}
		list := m.guestThreads(q, all, m.liveGuest(q, all))
		return pickThread(list, a)
	}
	return facts.Thread{}, fmt.Errorf("%w: no QEMU process is named %s", errNotRunning, a.Object())
}

// liveGuest is the running definition of a QEMU process, where the command line alone does not explain its vhost
// workers (NICs were plugged in or out since); nil where it does, or where libvirt does not know it.
func (m *Machine) liveGuest(q qemu, all []process) *domain.Guest {
	list := m.guestThreads(q, all, nil)
	for _, thread := range list {
		if thread.Role != "vhost" || thread.Sure != "" {
			continue
		}
		l, err := m.libvirt()
		if err != nil {
			return nil
		}
		text, err := l.running(context.Background(), q.name)
		if err != nil {
			return nil
		}
		doc, err := domain.Parse([]byte(text))
		if err != nil {
			return nil
		}
		live := doc.Guest()
		return &live
	}
	return nil
}

// pickThread is the thread of a guest that an address means.
func pickThread(list []facts.Thread, a setting.Address) (facts.Thread, error) {
	elements := strings.Split(a.Rest(), "/")
	role := elements[0]
	number := func(i int) int {
		if i >= len(elements) {
			return -1
		}
		n, err := strconv.Atoi(elements[i])
		if err != nil {
			return -1
		}
		return n
	}
	var unmatched int
	for _, thread := range list {
		if thread.Role != role {
			continue
		}
		switch {
		case role == "emulator" && len(elements) == 1,
			(role == "vcpu" || role == "iothread") && len(elements) == 2 && thread.Index == number(1),
			role == "vhost" && len(elements) == 3 && thread.NIC == elements[1] && thread.Queue == number(2):
			return thread, nil
		case role == "vhost" && thread.Sure == "":
			unmatched++
		}
	}
	if unmatched > 0 {
		return facts.Thread{}, fmt.Errorf("which of the %d vhost workers serves it cannot be told", unmatched)
	}
	return facts.Thread{}, fmt.Errorf("%w: %s", errNoThread, a.Rest())
}
