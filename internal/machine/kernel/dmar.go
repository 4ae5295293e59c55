package kernel

import (
	"context"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Firmware reads the firmware's IOMMU settings into h.Firmware: the ACPI tables of IOMMUs, and the number of groups
// that the running kernel made with them.
func Firmware(_ context.Context, m *tree.Tree, h *facts.Host) {
	const tables = "sys/firmware/acpi/tables"
	f := &h.Firmware
	f.Tables = len(m.List(tables)) > 0
	f.DMAR, f.IVRS = m.Exists(tables+"/DMAR"), m.Exists(tables+"/IVRS")
	f.Groups = len(m.List("sys/kernel/iommu_groups"))
}
