package lanes

import (
	"cmp"
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

// Write sets the lanes: exactly those are attached. On an error it restores the former ones, except if only some taps
// could not be attached (TapsError): then all others have their lanes. Lanes whose tap does not exist are recorded:
// they count as in effect until the tap appears, and must then be written again. No frame is lost: programs are
// attached, replaced and detached between two frames, and a frame that passes only one of them uses the queue that the
// kernel selects.
func (p Program) Write(lanes []setting.Lane) error {
	if err := cmp.Or(p.mounted(), p.owned()); err != nil {
		return err
	}
	if _, err := p.findTaps(lanes); err != nil {
		return err
	}
	before, there, err := p.requested()
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

// requested returns the lanes requested last, and whether anything of mpps is attached.
func (p Program) requested() ([]setting.Lane, bool, error) {
	there, err := p.Exists()
	if !there || err != nil {
		return nil, false, err
	}
	m, err := p.openMaps()
	if m == nil {
		return nil, true, err
	}
	defer m.close()
	lanes, err := m.requested()
	return lanes, true, err
}

func (p Program) write(lanes []setting.Lane) error {
	m, programs, err := p.load()
	if err != nil {
		return err
	}
	defer m.close()
	defer programs.Close()
	taps, err := p.findTaps(lanes)
	if err != nil {
		return err
	}
	windows := map[int]lanesWindow{}
	for _, l := range lanes {
		if d, there := taps[l.Tap]; there {
			windows[d.Index] = windowOf(d, l)
		}
	}
	// Windows come before the programs that read them, and the NIC's program before frames with a lane.
	if err := errors.Join(m.setWindows(windows), m.store(lanes)); err != nil {
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
		case errors.Is(err, unix.ENODEV): // it has just disappeared with its guest
			delete(windows, d.Index)
			delete(taps, l.Tap)
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", l.Tap, err))
		}
	}
	if err := errors.Join(p.detachOthers(taps), m.deleteOtherWindows(windows)); err != nil || len(problems) == 0 {
		return err
	}
	return &TapsError{errors.Join(problems...)}
}

// TapsError lists taps that could not be attached; everything else is as requested.
type TapsError struct{ Err error }

func (e *TapsError) Error() string { return e.Err.Error() }
func (e *TapsError) Unwrap() error { return e.Err }

// findTaps returns the existing devices of lanes, by the name in the lane. Two lanes for one device are an error.
func (p Program) findTaps(lanes []setting.Lane) (map[string]Device, error) {
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

// load opens or creates the maps and loads the programs that use them. It removes other versions.
func (p Program) load() (*maps, *lanesPrograms, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // before Linux 5.11 maps count as locked memory
		return nil, nil, fmt.Errorf("lift the limit of locked memory: %w", err)
	}
	spec, err := loadLanes()
	if err != nil {
		return nil, nil, err
	}
	others, err := p.otherVersions()
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
		if err := p.Remove(); err != nil { // incomplete, left by a killed write
			return nil, nil, err
		}
		// Another may have made one of them meanwhile.
		if err := cmp.Or(os.MkdirAll(p.dir(), 0o700), p.owned()); err != nil {
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

// fits reports whether the maps have the form that these programs expect.
func (m *maps) fits(spec *ebpf.CollectionSpec) bool {
	return spec.Maps[lanesMapWindows].Compatible(m.windows) == nil && int(m.entries.KeySize()) == len(name{}) &&
		m.entries.ValueSize() == 4
}

// detachOthers detaches the tap's program from all devices but the given taps, and removes the pins of devices that are
// gone.
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

// Remove removes everything that any version of mpps has attached for the NIC. Frames between the two programs use the
// queue that the kernel selects; none is lost.
func (p Program) Remove() error {
	dirs, err := p.otherVersions()
	problems := []error{err, p.dropOthers(nil)}
	if p.NIC.Index > 0 {
		problems = append(problems, p.dropFilters(p.NIC, nicSide, false))
	}
	for _, dir := range append(dirs, p.dir()) {
		problems = append(problems, p.removeDir(dir))
	}
	// Removes the directories above if this was the last NIC.
	above, err := filepath.Glob(filepath.Join(p.Root, "mpps", versionPrefix+"*"))
	problems = append(problems, err)
	for _, dir := range append(above, filepath.Join(p.Root, "mpps")) {
		_ = os.Remove(dir)
	}
	return errors.Join(problems...)
}

// removeDir removes a directory of pins: first the taps' links, so that no frame gets a lane any more, then the NIC's.
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
