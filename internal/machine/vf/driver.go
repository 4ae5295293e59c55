package vf

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of VF counts and of PCI functions' drivers.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{setting.VFCount: vfCount{m: m}, setting.PCIDriver: pciDriver{m}}
}

// pciDriver binds devices to drivers (setting.PCIDriver; Documentation/ABI/testing/sysfs-bus-pci: driver_override,
// drivers_probe, unbind).
type pciDriver struct{ m *tree.Tree }

func (p pciDriver) Read(_ context.Context, a setting.Address) setting.Reading {
	dir := path.Join(pciDevices, a.Path)
	if !pciName.MatchString(a.Path) || !p.m.Exists(dir) {
		return setting.NoObject("there is no PCI device " + a.Path)
	}
	return setting.Value(setting.DriverValue(p.m.Target(dir+"/driver"), override(p.m, a.Path)))
}

// override returns the only driver that may bind to a device; empty if any may, which the kernel shows as (null).
func override(m *tree.Tree, pci string) string {
	if only := m.Line(path.Join(pciDevices, pci, "driver_override")); only != "(null)" {
		return only
	}
	return ""
}

func (p pciDriver) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		if p.Read(ctx, a).State != setting.Known {
			return errors.New("there is no such PCI device")
		}
		ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
		defer cancel()
		driver, only := setting.Driver(value)
		return rebind(ctx, p.m, a.Path, driver, only)
	})
}

// rebind unbinds a device from its driver and binds it to another (empty: none), even one that does not list the
// device: it sets driver_override while it probes. Afterwards it sets driver_override to only.
func rebind(ctx context.Context, m *tree.Tree, pci, driver, only string) error {
	dir := path.Join(pciDevices, pci)
	now := m.Target(dir + "/driver")
	if now != driver && now != "" {
		if who := deviceUser(m, pci); who != "" {
			return errors.New(who)
		}
		if err := m.Write(ctx, dir+"/driver/unbind", pci); err != nil {
			return fmt.Errorf("taking it from %s: %w", now, err)
		}
	}
	if now != driver && driver != "" {
		if !m.Exists("sys/bus/pci/drivers/" + driver) {
			return fmt.Errorf("there is no PCI driver %s: load its module first", driver)
		}
		if err := m.Write(ctx, dir+"/driver_override", driver); err != nil {
			return fmt.Errorf("driver_override: %w", err)
		}
		err := m.Write(ctx, "sys/bus/pci/drivers_probe", pci)
		if m.Target(dir+"/driver") != driver {
			return errors.Join(errors.New("the driver did not take it (dmesg says why)"), err,
				m.Write(ctx, dir+"/driver_override", only+"\n"))
		}
	}
	if override(m, pci) != only {
		if err := m.Write(ctx, dir+"/driver_override", only+"\n"); err != nil {
			return fmt.Errorf("driver_override: %w", err)
		}
	}
	return nil
}

// deviceUser returns a sentence about who uses a PCI device now: a running guest, another process by VFIO, or the
// host's interface; empty if nobody does. Unbinding it from vfio-pci would wait in the kernel for the process, for ever
// (drivers/vfio/vfio_main.c, vfio_unregister_group_dev).
func deviceUser(m *tree.Tree, pci string) string {
	guests, err := runningHostdevs(m)
	if err != nil {
		return err.Error()
	}
	if guest := guests[pci]; guest != "" {
		return "guest " + guest + " runs with it"
	}
	holders := vfioHolders(m)
	dir := path.Join(pciDevices, pci)
	for _, node := range vfioNodes(m, dir) {
		if who := holders[node]; len(who) > 0 {
			return strings.Join(who, ", ") + " has it open"
		}
	}
	if inOtherNamespace(m, dir) {
		return facts.OtherNamespace + " has its interface"
	}
	for _, nic := range m.List(dir + "/net") {
		if state := link.Mechanisms(m)[setting.NICState].Read(context.Background(),
			setting.Of(setting.NICState, nic)); state.Value == "up" {
			return "its interface " + nic + " is up: take it down first"
		}
	}
	return ""
}

// FunctionReset is the result of a function-level reset.
type FunctionReset struct {
	PCI    string `json:"pci"`
	Method string `json:"method,omitempty"` // the kernel's name: flr, af_flr, pm, bus …
	Why    string `json:"why,omitempty"`    // reason why it was not reset
}

// ResetFunction resets a PCI function that nobody uses, so that nothing of its former user is left in the card: queues,
// filters, statistics. A driver of the host is unbound meanwhile and finds the function as after boot. A reset cannot
// be undone.
func ResetFunction(ctx context.Context, m *tree.Tree, pci string) FunctionReset {
	done := FunctionReset{PCI: pci, Method: m.Line(path.Join(pciDevices, pci, "reset_method"))}
	if err := resetFunction(ctx, m, pci); err != nil {
		done.Why = err.Error()
	}
	return done
}

func resetFunction(ctx context.Context, m *tree.Tree, pci string) error {
	dir := path.Join(pciDevices, pci)
	switch {
	case !m.Live():
		return tree.ErrNotLive
	case !pciName.MatchString(pci) || !m.Exists(dir):
		return errors.New("there is no such PCI device")
	case !m.Exists(dir + "/reset"):
		return errors.New("the card offers no way to reset it alone")
	}
	if who := deviceUser(m, pci); who != "" {
		return errors.New(who)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	driver, only := m.Target(dir+"/driver"), override(m, pci)
	if err := rebind(ctx, m, pci, "", only); err != nil {
		return err
	}
	err := m.Write(ctx, dir+"/reset", "1")
	if errors.Is(err, unix.ENOTTY) {
		err = errors.New("the card offers no way to reset it alone")
	}
	return errors.Join(err, rebind(ctx, m, pci, driver, only))
}
