package setting

import (
	"cmp"
	"fmt"
	"strings"
)

// PCIDriver: "pci-driver:0000:01:10.0", a PCI device. The driver that it is bound to, or "none", followed by the only
// driver that may bind it if one is set, "vfio-pci override:vfio-pci" (Documentation/ABI/testing/sysfs-bus-pci,
// driver_override). A write binds the device and sets or clears the override. Refused while a guest or a process has
// the device, or its interface is up.
const PCIDriver Kind = "pci-driver"

// UntilDeviceGone is how long a device keeps its driver.
const UntilDeviceGone Lasting = "until the device goes or is bound anew"

const override = "override:"

func canonicalDriver(raw string) (string, error) {
	fields := strings.Fields(raw)
	bad := len(fields) == 0 || len(fields) > 2 || strings.Contains(fields[0], ":")
	for _, field := range fields {
		name := strings.TrimPrefix(field, override)
		bad = bad || name == "" || strings.Trim(name,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != ""
	}
	if bad || len(fields) == 2 && !strings.HasPrefix(fields[1], override) {
		return "", fmt.Errorf("expected the name of a driver, or none, such as igbvf or vfio-pci override:vfio-pci, "+
			"found %q", raw)
	}
	return strings.Join(fields, " "), nil
}

// Driver splits a canonical value: driver is empty if none is bound, only is empty if there is no override.
func Driver(value string) (driver, only string) {
	driver, only, _ = strings.Cut(value, " ")
	if driver == "none" {
		driver = ""
	}
	return driver, strings.TrimPrefix(only, override)
}

// DriverValue returns the canonical value of a driver and an override, either of which may be empty.
func DriverValue(driver, only string) string {
	driver = cmp.Or(driver, "none")
	if only != "" {
		driver += " " + override + only
	}
	return driver
}
