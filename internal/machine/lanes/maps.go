package lanes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"

	"mpps/internal/model/setting"
)

// name is a tap as requested: a device name or, the longest, a MAC address.
type name [24]byte

func nameOf(tap string) (n name) {
	copy(n[:], tap)
	return n
}

func (n name) String() string { return string(bytes.TrimRight(n[:], "\x00")) }

// entry is the requested window of a tap.
type entry struct{ Base, Count uint16 }

// maps are the two pinned maps of a NIC.
type maps struct{ windows, entries *ebpf.Map }

func (m *maps) close() {
	_ = m.windows.Close() // errors do not matter: the elements are written
	_ = m.entries.Close()
}

// Exists reports whether anything of mpps is attached to the NIC: its directory exists, or filters without one.
func (p Program) Exists() (bool, error) {
	if pinned, err := p.Pinned(); pinned || err != nil {
		return pinned, err
	}
	filters, err := filtersAt(p.NIC, nicSide)
	return slices.ContainsFunc(filters, p.ofNIC), err
}

// Pinned reports whether the NIC's directory exists. It is cheap. A directory of others is an error.
func (p Program) Pinned() (bool, error) {
	if err := p.owned(); err != nil {
		return false, err
	}
	_, err := os.Lstat(p.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// openMaps opens the maps; nil if one of them is missing.
func (p Program) openMaps() (*maps, error) {
	windows, err := openMap(filepath.Join(p.dir(), windowsPin))
	if windows == nil {
		return nil, err
	}
	entries, err := openMap(filepath.Join(p.dir(), entriesPin))
	if entries == nil {
		return nil, errors.Join(err, windows.Close())
	}
	return &maps{windows, entries}, nil
}

func openMap(pin string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pin, err)
	}
	return m, nil
}

// makeMaps creates the maps and pins them.
func (p Program) makeMaps(spec *ebpf.CollectionSpec) (m *maps, err error) {
	m = &maps{}
	if m.windows, err = ebpf.NewMap(spec.Maps[lanesMapWindows]); err != nil {
		return nil, loadError(err)
	}
	m.entries, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "mpps_entries", Type: ebpf.Hash, KeySize: uint32(len(name{})), ValueSize: 4,
		MaxEntries: spec.Maps[lanesMapWindows].MaxEntries,
	})
	if err != nil {
		return nil, errors.Join(loadError(err), m.windows.Close())
	}
	for pin, one := range map[string]*ebpf.Map{windowsPin: m.windows, entriesPin: m.entries} {
		if err := one.Pin(filepath.Join(p.dir(), pin)); err != nil {
			m.close()
			return nil, fmt.Errorf("pin the map %s: %w", pin, err)
		}
	}
	return m, nil
}

// requested returns the lanes as requested.
func (m *maps) requested() ([]setting.Lane, error) {
	var all []setting.Lane
	var n name
	var e entry
	for each := m.entries.Iterate(); ; {
		if !each.Next(&n, &e) {
			if err := each.Err(); err != nil {
				return nil, fmt.Errorf("read the lanes: %w", err)
			}
			return all, nil
		}
		all = append(all, setting.Lane{Tap: n.String(), Base: int(e.Base), Count: int(e.Count)})
	}
}

// store stores the requested lanes and removes all others.
func (m *maps) store(lanes []setting.Lane) error {
	wanted := map[string]bool{}
	for _, l := range lanes {
		wanted[l.Tap] = true
		if err := m.entries.Put(nameOf(l.Tap), entry{uint16(l.Base), uint16(l.Count)}); err != nil {
			return fmt.Errorf("note the lane %s: %w", l, err)
		}
	}
	noted, err := m.requested()
	if err != nil {
		return err
	}
	for _, l := range noted {
		if !wanted[l.Tap] {
			if err := m.entries.Delete(nameOf(l.Tap)); err != nil {
				return fmt.Errorf("take out the lane %s: %w", l, err)
			}
		}
	}
	return nil
}

func windowOf(d Device, l setting.Lane) lanesWindow {
	w := lanesWindow{Base: uint16(l.Base), Count: uint16(l.Count)}
	if d.Unrecorded {
		w.Unrecorded = 1
	}
	return w
}

// hasWindow reports whether the programs' map has the window of a lane.
func (m *maps) hasWindow(d Device, l setting.Lane) (bool, error) {
	var w lanesWindow
	err := m.windows.Lookup(uint32(d.Index), &w)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return w == windowOf(d, l), err
}

// setWindows sets the windows of devices. Each is replaced in one step: no frame sees half a window.
func (m *maps) setWindows(windows map[int]lanesWindow) error {
	for index, w := range windows {
		if err := m.windows.Put(uint32(index), w); err != nil {
			return fmt.Errorf("set the window of the device with index %d: %w", index, err)
		}
	}
	return nil
}

// deleteOtherWindows deletes the windows of all other devices.
func (m *maps) deleteOtherWindows(windows map[int]lanesWindow) error {
	var stale []uint32
	var index uint32
	var w lanesWindow
	each := m.windows.Iterate()
	for each.Next(&index, &w) {
		if _, wanted := windows[int(index)]; !wanted {
			stale = append(stale, index)
		}
	}
	err := each.Err()
	for _, index := range stale {
		err = errors.Join(err, m.windows.Delete(index))
	}
	return err
}
