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

// Mechanisms are those of counts of virtual functions and of drivers of PCI functions.
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

// override is the driver that alone may take a device; the kernel writes (null) where there is none.
func override(m *tree.Tree, pci string) string {
	if only := m.Line(path.Join(pciDevices, pci, "driver_override")); only != "(null)" {
		return only
	}
	return ""
}

func (p pciDriver) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	if p.Read(ctx, a).State != setting.Known {
		return tree.Refusal(a, value, errors.New("there is no such PCI device"))
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	driver, only := setting.Driver(value)
	if err := rebind(ctx, p.m, a.Path, driver, only); err != nil {
		return tree.Refusal(a, value, err)
	}
	return nil
}

// rebind takes a device from its driver, where that is another one, and gives it to the wanted one (empty: to none),
// whatever devices that is made for: for the moment of the search it alone may take it. only is who alone may take it
// afterwards.
func rebind(ctx context.Context, m *tree.Tree, pci, driver, only string) error {
	dir := path.Join(pciDevices, pci)
	now := m.Target(dir + "/driver")
	if now != driver && now != "" {
		if who := deviceUsed(m, pci); who != "" {
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
			err = errors.Join(errors.New("the driver did not take it (dmesg says why)"), err,
				m.Write(ctx, dir+"/driver_override", only+"\n"))
			return err
		}
	}
	if override(m, pci) != only {
		if err := m.Write(ctx, dir+"/driver_override", only+"\n"); err != nil {
			return fmt.Errorf("driver_override: %w", err)
		}
	}
	return nil
}

// deviceUsed is who has a PCI device now, for people: a running guest, another process by VFIO, or the host by its
// interface. Taking it away from vfio-pci would wait for ever, in the kernel, for the process
// (drivers/vfio/vfio_main.c, vfio_unregister_group_dev).
func deviceUsed(m *tree.Tree, pci string) string {
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
	if elsewhere(m, dir) {
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

// FunctionReset is what became of the reset of a function itself.
type FunctionReset struct {
	PCI    string `json:"pci"`
	Method string `json:"method,omitempty"` // as the kernel names it: flr, af_flr, pm, bus …
	Why    string `json:"why,omitempty"`    // it was not reset
}

// ResetFunction resets a PCI function that nobody has, so that nothing of who had it before is left in the card:
// queues, filters, statistics. A driver of the host is taken off it meanwhile, and finds it as after boot. This is no
// value: nothing undoes it.
func ResetFunction(ctx context.Context, m *tree.Tree, pci string) FunctionReset {
	dir := path.Join(pciDevices, pci)
	done := FunctionReset{PCI: pci, Method: m.Line(dir + "/reset_method")}
	err := resetFunction(ctx, m, pci)
	if err != nil {
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
	if who := deviceUsed(m, pci); who != "" {
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
