package libvirt

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// domains reads and writes values of guests' persistent definitions (setting.Domain).
type domains struct {
	machine *tree.Tree
	known   *Definitions
}

func (d domains) Read(ctx context.Context, a setting.Address) setting.Reading {
	reading, err := d.known.value(ctx, d.machine, a.Object(), a.Rest())
	switch {
	case errors.Is(err, errNoGuest), errors.Is(err, errNoLibvirt):
		return setting.NoObject(fmt.Sprintf("guest %s: %v", a.Object(), err))
	case err != nil:
		return setting.CouldNotTell(err.Error())
	}
	return reading
}

// Write edits the definition, gives the edited text to libvirt and reads it back. If libvirt made something else of it,
// it restores the former definition.
func (d domains) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	l, err := Open(d.machine)
	if err == nil {
		err = redefine(ctx, l, a.Object(), a.Rest(), to)
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	return nil
}

// redefine changes one value of a guest's definition.
func redefine(ctx context.Context, l driver, guest, path string, to setting.Reading) error {
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
	wanted, err := valueIn(doc, path)
	if err != nil {
		return err
	}
	if err := l.define(ctx, doc.String()); err != nil {
		if to.Verbatim == "" || errors.Is(err, setting.ErrInDoubt) {
			return err
		}
		// Its former address in the guest may be another device's by now: without it, libvirt assigns a new one.
		bare, other := domain.Parse([]byte(before))
		if other == nil {
			other = bare.Restore(path, to.Value, true)
		}
		if other != nil || l.define(ctx, bare.String()) != nil {
			return err
		}
	}
	after, err := l.definition(ctx, guest, false)
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	found := setting.Reading{}
	if doc, err = domain.Parse([]byte(after)); err == nil {
		found, err = valueIn(doc, path)
	}
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

// edit sets or removes a value of a document. Removing also removes what libvirt had added to it, such as the mode next
// to a nodeset, which libvirt refuses on its own. A former value is restored as it was even if it would be refused now.
func edit(doc *domain.Doc, path string, to setting.Reading) error {
	switch {
	case to.State == setting.Absent:
		return doc.Restore(path, "", false)
	case to.Verbatim != "":
		return doc.RestoreVerbatim(path, to.Value, to.Verbatim)
	case to.AsFound:
		return doc.Restore(path, to.Value, true)
	}
	return doc.Set(path, to.Value)
}

// threadPins reads and writes the affinity of guests' threads (setting.ThreadAffinity). It looks an address up each
// time, since threads come and go with the guest. It caches PIDs and TIDs only as the first to check.
type threadPins struct {
	machine   *tree.Tree
	lock      sync.Mutex
	processes map[string]trust.QEMU
	tids      map[threadKey]int
}

// threadKey is a vCPU or I/O thread of a process, by its index.
type threadKey struct {
	pid, number int
	role        string
}

func (t *threadPins) Read(ctx context.Context, a setting.Address) setting.Reading {
	thread, err := t.find(ctx, a)
	switch {
	case errors.Is(err, ErrNotRunning), errors.Is(err, errNoThread):
		return setting.Missing(err.Error())
	case err != nil:
		return setting.CouldNotTell(err.Error())
	case len(thread.Affinity) == 0:
		return setting.CouldNotTell(fmt.Sprintf("affinity of thread %d cannot be read", thread.TID))
	}
	return setting.Value(thread.Affinity.String())
}

func (t *threadPins) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if to.State != setting.Known {
		return a.Errorf("expected CPUs, found %s", to)
	}
	set, err := setting.ParseCPUs(to.Value)
	if err != nil {
		return a.Errorf("%w", err)
	}
	if !t.machine.Live() {
		return a.Errorf("%w", tree.ErrNotLive)
	}
	thread, err := t.find(ctx, a)
	if err != nil {
		return a.Errorf("%w", err)
	}
	if err := t.pin(ctx, a, thread, set); err != nil {
		return a.Errorf("%w%s", err, cpusetHint(t.machine, thread.TID, set))
	}
	return nil
}

// pin binds a thread to CPUs if, once it is held, the address still names it.
func (t *threadPins) pin(ctx context.Context, a setting.Address, thread facts.Thread, set setting.CPUSet) error {
	q, err := t.process(a.Object())
	if err != nil {
		return err
	}
	held, err := trust.Hold(t.machine, q.pid, thread.TID)
	if errors.Is(err, trust.ErrReplaced) && thread.Role == "vhost" { // before Linux 6.4
		held, _, err = trust.HoldKernelThread(t.machine, thread.TID)
	}
	if err != nil {
		return err
	}
	defer held.Close()
	now, err := t.find(ctx, a)
	if err == nil && now.TID != thread.TID {
		err = trust.ErrReplaced
	}
	if err != nil {
		return err
	}
	return held.Write(func(tid int) error { return threads.SetAffinity(tid, set) })
}

var (
	ErrNotRunning = errors.New("the guest does not run")
	errNoThread   = errors.New("the guest has no such thread")
)

