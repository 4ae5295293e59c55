package lanes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// attached reports whether one of the programs is attached to a device now, by a link or a filter. At the NIC a filter
// does not count if another one runs before it, which can keep it from running. (At a tap any other filter is in the
// way, see Classifiers.)
func (p Program) attached(d Device, s side) (bool, error) {
	l, err := link.LoadPinnedLink(p.pin(d, s), nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		filters, err := p.filters(d, s)
		if len(filters) == 0 || err != nil || s == tapSide {
			return len(filters) > 0, err
		}
		kind, err := p.firstOther(d, s)
		return kind == "" && err == nil, err
	case err != nil:
		return false, fmt.Errorf("%s: %w", p.pin(d, s), err)
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return false, err
	}
	// A link whose device is gone, or that was detached by hand, has no device (kernel/bpf/tcx.c, tcx_link_fill_info).
	at := info.TCX()
	return at != nil && int(at.Ifindex) == d.Index, nil
}

// attach attaches one of the programs at the head of the list, unless it is attached. A program before it that returns
// "pass" would keep it from running; it keeps no other one from running.
func (p Program) attach(program *ebpf.Program, d Device, s side) error {
	if is, err := p.attached(d, s); is || err != nil {
		return err
	}
	// What is there is out of date or in the wrong place.
	if err := errors.Join(p.release(p.pin(d, s)), p.dropFilters(d, s, false)); err != nil {
		return err
	}
	if p.Filters {
		return p.addFilter(program, d, s)
	}
	at := ebpf.AttachTCXIngress
	if s == nicSide {
		at = ebpf.AttachTCXEgress
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: d.Index, Program: program, Attach: at, Anchor: link.Head()})
	switch {
	case errors.Is(err, ebpf.ErrNotSupported): // before Linux 6.6
		return p.addFilter(program, d, s)
	case err != nil:
		return fmt.Errorf("attach to %s: %w", d.Name, err)
	}
	defer l.Close() // the pin keeps it attached
	if err := l.Pin(p.pin(d, s)); err != nil {
		return fmt.Errorf("pin what is attached to %s: %w", d.Name, err)
	}
	return nil
}

// release removes a pinned link, if there is one, and so detaches its program. The kernel detaches it in one step,
// before the descriptor's close returns.
func (p Program) release(pin string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil { // not a link
		return errors.Join(fmt.Errorf("%s: %w", pin, err), remove(pin))
	}
	return errors.Join(l.Unpin(), l.Close())
}

// remove removes a file or an empty directory. It is no error if it does not exist.
func remove(name string) error {
	err := os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// loadError wraps the kernel's error for a program or a map.
func loadError(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("the kernel does not let this process load eBPF programs (needs root, and CAP_BPF in a "+
			"container): %w", err)
	}
	return fmt.Errorf("load the lane programs: %w", err)
}
