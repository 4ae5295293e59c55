package spaces

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/mdlayher/netlink"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
)

// Bounds: namespaces that are read, devices of each, files that are looked through for one, rounds from namespace to
// namespace, and the time of everything.
const (
	mostSpaces  = 512
	mostDevices = 1024
	mostFiles   = 8192
	mostRounds  = 4
	patience    = 3 * time.Second
)

// finder finds the namespaces of a host.
type finder struct {
	m     *tree.Tree
	h     *facts.Host
	until time.Time
	host  *space
	table []link.Device     // of the host
	read  []*space          // without the host's
	known map[uint64]*space // by ID, with the host's as 0
	files []string          // candidates; nil: not listed yet
	left  int               // that were not read: the bounds
}

// Inventory reads the network namespaces that guests' packets pass. Guests, links and Open vSwitch must have been read.
// A host whose guests have all their devices in its own namespace costs nothing.
func Inventory(_ context.Context, m *tree.Tree, h *facts.Host) {
	if !m.Live() || !slices.ContainsFunc(h.Guests, func(g facts.Guest) bool { return g.Active() }) || !leadsAway(h) {
		return
	}
	if !slices.ContainsFunc(h.Guests, elsewhere) && !slices.ContainsFunc(h.Guests, tapsElsewhere) &&
		len(lostPorts(h)) == 0 && len(reach.Of(h).Ends()) == 0 {
		return
	}
	host, err := open("/proc/thread-self/ns/net")
	if err != nil {
		tree.AddUnseen(h, "other network namespaces", err)
		return
	}
	f := &finder{m: m, h: h, until: time.Now().Add(patience), host: host}
	self := host.id
	host.id = 0
	f.known = map[uint64]*space{0: host, self: host}
	defer func() {
		for _, s := range append(f.read, host) {
			s.close()
		}
	}()
	if f.table, err = link.LinkTable(); err != nil {
		tree.AddUnseen(h, "other network namespaces", err)
		return
	}
	host.names = link.NamesOf(f.table)
	f.readGuests()
	f.readTaps()
	for range mostRounds {
		f.describe()
		if !f.follow() {
			break
		}
	}
	f.keep()
	f.findPrograms()
	if f.left > 0 {
		tree.Note(h, facts.Unseen{What: fmt.Sprintf("%d network namespaces", f.left), Why: fmt.Sprintf(
			"at most %d are read, for %s", mostSpaces, patience)})
	}
}

// leadsAway reports whether a guest, a link or a port of Open vSwitch leads to another network namespace.
func leadsAway(h *facts.Host) bool {
	return slices.ContainsFunc(h.Guests, elsewhere) || slices.ContainsFunc(h.Guests, tapsElsewhere) ||
		slices.ContainsFunc(h.Links, func(l facts.Link) bool { return l.Elsewhere }) ||
		slices.ContainsFunc(h.Tunnels, func(t facts.Tunnel) bool { return t.Elsewhere }) || len(lostPorts(h)) > 0
}

func elsewhere(g facts.Guest) bool { return g.Active() && g.Elsewhere && g.PID != 0 }

// tapsElsewhere reports whether a guest has a tap in a namespace that neither the host nor its QEMU is in.
func tapsElsewhere(g facts.Guest) bool {
	return g.Active() && slices.ContainsFunc(g.NICs(), func(i facts.Interface) bool { return i.TapNamespace != 0 })
}

// lostPorts returns the internal ports of Open vSwitch that the host has no device of: another namespace has it.
func lostPorts(h *facts.Host) (lost []string) {
	if !h.OpenVSwitch.Known() {
		return nil
	}
	here := map[string]bool{}
	for _, l := range h.Links {
		here[l.Name] = true
	}
	for b := range facts.Each(h.OpenVSwitch.Bridges) {
		for p := range facts.Each(b.Ports) {
			for i := range facts.Each(p.Interfaces) {
				if i.Type == "internal" && !here[i.Name] && b.Datapath != facts.UserDatapath && i.Error == "" {
					lost = append(lost, i.Name)
				}
			}
		}
	}
	return lost
}

