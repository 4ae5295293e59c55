package guestinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// module is an entry of /mods/list: the files to load, in order, and the devices it drives.
type module struct {
	name    string
	files   []string
	aliases []string
}

// parseList reads lines "load NAME FILE..." and "alias NAME PATTERN". Aliases for kinds of virtual links
// (rtnl-link-veth) are not devices: nothing in the guest answers the kernel's request for them, so these modules are
// always loaded.
func parseList(text string) []module {
	var mods []module
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 3 && f[0] == "load":
			mods = append(mods, module{name: f[1], files: f[2:]})
		case len(f) == 3 && f[0] == "alias" && !strings.HasPrefix(f[2], "rtnl-link-"):
			if i := slices.IndexFunc(mods, func(m module) bool { return m.name == f[1] }); i >= 0 {
				mods[i].aliases = append(mods[i].aliases, f[2])
			}
		}
	}
	return mods
}

// wanted reports whether a module drives one of the devices. One without device aliases is always wanted.
func (m module) wanted(modaliases []string) bool {
	if len(m.aliases) == 0 {
		return true
	}
	for _, pattern := range m.aliases {
		for _, dev := range modaliases {
			if ok, err := path.Match(pattern, dev); err == nil && ok {
				return true
			}
		}
	}
	return false
}

// loadModules loads the modules for the devices under root. Each module avoided is a chance of a hang avoided: emulated
// CPUs have been seen to loop at the first call into a module just loaded.
func loadModules(root string) error {
	b, err := os.ReadFile(filepath.Join(root, "mods/list"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range parseList(string(b)) {
		devices, err := devicesBelow(root) // a module before this one may have brought its device: virtio_pci
		errs = append(errs, err)
		if !m.wanted(devices) {
			continue
		}
		for _, f := range m.files {
			errs = append(errs, loadModule(filepath.Join(root, "mods", f)))
		}
	}
	return errors.Join(errs...)
}

// devicesBelow returns the modaliases of the devices under root.
func devicesBelow(root string) ([]string, error) {
	var devices []string
	for _, bus := range []string{"pci", "virtio", "acpi"} {
		files, err := filepath.Glob(filepath.Join(root, "sys/bus", bus, "devices/*/modalias"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if a, err := os.ReadFile(f); err == nil {
				devices = append(devices, strings.TrimSpace(string(a)))
			}
		}
	}
	return devices, nil
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", filepath.Base(file), err)
	}
	return nil
}
