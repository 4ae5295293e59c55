package vf

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// configSpace returns a configuration space with extended capabilities by offset, each with its ID and content after
// the header.
func configSpace(capabilities ...func([]byte)) string {
	space := make([]byte, 4096)
	for _, put := range capabilities {
		put(space)
	}
	return string(space)
}

// capability returns an extended capability: header, and 16-bit words at offsets from its start.
func capability(at, next int, id uint16, words map[int]uint16) func([]byte) {
	return func(space []byte) {
		binary.LittleEndian.PutUint32(space[at:], uint32(id)|1<<16|uint32(next)<<20)
		for offset, word := range words {
			binary.LittleEndian.PutUint16(space[at+offset:], word)
		}
	}
}

func TestCapabilities(t *testing.T) {
	sriov := configSpace(capability(0x100, 0x160, 0x01, nil),
		capability(0x160, 0, extendedSRIOV, map[int]uint16{0x0e: 7}))
	off := configSpace(capability(0x100, 0, extendedSRIOV, nil))
	loop := configSpace(capability(0x100, 0x100, 0x01, nil))
	for _, c := range []struct {
		name   string
		config string
		offers int
		acs    string
	}{
		{"a card with 7", sriov, 7, "none"}, {"switched off in the card", off, 0, "none"},
		{"no such capability", configSpace(), -1, "none"},
		{"capabilities in a circle", loop, -1, "none"}, {"cut off in the capability", sriov[:0x164], -1, "none"},
		{"without privilege", sriov[:64], -2, ""}, {"not to be read", "", -2, ""},
		{"conventional", sriov[:256], -1, "none"},
		{"a bridge that isolates", configSpace(capability(0x100, 0, extendedACS, map[int]uint16{6: 0x1d})), -1, "on"},
		{"one that could", configSpace(capability(0x100, 0, extendedACS, map[int]uint16{4: 0x1f, 6: 0x05})), -1, "off"},
	} {
		must.Equal(t, offeredVFs([]byte(c.config)), c.offers, "%s: offers", c.name)
		must.Equal(t, isolation([]byte(c.config)), c.acs, "%s: ACS", c.name)
	}
}

// Lines 7 to 12 are windows for VFs: this card has two of 64 bits.
func TestWindows(t *testing.T) {
	own := strings.Repeat("0x00000000fe000000 0x00000000fe01ffff 0x0000000000040200\n", 7)
	const none, placed = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
		"0x0000008000000000 0x000000800001ffff 0x000000000014220c\n"
	const unset, atZero = "0x0000000000000000 0x000000000001ffff 0x000000002014220c\n",
		"0x0000000000000000 0x000000000001ffff 0x000000000014220c\n"
	for _, c := range []struct {
		name, text    string
		all, unplaced int
	}{
		{"placed", own + placed + none + none + placed + none + none, 2, 0},
		{"one without room", own + placed + none + none + unset + none + none, 2, 1},
		{"both moved to 0", own + atZero + none + none + atZero + none + none, 2, 2},
		{"a card without", own + strings.Repeat(none, 6), 0, 0},
		{"a device of an old kernel", own, 0, 0}, {"nonsense", own + "x y z\n1 2\n", 0, 0}, {"nothing", "", 0, 0},
	} {
		if all, unplaced := windows(c.text); all != c.all || unplaced != c.unplaced {
			t.Errorf("%s: %d windows, %d without a place; want %d and %d", c.name, all, unplaced, c.all, c.unplaced)
		}
	}
}

func TestRemappingAndLimits(t *testing.T) {
	for text, want := range map[string]string{
		" 45:  3  0  IR-PCI-MSIX-0000:41:00.0   0-edge      ens1\n": "on", " 24:  1  0  IR-PCI-MSI 1-edge  x\n": "on",
		"  9:  0  0  IR-IO-APIC    9-fasteoi   acpi\n":                                               "on",
		" 30:  1  2  PCI-MSIX-0000:00:03.0   1-edge  virtio2-input.0\n  4: 1 IO-APIC 4-edge ttyS0\n": "off",
		"NMI: 0 0\n": "", "": "", " 71:  9  0  ITS-PCI-MSIX-0000:41:00.0   1 Edge  ens1-TxRx-0\n": "on",
	} {
		must.Equal(t, remapping(text), want, "%q", text)
	}
	const limits = "Limit                     Soft Limit           Hard Limit           Units     \nMax locked " +
		"memory         %s             %s             bytes     \n"
	for soft, want := range map[string]int64{"unlimited": -1, "8388608": 8 << 20, "0": 0} {
		if got, told := lockLimit(strings.ReplaceAll(limits, "%s", soft)); got != want || !told {
			t.Errorf("%s: %d (%v), want %d", soft, got, told, want)
		}
	}
	if _, told := lockLimit("Max cpu time unlimited unlimited seconds\n"); told {
		t.Error("a limit was told where there is none")
	}
}

