package kernel

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
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
	must.Equal(t, h.Firmware, facts.Firmware{}, "firmware of a machine that shows nothing")
}

func TestMemoryType(t *testing.T) {
	device := func(kind byte, size byte) string {
		fields := make([]byte, 0x22)
		fields[0], fields[1], fields[0x0c], fields[0x12] = 17, byte(len(fields)), size, kind
		return string(fields) + "DIMM A1\x00maker\x00\x00"
	}
	board := "\x02\x08\x01\x00\x01\x02\x03\x04maker\x00board\x00\x00"
	for name, c := range map[string]struct{ dmi, want string }{
		"all alike":           {board + device(0x22, 32) + device(0x22, 32), "DDR5"},
		"an empty slot":       {device(0x02, 0) + device(0x1a, 16), "DDR4"},
		"two types":           {device(0x1a, 16) + device(0x22, 16), ""},
		"a virtual machine":   {device(0x07, 16), ""},
		"no memory":           {board, ""},
		"unreadable":          {"", ""},
		"cut off":             {(board + device(0x22, 32))[:40], ""},
		"a length of nothing": {"\x11\x00\x00\x00", ""},
	} {
		must.Equal(t, memoryType(c.dmi), c.want, "%s", name)
	}
}