// find returns the thread of an address: ROLE or ROLE/INDEX, for vhost workers vhost/NIC/QUEUE.
func (t *threadPins) find(ctx context.Context, a setting.Address) (facts.Thread, error) {
	q, err := t.process(a.Object())
	if err != nil {
		return facts.Thread{}, err
	}
	if thread, known := t.known(q, a); known {
		return thread, nil
	}
	all := func() []trust.Process { return trust.Processes(t.machine) }
	list := guestThreads(t.machine, q, all, nil)
	t.remember(q.pid, list)
	if slices.ContainsFunc(list, unmatched) {
		// The command line does not explain the vhost workers: NICs were plugged or unplugged since.
		if live := runningGuest(ctx, t.machine, q.name); live != nil {
			list = guestThreads(t.machine, q, all, live)
		}
	}
	return pickThread(list, a)
}

// known reads one thread from the cached TID and checks that it is the right one. A guest with 64 vCPUs has as many
// values, and listing its threads for each would read 64 times 70 files.
func (t *threadPins) known(q qemu, a setting.Address) (facts.Thread, bool) {
	role, number, _ := strings.Cut(a.Rest(), "/")
	tid := q.pid
	if role != "emulator" {
		n, err := strconv.Atoi(number)
		if err != nil {
			return facts.Thread{}, false
		}
		t.lock.Lock()
		var found bool
		tid, found = t.tids[threadKey{q.pid, n, role}]
		t.lock.Unlock()
		if !found {
			return facts.Thread{}, false
		}
	}
	text, err := t.machine.Read(fmt.Sprintf("proc/%d/task/%d/stat", q.pid, tid))
	if err != nil {
		return facts.Thread{}, false
	}
	one, err := trust.ParseStat(text)
	if err != nil {
		return facts.Thread{}, false
	}
	thread, err := pickThread([]facts.Thread{threads.FactOf(t.machine, one, q.pid)}, a)
	return thread, err == nil
}

// remember caches the TIDs of a process's vCPU and I/O threads.
func (t *threadPins) remember(pid int, list []facts.Thread) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.tids == nil {
		t.tids = map[threadKey]int{}
	}
	for _, thread := range list {
		if thread.Role == "vcpu" || thread.Role == "iothread" {
			t.tids[threadKey{pid, thread.Index, thread.Role}] = thread.TID
		}
	}
}

// process returns the QEMU process of a guest: the one that libvirt started for it, else the only one of that name.
// Processes that only have the name do not count.
func (t *threadPins) process(guest string) (qemu, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if p, known := t.processes[guest]; known && p.Same(t.machine) {
		if q, ok := readQEMU(t.machine, p); ok && q.doubt == "" && q.Title() == guest {
			return q, nil
		}
	}
	t.processes = map[string]trust.QEMU{}
	var matches []qemu
	unverified := ""
	for _, p := range trust.QEMUs(t.machine, trust.Processes(t.machine)) {
		q, ok := readQEMU(t.machine, p)
		switch {
		case !ok || q.Title() != guest:
		case q.doubt != "":
			unverified = fmt.Sprintf("; process %d only has its name: %s", p.PID, q.doubt)
		case q.libvirt:
			t.processes[guest] = p
			return q, nil
		default:
			t.processes[guest] = p
			matches = append(matches, q)
		}
	}
	switch len(matches) {
	case 0:
		return qemu{}, fmt.Errorf("%w: no QEMU process is named %s%s", ErrNotRunning, guest, unverified)
	case 1:
		return matches[0], nil
	}
	delete(t.processes, guest)
	return qemu{}, fmt.Errorf("%d QEMU processes are named %s", len(matches), guest)
}

func unmatched(t facts.Thread) bool { return t.Role == "vhost" && t.Sure == "" }

// runningGuest returns the definition that a guest runs with; nil if libvirt does not know it.
func runningGuest(ctx context.Context, m *tree.Tree, guest string) *domain.Guest {
	l, err := Open(m)
	if err != nil {
		return nil
	}
	text, err := l.running(ctx, guest)
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

// cpusetHint returns an explanation if a thread's cpuset has none of the given CPUs: libvirt puts vhost workers into
// the emulator's cpuset, which follows <emulatorpin>.
func cpusetHint(m *tree.Tree, tid int, set setting.CPUSet) string {
	mount, found := cpu.FindCpusets(m)
	if !found {
		return ""
	}
	name, found := cpu.CpusetOf(m, "proc/"+strconv.Itoa(tid))
	if !found {
		return ""
	}
	allowed := m.CPUs(path.Join(mount.Folder, path.Clean("/"+name), mount.CPUs))
	if len(allowed) == 0 || len(allowed.And(set)) > 0 {
		return ""
	}
	return fmt.Sprintf(" (its cpuset %s allows CPUs %s; libvirt sets that from emulatorpin, vcpupin and iothreadpin)",
		name, allowed)
}

// pickThread returns the thread of a guest that an address names.
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
	var unsure int
	for _, thread := range list {
		if thread.Role != role {
			continue
		}
		switch {
		case role == "emulator" && len(elements) == 1,
			(role == "vcpu" || role == "iothread") && len(elements) == 2 && thread.Index == number(1),
			role == "vhost" && len(elements) == 3 && thread.NIC == elements[1] && thread.Queue == number(2):
			return thread, nil
		case unmatched(thread):
			unsure++
		}
	}
	if unsure > 0 {
		return facts.Thread{}, fmt.Errorf("which of the %d vhost workers serves it cannot be determined", unsure)
	}
	return facts.Thread{}, fmt.Errorf("%w: %s", errNoThread, a.Rest())
}