// readGuests reads the namespaces that guests' QEMU runs in.
func (f *finder) readGuests() {
	names := map[uint64]string{}
	for i := range f.h.Guests {
		g := &f.h.Guests[i]
		if !elsewhere(*g) {
			continue
		}
		s, err := openQEMU(f.m, g)
		if err == nil && len(names) == 0 {
			names = f.namesByID()
		}
		if err == nil {
			s.name = names[s.id]
			g.Namespace, err = f.add(s)
		}
		if err != nil {
			tree.AddUnseen(f.h, "network namespace of guest "+g.Name, err)
		}
	}
}

// readTaps reads the namespaces of taps whose QEMU runs in another. One that no process is in and that has no name is
// not found.
func (f *finder) readTaps() {
	wanted := map[uint64]bool{}
	for i := range f.h.Guests {
		if !tapsElsewhere(f.h.Guests[i]) {
			continue
		}
		for _, nic := range f.h.Guests[i].NICs() {
			if nic.TapNamespace != 0 && f.known[nic.TapNamespace] == nil {
				wanted[nic.TapNamespace] = true
			}
		}
	}
	if len(wanted) == 0 {
		return
	}
	f.list()
	for _, file := range f.files {
		id, is := idOf(file)
		if !is || !wanted[id] {
			continue
		}
		delete(wanted, id)
		s, err := open(file)
		if err == nil {
			s.name = nameOf(file)
			_, err = f.add(s)
		}
		if err != nil {
			tree.AddUnseen(f.h, "network namespace "+file, err)
		}
	}
}

// list finds the files of namespaces, once.
func (f *finder) list() {
	if f.files == nil {
		f.files = append(named(f.m, mostFiles), ofProcesses(f.m, mostFiles)...)
	}
}

// namesByID returns the names of namespaces by their IDs.
func (f *finder) namesByID() map[uint64]string {
	names := map[uint64]string{0: ""}
	for _, file := range named(f.m, mostFiles) {
		if id, known := idOf(file); known && names[id] == "" {
			names[id] = path.Base(file)
		}
	}
	return names
}

// add reads an open namespace, which it closes if it was read before or cannot be, and returns its ID.
func (f *finder) add(s *space) (uint64, error) {
	if known := f.known[s.id]; known != nil {
		s.close()
		return known.id, nil
	}
	if len(f.read) == mostSpaces || time.Now().After(f.until) {
		f.left++
		s.close()
		return 0, nil
	}
	err := s.within(func(conn *netlink.Conn) (err error) {
		if s.there, err = link.ReadThere(f.m, mostDevices); err == nil {
			s.names = s.there.Names()
			f.resolve(s, conn)
		}
		return err
	})
	if err != nil {
		s.close()
		return 0, err
	}
	f.read = append(f.read, s)
	f.known[s.id] = s
	return s.id, nil
}

// resolve finds which of the known namespaces a namespace's devices lead to.
func (f *finder) resolve(s *space, conn *netlink.Conn) {
	wanted := map[int]bool{}
	for _, d := range s.there.Devices {
		if d.Space >= 0 {
			wanted[d.Space] = true
		}
	}
	for _, other := range append([]*space{f.host}, f.read...) {
		if len(wanted) == 0 || time.Now().After(f.until) {
			return
		}
		if number, err := link.NumberOf(conn, other.fd); err == nil && wanted[number] {
			s.numbers[number] = other.id
			delete(wanted, number)
		}
	}
}

// describe writes what was read into the facts.
func (f *finder) describe() {
	f.h.Namespaces = nil
	for _, s := range f.read {
		devices := s.there.Facts(func(number int) (uint64, map[int]string, bool) {
			id, known := s.numbers[number]
			if !known {
				return 0, nil, false
			}
			return id, f.known[id].names, true
		})
		for i := range devices {
			f.recognise(&devices[i])
		}
		f.h.Namespaces = append(f.h.Namespaces, facts.Namespace{ID: s.id, Name: s.name, PID: s.pid, Devices: devices,
			Routing: s.there.Routing, Cut: s.there.Cut})
	}
	slices.SortFunc(f.h.Namespaces, func(a, b facts.Namespace) int { return cmp.Compare(a.ID, b.ID) })
}

