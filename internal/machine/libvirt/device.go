package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/setting"
)

// devices reads, plugs and unplugs devices of running guests (setting.DomainDevice): whole interfaces and functions.
type devices struct {
	machine  *tree.Tree
	patience time.Duration // how long a guest may take to release a device
}

// plugger is a driver that can plug and unplug devices.
type plugger interface {
	driver
	device(ctx context.Context, command, guest, text string) error
}

// unplugPatience is how long a guest may take to release a device. With native PCIe hot plug it waits five seconds
// before it starts (PCI Express Base Specification, attention button). A guest that is still booting, or has no
// hot-plug driver, never responds.
const unplugPatience = 45 * time.Second

// poll is how often the guest is checked meanwhile.
const poll = 300 * time.Millisecond

func (d devices) Read(ctx context.Context, a setting.Address) setting.Reading {
	doc, err := runningDocument(ctx, d.machine, a.Object())
	switch {
	case errors.Is(err, errNoGuest), errors.Is(err, errNoLibvirt):
		return setting.NoObject(fmt.Sprintf("guest %s does not run", a.Object()))
	case err != nil:
		return setting.CouldNotTell(err.Error())
	}
	reading, err := pluggedIn(doc, a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return reading
}

// runningDocument returns the definition that a guest runs with. It prefers libvirt's status file, which has more than
// libvirt returns to programs: the pool of an interface that came from a pool of functions.
func runningDocument(ctx context.Context, m *tree.Tree, guest string) (*domain.Doc, error) {
	if m.Live() {
		if text, err := runningFile(m, guest); err == nil {
			if _, running := parseStatus(text); running != "" {
				return domain.ParseLive([]byte(running))
			}
		}
	}
	l, err := Open(m)
	if err != nil {
		return nil, err
	}
	text, err := l.running(ctx, guest)
	if err != nil {
		return nil, err
	}
	return domain.ParseLive([]byte(text))
}

// pluggedIn returns the reading of one device of a running guest.
func pluggedIn(doc *domain.Doc, a setting.Address) (setting.Reading, error) {
	path := a.Rest()
	if !domain.IsDevice(path) {
		return setting.Reading{}, a.Errorf("expected interface/MAC or hostdev/PCI of a guest")
	}
	reading, _, err := canonicalIn(doc, setting.DomainDevice, path, "the guest runs without it")
	return reading, err
}

// Write plugs or unplugs a device and waits until the guest has added or released it. It first unplugs a device that
// has another value.
func (d devices) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if to.State == setting.Unknown {
		return a.Errorf("an unknown value cannot be written")
	}
	asked, err := Open(d.machine)
	if err != nil {
		return a.Errorf("%w", err)
	}
	v, live := asked.(plugger)
	if !live {
		return a.Errorf("%w", tree.ErrNotLive)
	}
	doc, err := runningDocument(ctx, d.machine, a.Object())
	if errors.Is(err, errNoGuest) {
		err = ErrNotRunning
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	found, err := pluggedIn(doc, a)
	if err != nil {
		return err
	}
	if found.Same(to) {
		return nil
	}
	wanted := ""
	if to.State == setting.Known {
		if wanted, err = doc.Device(a.Rest(), to.Value, to.Verbatim); err != nil {
			return a.Errorf("%w", err)
		}
	}
	if found.State == setting.Known {
		if err := d.unplug(ctx, v, a); err != nil {
			return err
		}
	}
	if wanted == "" {
		return nil
	}
	return d.plug(ctx, v, a, wanted, to)
}

// plug plugs a device and reads it back.
func (d devices) plug(ctx context.Context, v plugger, a setting.Address, text string, to setting.Reading) error {
	err := v.device(ctx, "attach-device", a.Object(), text)
	if err != nil && to.Verbatim != "" && !errors.Is(err, setting.ErrInDoubt) {
		// Its former address in the guest may be taken by now.
		if doc, other := runningDocument(ctx, d.machine, a.Object()); other == nil {
			if bare, other := doc.Device(a.Rest(), to.Value, ""); other == nil &&
				v.device(ctx, "attach-device", a.Object(), bare) == nil {
				err = nil
			}
		}
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	doc, err := runningDocument(ctx, d.machine, a.Object())
	if err != nil {
		return a.Errorf("reading back: %w", err)
	}
	found, err := pluggedIn(doc, a)
	if err != nil {
		return a.Errorf("reading back: %w", err)
	}
	if !found.Same(to) {
		return a.Errorf("wanted %s, but libvirt made it %s", to, found)
	}
	return nil
}

// unplug makes libvirt ask the guest to release a device, and waits until it has. virsh waits for at most five seconds
// and reports nothing if the guest does not respond (src/qemu/qemu_hotplug.c, qemuDomainWaitForDeviceRemoval).
func (d devices) unplug(ctx context.Context, v plugger, a setting.Address) error {
	if status, err := runningFile(d.machine, a.Object()); err == nil {
		if state, _ := parseStatus(status); state == "paused" || state == "pmsuspended" {
			return a.Errorf("the guest is %s: it cannot let a device go before it runs on", state)
		}
	}
	text, err := v.running(ctx, a.Object())
	if err != nil {
		return a.Errorf("%w", err)
	}
	doc, err := domain.ParseLive([]byte(text))
	if err != nil {
		return a.Errorf("%w", err)
	}
	element := doc.Element(a.Rest())
	if element == "" {
		return a.Errorf("libvirt does not show it to programs as it keeps it itself")
	}
	if err := v.device(ctx, "detach-device", a.Object(), element); err != nil {
		return a.Errorf("%w", err)
	}
	began := time.Now()
	for {
		doc, err := runningDocument(ctx, d.machine, a.Object())
		if errors.Is(err, errNoGuest) {
			return nil // it was stopped meanwhile
		}
		if err == nil {
			if found, err := pluggedIn(doc, a); err == nil && found.State == setting.Absent {
				return nil
			}
		}
		if time.Since(began) > d.patience {
			return a.Errorf("%w: %w", setting.ErrInDoubt, &Held{Guest: a.Object(), Device: a.Rest(), After: d.patience})
		}
		select {
		case <-ctx.Done():
			after := time.Since(began).Round(time.Second)
			return a.Errorf("%w: %w", setting.ErrInDoubt, &Held{Guest: a.Object(), Device: a.Rest(), After: after})
		case <-time.After(poll):
		}
	}
}

// Held is the error for a guest that has not released a device.
type Held struct {
	Guest, Device string
	After         time.Duration
}

func (h *Held) Error() string {
	return fmt.Sprintf("guest %s was asked to let %s go and still has it after %v", h.Guest, h.Device, h.After)
}

// Hint returns what to do.
func (h *Held) Hint() string {
	return "a guest that boots, hangs or has no driver for hot plug does not answer; it may still let it go later, " +
		"and shutting it down does so at once"
}

// device runs attach-device or detach-device with the XML of a device.
func (v Virsh) device(ctx context.Context, command, guest, text string) error {
	return v.change(ctx, text, command, "--live", "--domain", guest, "--file", "/proc/self/fd/0")
}
