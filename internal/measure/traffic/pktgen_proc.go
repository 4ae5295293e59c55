package traffic

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// pktgenDir is /proc/net/pktgen of a network namespace: pgctrl, one file for each CPU's thread, and one for each device
// entry.
type pktgenDir struct {
	root *os.Root
	in   Endpoint // pgctrl acts on the namespace of the writing thread, however it was opened (pgctrl_write)
}

// openPktgen opens the directory. /proc/net is that of the process's main thread, so it uses the calling thread's.
func openPktgen(e Endpoint) (d *pktgenDir, err error) {
	err = e.Do(func() error {
		root, err := os.OpenRoot("/proc/thread-self/net/pktgen")
		if errors.Is(err, fs.ErrNotExist) {
			return &UnsupportedError{What: "pktgen", Answer: No, Err: ErrNoPktgen}
		}
		if err != nil {
			return fmt.Errorf("pktgen: %w", err)
		}
		d = &pktgenDir{root: root, in: e}
		return nil
	})
	return d, err
}

// PktgenLoaded reports whether the kernel's packet generator is loaded and may be used in an endpoint's namespace.
func PktgenLoaded(e Endpoint) bool {
	d, err := openPktgen(e)
	return err == nil && d.close() == nil
}

func (d *pktgenDir) close() error { return d.root.Close() }

// enotsupp is the kernel's internal ENOTSUPP (include/linux/errno.h), which has no name in user space.
const enotsupp = syscall.Errno(524)

// errShare is what enotsupp means for pktgen.
var errShare = errors.New("the device does not take the same frame twice, as a veth does not (IFF_TX_SKB_SHARING): " +
	"without clones and bursts it works")

// write writes a line to a file.
func (d *pktgenDir) write(file, line string) error {
	err := d.in.Do(func() error {
		f, err := d.root.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line + "\n")
		return errors.Join(err, f.Close())
	})
	if errors.Is(err, enotsupp) || errors.Is(err, unix.EOPNOTSUPP) {
		return errShare
	}
	return err
}

// claim makes sure that nothing else uses pktgen in this namespace, because start and stop act on all devices at once.
// It removes the entries of dead mpps processes.
func (d *pktgenDir) claim() error {
	return d.each(func(thread string, names []string) error {
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			pid := pktgenOwner(name)
			if pid == 0 {
				return fmt.Errorf("pktgen is in use: %s has %s; echo rem_device_all > /proc/net/pktgen/%s when "+
					"nobody needs it", thread, name, thread)
			}
			if err := unix.Kill(pid, 0); pid == os.Getpid() || err == nil || errors.Is(err, unix.EPERM) {
				return fmt.Errorf("pktgen is in use: %s has %s of process %d", thread, name, pid)
			}
		}
		return d.write(thread, "rem_device_all")
	})
}

// checkExclusive makes sure that only our entries exist.
func (d *pktgenDir) checkExclusive(ours []string) error {
	return d.each(func(thread string, names []string) error {
		for _, name := range names {
			if !slices.Contains(ours, name) {
				return fmt.Errorf("pktgen is in use: somebody has added %s to %s meanwhile", name, thread)
			}
		}
		return nil
	})
}

// clear removes our entries from a thread. pktgen can only remove all entries of a thread at once, so it leaves ours if
// there are others.
func (d *pktgenDir) clear(thread string, ours []string) error {
	text, err := d.root.ReadFile(thread)
	if err != nil {
		return err
	}
	names := threadDevices(string(text))
	for _, name := range names {
		if !slices.Contains(ours, name) {
			return fmt.Errorf("pktgen: left %s on %s, because %s, which is somebody else's, would go with it",
				strings.Join(ours, ", "), thread, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := d.write(thread, "rem_device_all"); err != nil {
		return fmt.Errorf("pktgen: remove %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// each calls f for each thread with its devices.
func (d *pktgenDir) each(f func(thread string, names []string) error) error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("pktgen: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "kpktgend_") {
			continue
		}
		text, err := d.root.ReadFile(e.Name())
		if err != nil {
			return fmt.Errorf("pktgen: %w", err)
		}
		if err := f(e.Name(), threadDevices(string(text))); err != nil {
			return err
		}
	}
	return nil
}

// threadDevices returns the device entries in a thread's file.
func threadDevices(text string) []string {
	return append(threadList(text, "Running"), threadList(text, "Stopped")...)
}

// threadList returns one of the lists in a thread's file.
func threadList(text, key string) (names []string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			names = append(names, strings.Fields(rest)...)
		}
	}
	return names
}

// runs reports whether a device of a thread is running.
func (d *pktgenDir) runs(thread, name string) (bool, error) {
	text, err := d.root.ReadFile(thread)
	return slices.Contains(threadList(string(text), "Running"), name), err
}

// pktgenState are the counters of a device entry.
type pktgenState struct {
	sofar, errors    uint64 // frames sent, and refused by the device
	started, stopped uint64 // µs of the monotonic clock; stopped is now while it runs
}

// parsePktgenState reads a device's file.
func parsePktgenState(text string) (s pktgenState, err error) {
	fields := strings.Fields(text)
	want := map[string]*uint64{
		"pkts-sofar:": &s.sofar, "errors:": &s.errors, "started:": &s.started, "stopped:": &s.stopped}
	found := 0
	for i := 0; i+1 < len(fields) && fields[i] != "Result:"; i++ { // Result repeats some for people
		to := want[fields[i]]
		if to == nil {
			continue
		}
		if *to, err = strconv.ParseUint(strings.TrimSuffix(fields[i+1], "us"), 10, 64); err != nil {
			return s, fmt.Errorf("pktgen: found %q after %s, expected a number", fields[i+1], fields[i])
		}
		found++
	}
	if found != len(want) {
		return s, fmt.Errorf("pktgen: found %d of %d counters of a device", found, len(want))
	}
	return s, nil
}