func TestPassthroughOfRecordedHost(t *testing.T) {
	files := treetest.KVMHost()
	const pf, vf, audio = "sys/devices/pci0000:40/0000:41:00.0/", "sys/devices/pci0000:40/0000:41:10.0/",
		"sys/devices/pci0000:40/0000:41:00.1/"
	for pci, dir := range map[string]string{"0000:41:00.0": pf, "0000:41:10.0": vf, "0000:41:00.1": audio} {
		files["sys/bus/pci/devices/"+pci] = "-> ../../../" + strings.TrimPrefix(strings.TrimSuffix(dir, "/"), "sys/")
	}
	files[pf+"vendor"], files[pf+"device"], files[pf+"config"] = "0x8086\n", "0x10c9\n",
		configSpace(capability(0x100, 0, extendedSRIOV, map[int]uint16{0x0e: 8}))
	files[audio+"class"], files[vf+"class"] = "0x040300\n", "0x020000\n"
	files["sys/kernel/iommu_groups/17/devices/0000:41:10.0"],
		files["sys/kernel/iommu_groups/17/devices/0000:41:00.1"] = "-> x", "-> x"
	files["proc/sys/kernel/osrelease"], files["lib/modules/6.12.1/modules.dep"] = "6.12.1\n",
		"kernel/drivers/vfio/pci/vfio-pci.ko: kernel/drivers/vfio/vfio.ko\n"
	m := treetest.Recorded(t, files)
	h := &facts.Host{Kernel: facts.Kernel{Release: "6.12.1"}}
	link.Inventory(t.Context(), m, h)
	Passthrough(t.Context(), m, h)
	want := &facts.Passthrough{
		Remapping: "on", Modules: map[string]string{"vfio-pci": "available", "vfio_iommu_type1": "missing"},
		Groups: []facts.IOMMUGroup{{Number: 17, Devices: []facts.GroupDevice{
			{PCI: "0000:41:00.1", Class: "040300"}, {PCI: "0000:41:10.0", Class: "020000", Driver: "vfio-pci"},
		}}},
		Functions: []facts.PhysicalFunction{{NIC: "ens1", PCI: "0000:41:00.0", Vendor: "0x8086", Device: "0x10c9",
			Capability: 8, Bridges: []facts.PCIBridge{}}},
	}
	must.Hold(t, reflect.DeepEqual(h.Passthrough, want), "got  %+v\nwant %+v", h.Passthrough, want)
}

func TestVectors(t *testing.T) {
	table := func(next byte, size uint16) []byte {
		config := make([]byte, 256)
		config[0x34] = 0x70
		config[0x70], config[0x71] = 0x10, next // PCI Express first
		config[0xb0], config[0xb1] = 0x11, 0
		config[0xb2], config[0xb3] = byte(size-1), byte((size-1)>>8)|0x80
		return config
	}
	for name, c := range map[string]struct {
		config []byte
		want   int
	}{
		"17":              {table(0xb0, 17), 17},
		"2048":            {table(0xb0, 2048), 2048},
		"none":            {table(0, 17), 0},
		"a loop":          {table(0x70, 17), 0},
		"the header only": {table(0xb0, 17)[:64], 0},
		"unreadable":      {nil, 0},
	} {
		must.Equal(t, vectors(c.config), c.want, "%s", name)
	}
}

func TestPosting(t *testing.T) {
	// The capabilities of a server of 2012 (Sandy Bridge-EP) and one of 2017 (Skylake-SP).
	const without, with = "d2078c106f0466", "8d2078c106f0466"
	for name, c := range map[string]struct {
		files map[string]string
		want  facts.Answer
	}{
		"all can":    {map[string]string{"dmar0": with, "dmar1": with}, facts.Yes},
		"one cannot": {map[string]string{"dmar0": with, "dmar1": without}, facts.No},
		"none":       {nil, ""},
	} {
		files := map[string]string{"proc/cmdline": ""}
		for unit, word := range c.files {
			files["sys/class/iommu/"+unit+"/intel-iommu/cap"] = word
		}
		must.Equal(t, posting(treetest.Lines(t, files)), c.want, "%s", name)
	}
	amd := map[string]string{"sys/class/iommu/ivhd0/amd-iommu/features": "246577efa2254afa:0"}
	must.Equal(t, posting(treetest.Lines(t, amd)), "", "AMD's features were read as Intel's")
}
