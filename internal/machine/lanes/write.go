package lanes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
)

// Write makes the lanes those that are asked for: no more and no others are attached. Where it fails what was attached
// before is attached again; but where taps alone cannot be attached (TapsError) all others have their lanes. Lanes
// whose tap is not there are noted: they count as in effect until the tap comes, and then have to be written again. No
// frame is lost on the way: programs are attached, replaced and detached between two frames, and a frame that finds
// only one of them goes the way that the kernel chooses.
func (p Program) Write(lanes []setting.Lane) error {
	if err := p.mounted(); err != nil {
		return err
	}
	if _, err := p.taps(lanes); err != nil {
		return err
	}
	before, there, err := p.noted()
	if err != nil {
		return err
	}
	if err := p.write(lanes); err != nil {
		if _, partly := errors.AsType[*TapsError](err); partly {
			return err
		}
		if !there {
			return errors.Join(err, p.Remove())
		}
		again := p.write(before)
		if _, partly := errors.AsType[*TapsError](again); again != nil && !partly {
			return errors.Join(err, fmt.Errorf("and what was attached before could not be attached again: %w", again))
		}
		return err
	}
	return nil
}

// noted are the lanes that were asked for last, and whether anything is there.
func (p Program) noted() ([]setting.Lane, bool, error) {
	there, err := p.Exists()
	if !there || err != nil {
		return nil, false, err
	}
	m, err := p.openMaps()
	if m == nil {
		return nil, true, err
	}
	defer m.close()
	lanes, err := m.recorded()
	return lanes, true, err
}

func (p Program) write(lanes []setting.Lane) error {
	m, programs, err := p.ready()
	if err != nil {
		return err
	}
	defer m.close()
	defer programs.Close()
	taps, err := p.taps(lanes)
	if err != nil {
		return err
	}
	windows := map[int]lanesWindow{}
	for _, l := range lanes {
		if d, there := taps[l.Tap]; there {
			windows[d.Index] = windowOf(d, l)
		}
	}
	// Windows come before those who read them, and the NIC's program before frames that have a lane.
	if err := errors.Join(m.open(windows), m.record(lanes)); err != nil {
		return err
	}
	if err := p.attach(programs.MppsLaneNic, p.NIC, nicSide); err != nil {
		return err
	}
	var problems []error
	for _, l := range lanes {
		d, there := taps[l.Tap]
		if !there {
			continue
		}
		switch err := p.attach(programs.MppsLaneTap, d, tapSide); {
		case errors.Is(err, unix.ENODEV): // gone a moment ago, with its guest
			delete(windows, d.Index)
			delete(taps, l.Tap)
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", l.Tap, err))
		}
	}
	if err := errors.Join(p.detachOthers(taps), m.shut(windows)); err != nil || len(problems) == 0 {
		return err
	}
	return &TapsError{errors.Join(problems...)}
}

// TapsError says which taps could not be attached, where all else is as it was asked for.
type TapsError struct{ Err error }

func (e *TapsError) Error() string { return e.Err.Error() }
func (e *TapsError) Unwrap() error { return e.Err }

// taps are the devices that are there of those that lanes name.
func (p Program) taps(lanes []setting.Lane) (map[string]Device, error) {
	taps, names := map[string]Device{}, map[int]string{}
	for _, l := range lanes {
		d, found := p.Find(l.Tap)
		if !found {
			continue
		}
		if other, twice := names[d.Index]; twice {
			return nil, fmt.Errorf("two lanes name %s: %s and %s", d.Name, other, l.Tap)
		}
		taps[l.Tap], names[d.Index] = d, l.Tap
	}
	return taps, nil
}

// ready opens the maps, or makes them, and loads the programs over them.
func (p Program) ready() (*maps, *lanesPrograms, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // before Linux 5.11 maps count as locked memory
		return nil, nil, fmt.Errorf("lift the limit of locked memory: %w", err)
	}
	spec, err := loadLanes()
	if err != nil {
		return nil, nil, err
	}
	others, err := p.others()
	if err != nil {
		return nil, nil, err
	}
	for _, dir := range others {
		if err := p.removeDir(dir); err != nil {
			return nil, nil, err
		}
	}
	m, err := p.openMaps()
	if err != nil {
		return nil, nil, err
	}
	if m == nil || !m.fits(spec) {
		if m != nil {
			m.close()
		}
		if err := p.Remove(); err != nil { // half of what is needed, by a write that was killed
			return nil, nil, err
		}
		if err := os.MkdirAll(p.dir(), 0o700); err != nil {
			return nil, nil, err
		}
		if m, err = p.makeMaps(spec); err != nil {
			return nil, nil, err
		}
	}
	programs := &lanesPrograms{}
	err = spec.LoadAndAssign(programs,
		&ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{lanesMapWindows: m.windows}})
	if err != nil {
		m.close()
		return nil, nil, loadError(err)
	}
	return m, programs, nil
}

// fits reports whether the maps are of the form that the programs here expect.
func (m *maps) fits(spec *ebpf.CollectionSpec) bool {
	return spec.Maps[lanesMapWindows].Compatible(m.windows) == nil && int(m.entries.KeySize()) == len(name{}) &&
		m.entries.ValueSize() == 4
}

// detachOthers takes the tap's program away from all devices but those that are to have it, and the pins of devices
// that are gone.
func (p Program) detachOthers(taps map[string]Device) error {
	pins, err := os.ReadDir(p.dir())
	if err != nil {
		return err
	}
	keep := map[int]bool{}
	wanted := map[string]bool{windowsPin: true, entriesPin: true, nicPin: true}
	for _, d := range taps {
		keep[d.Index], wanted[filepath.Base(p.pin(d, tapSide))] = true, true
	}
	var problems []error
	for _, pin := range pins {
		if !wanted[pin.Name()] {
			problems = append(problems, p.release(filepath.Join(p.dir(), pin.Name())))
		}
	}
	return errors.Join(append(problems, p.dropOthers(keep), p.dropFilters(p.NIC, nicSide, true))...)
}

// Remove takes away whatever any version of mpps has attached for the NIC. Frames that are on the way between the
// programs go the way that the kernel chooses; none is lost.
func (p Program) Remove() error {
	dirs, err := p.others()
	problems := []error{err, p.dropOthers(nil)}
	if p.NIC.Index > 0 {
		problems = append(problems, p.dropFilters(p.NIC, nicSide, false))
	}
	for _, dir := range append(dirs, p.dir()) {
		problems = append(problems, p.removeDir(dir))
	}
	// The directories above go with the last NIC's; another's are in them.
	above, err := filepath.Glob(filepath.Join(p.Root, "mpps", versionPrefix+"*"))
	problems = append(problems, err)
	for _, dir := range append(above, filepath.Join(p.Root, "mpps")) {
		_ = os.Remove(dir)
	}
	return errors.Join(problems...)
}

// removeDir removes a directory of pins: first the taps' links, so that no frame is given a lane any more, then the
// NIC's.
func (p Program) removeDir(dir string) error {
	pins, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	problems := []error{err}
	for _, tap := range []bool{true, false} {
		for _, pin := range pins {
			name := filepath.Join(dir, pin.Name())
			switch {
			case strings.HasPrefix(pin.Name(), tapPin) != tap:
			case tap || pin.Name() == nicPin:
				problems = append(problems, p.release(name))
			default:
				problems = append(problems, remove(name))
			}
		}
	}
	return errors.Join(append(problems, remove(dir))...)
}
