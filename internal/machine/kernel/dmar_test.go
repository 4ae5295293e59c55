package kernel

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
)

func TestFirmware(t *testing.T) {
	var h facts.Host
	Firmware(t.Context(), treetest.Lines(t, map[string]string{"sys/firmware/acpi/tables/DMAR": "x",
		"sys/firmware/acpi/tables/APIC": "x", "sys/kernel/iommu_groups/0/type": "DMA",
		"sys/kernel/iommu_groups/1/type": "DMA"}), &h)
	if f := h.Firmware; !f.Tables || !f.DMAR || f.IVRS || f.Groups != 2 {
		t.Errorf("found %+v", f)
	}
	h = facts.Host{}
	Firmware(t.Context(), treetest.Lines(t, map[string]string{"proc/cmdline": ""}), &h)
	if h.Firmware != (facts.Firmware{}) {
		t.Errorf("found %+v on a machine that shows nothing", h.Firmware)
	}
}