// recognise leaves the PCI address of a NIC's bus only: devices on others have names of other kinds.
func (f *finder) recognise(d *facts.Device) {
	if d.PCI != "" && !slices.ContainsFunc(f.h.VFs, func(v facts.VF) bool { return v.PCI == d.PCI }) &&
		!f.m.Exists(path.Join("sys/bus/pci/devices", d.PCI)) {
		d.PCI = ""
	}
}

// follow reads the namespaces that guests' paths lead to, and reports whether there were any.
func (f *finder) follow() bool {
	before := len(f.read)
	wanted := map[uint64][]int{} // numbers by the ID of the namespace that has them
	for _, end := range reach.Of(f.h).Ends() {
		if n := f.numberAt(end); n >= 0 && !slices.Contains(wanted[end.Namespace], n) {
			wanted[end.Namespace] = append(wanted[end.Namespace], n)
		}
	}
	lost := lostPorts(f.h)
	if len(wanted) == 0 && len(lost) == 0 {
		return false
	}
	f.list()
	for _, id := range slices.Sorted(maps.Keys(wanted)) { // the bounds cut off the same ones each time
		f.findNumbers(f.known[id], wanted[id])
	}
	f.findPorts(lost)
	return len(f.read) > before
}

// numberAt returns the number of the namespace that a device leads to, in the device's own; −1 if it is not known.
func (f *finder) numberAt(p facts.Place) int {
	s := f.known[p.Namespace]
	if s == nil {
		return -1
	}
	devices := f.table
	if s != f.host {
		devices = s.there.Devices
	}
	at := slices.IndexFunc(devices, func(d link.Device) bool { return d.Name == p.Device })
	if at < 0 {
		return -1
	}
	return devices[at].Space
}

// findNumbers reads those of the candidates that a namespace has these numbers for.
func (f *finder) findNumbers(from *space, numbers []int) {
	var found []*space
	err := from.within(func(conn *netlink.Conn) error {
		for _, file := range f.files {
			if len(numbers) == 0 || time.Now().After(f.until) {
				return nil
			}
			s, err := open(file)
			if err != nil {
				continue
			}
			number, err := link.NumberOf(conn, s.fd)
			at := slices.Index(numbers, number)
			if err != nil || number < 0 || at < 0 {
				s.close()
				continue
			}
			s.name = nameOf(file)
			from.numbers[number], numbers = s.id, slices.Delete(numbers, at, at+1)
			if known := f.known[s.id]; known != nil {
				from.numbers[number] = known.id
				s.close()
				continue
			}
			found = append(found, s)
		}
		return nil
	})
	if err != nil {
		tree.AddUnseen(f.h, "other network namespaces", err)
	}
	for _, s := range found {
		at := s.id
		if _, err := f.add(s); err != nil || f.known[at] == nil {
			for number, id := range from.numbers {
				if id == at {
					delete(from.numbers, number)
				}
			}
		}
	}
	if time.Now().After(f.until) { // else no process and no name leads there
		f.left += len(numbers)
	}
}

// findPorts reads the namespaces with a name that have internal ports of Open vSwitch.
func (f *finder) findPorts(ports []string) {
	for _, s := range f.read {
		ports = slices.DeleteFunc(ports, func(port string) bool { return s.hasPort(port) })
	}
	for _, file := range f.files {
		id, is := idOf(file)
		if len(ports) == 0 || nameOf(file) == "" || time.Now().After(f.until) {
			return
		}
		if !is || f.known[id] != nil {
			continue
		}
		s, err := open(file)
		if err != nil {
			continue
		}
		s.name = nameOf(file)
		if _, err := f.add(s); err == nil && f.known[id] == s {
			ports = slices.DeleteFunc(ports, func(port string) bool { return s.hasPort(port) })
		}
	}
}

func (s *space) hasPort(name string) bool {
	return slices.ContainsFunc(s.there.Devices, func(d link.Device) bool {
		return d.Name == name && d.Kind == "openvswitch"
	})
}
