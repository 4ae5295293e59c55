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

// name is a tap as it was asked for, or nothing for what is noted of the NIC. The longest is a MAC address.
type name [24]byte

func nameOf(tap string) (n name) {
	copy(n[:], tap)
	return n
}

func (n name) String() string { return string(bytes.TrimRight(n[:], "\x00")) }

// entry is the window of a tap as it was asked for.
type entry struct{ Base, Count uint16 }

// maps are the two pinned maps of a NIC.
type maps struct{ windows, entries *ebpf.Map }

func (m *maps) close() {
	_ = m.windows.Close() // a descriptor that was only used for reading and writing elements
	_ = m.entries.Close()
}

// Exists reports whether anything of mpps is attached to the NIC: its directory is there, or filters without one.
func (p Program) Exists() (bool, error) {
	if pinned, err := p.Pinned(); pinned || err != nil {
		return pinned, err
	}
	filters, err := filtersAt(p.NIC, nicSide)
	return slices.ContainsFunc(filters, p.ofNIC), err
}

// Pinned reports whether the NIC's directory is there, which costs no more than a look.
func (p Program) Pinned() (bool, error) {
	_, err := os.Lstat(p.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// openMaps opens the maps; nil where one of them is missing.
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

// makeMaps makes the maps and pins them.
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

// recorded are the lanes as they were asked for.
func (m *maps) recorded() ([]setting.Lane, error) {
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

// record makes the lanes those that are asked for.
func (m *maps) record(lanes []setting.Lane) error {
	wanted := map[string]bool{}
	for _, l := range lanes {
		wanted[l.Tap] = true
		if err := m.entries.Put(nameOf(l.Tap), entry{uint16(l.Base), uint16(l.Count)}); err != nil {
			return fmt.Errorf("note the lane %s: %w", l, err)
		}
	}
	noted, err := m.recorded()
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

// holds reports whether the programs have the window of a lane.
func (m *maps) holds(d Device, l setting.Lane) (bool, error) {
	var w lanesWindow
	err := m.windows.Lookup(uint32(d.Index), &w)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return w == windowOf(d, l), err
}

// open gives windows to devices. What a device had is replaced in one step: no frame sees half a window.
func (m *maps) open(windows map[int]lanesWindow) error {
	for index, w := range windows {
		if err := m.windows.Put(uint32(index), w); err != nil {
			return fmt.Errorf("set the window of the device with index %d: %w", index, err)
		}
	}
	return nil
}

// shut takes the windows of all other devices away.
func (m *maps) shut(windows map[int]lanesWindow) error {
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
