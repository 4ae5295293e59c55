package kernel

import (
	"context"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Firmware reads into h.Firmware what the firmware's tables show: the ACPI tables of IOMMUs, the number of groups that
// the running kernel made with them, and the type of the memory modules.
func Firmware(_ context.Context, m *tree.Tree, h *facts.Host) {
	const tables = "sys/firmware/acpi/tables"
	f := &h.Firmware
	f.Tables = len(m.List(tables)) > 0
	f.DMAR, f.IVRS, f.IORT = m.Exists(tables+"/DMAR"), m.Exists(tables+"/IVRS"), m.Exists(tables+"/IORT")
	dmi, _ := m.Read("sys/firmware/dmi/tables/DMI") // root alone may
	f.Memory = memoryType(dmi)
	f.Groups = len(m.List("sys/kernel/iommu_groups"))
}

// memoryTypes are the values of a memory device's type that matter (SMBIOS 3.7.0, 7.18.2).
var memoryTypes = map[byte]string{0x18: "DDR3", 0x1a: "DDR4", 0x22: "DDR5"}

// memoryType returns the type of the memory modules in a DMI table; empty if it tells none, or several. A structure is
// its type, its length, its fields, and text that ends with two zero bytes (SMBIOS 3.7.0, 6.1); a memory device has its
// size at 0Ch, 0 where no module is plugged in, and its type at 12h (7.18).
func memoryType(dmi string) string {
	const memoryDevice, size, kind = 17, 0x0c, 0x12
	found := ""
	for len(dmi) >= 4 {
		length := int(dmi[1])
		if length < 4 || length > len(dmi) {
			break
		}
		if dmi[0] == memoryDevice && length > kind && dmi[size]|dmi[size+1] != 0 {
			name := memoryTypes[dmi[kind]]
			if name == "" || found != "" && name != found {
				return ""
			}
			found = name
		}
		_, rest, more := strings.Cut(dmi[length:], "\x00\x00")
		if !more {
			break
		}
		dmi = rest
	}
	return found
}
