package kernel

import (
	"bytes"
	"compress/gzip"
	"context"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestKernel(t *testing.T) {
	const clocks = "sys/devices/system/clocksource/clocksource0/"
	m := treetest.Lines(t, map[string]string{
		"proc/sys/kernel/osrelease": "6.12.48-rt", "proc/sys/kernel/version": "#1 SMP PREEMPT_RT Debian 6.12.48",
		"proc/cmdline": "ro quiet", clocks + "current_clocksource": "tsc",
		"sys/devices/system/cpu/vulnerabilities/meltdown":   "Not affected",
		"sys/devices/system/cpu/vulnerabilities/spectre_v1": "Mitigation: usercopy/swapgs barriers",
	})
	var h facts.Host
	Inventory(t.Context(), m, &h)
	k := h.Kernel
	must.Hold(t, k.Release == "6.12.48-rt" && k.Realtime && k.CommandLine == "ro quiet" && k.Clocksource == "tsc" &&
		len(k.Vulnerabilities) == 2 && k.Vulnerabilities["meltdown"] == "Not affected", "found %+v", k)
	must.Hold(t, h.Virtual == "" && !h.Emulated, "a bare machine is called %q, emulated %v", h.Virtual, h.Emulated)
}

func TestParseVersion(t *testing.T) {
	release, version := parseVersion("Linux version 3.10.0-957.el7.x86_64 (mockbuild@x) (gcc version 4.8.5 (Red Hat " +
		"4.8.5-36) (GCC) ) #1 SMP PREEMPT RT Thu Nov 8")
	must.Hold(t, release == "3.10.0-957.el7.x86_64" && version == "#1 SMP PREEMPT RT Thu Nov 8" &&
		realtimeVersion(version), "found %q, %q", release, version)
	if release, version := parseVersion("nonsense"); release != "" || version != "" {
		t.Errorf("nonsense became %q, %q", release, version)
	}
}

func TestHypervisor(t *testing.T) {
	const dmi, clocks = "sys/class/dmi/id/", "sys/devices/system/clocksource/clocksource0/available_clocksource"
	cases := map[string]struct {
		files    map[string]string
		name     string
		emulated bool
	}{
		"bare metal": {map[string]string{dmi + "sys_vendor": "Dell Inc.",
			"proc/cpuinfo": "processor: 0\nflags: fpu vme"}, "", false},
		"KVM": {map[string]string{dmi + "sys_vendor": "QEMU", clocks: "kvm-clock tsc acpi_pm",
			"proc/cpuinfo": "flags: hypervisor"}, "kvm", false},
		"emulated, other model": {map[string]string{dmi + "sys_vendor": "QEMU", clocks: "tsc hpet acpi_pm",
			"proc/cpuinfo": "flags: hypervisor"}, "tcg", true},
		"emulated by its name": {map[string]string{"proc/cpuinfo": "processor: 0\nmodel name: QEMU TCG CPU " +
			"version 2.5+"}, "tcg", true},
		"QEMU, clocks not recorded": {map[string]string{dmi + "sys_vendor": "QEMU"}, "qemu", false},
		"cloud":                     {map[string]string{dmi + "sys_vendor": "Amazon EC2"}, "kvm", false},
		"VMware": {map[string]string{dmi + "sys_vendor": "VMware, Inc.", dmi +
			"product_name": "VMware7,1"}, "vmware", false},
		"Hyper-V": {map[string]string{dmi + "sys_vendor": "Microsoft Corporation", dmi +
			"product_name": "Virtual Machine"}, "hyperv", false},
		"a Surface": {map[string]string{dmi + "sys_vendor": "Microsoft Corporation", dmi +
			"product_name": "Surface Pro"}, "", false},
		"no firmware tables": {map[string]string{"proc/cpuinfo": "processor: 0\nflags: fpu hypervisor sse"}, "unknown",
			false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if found, emulated := hypervisor(treetest.Lines(t, c.files)); found != c.name || emulated != c.emulated {
				t.Errorf("expected %q, emulated %v; found %q, %v", c.name, c.emulated, found, emulated)
			}
		})
	}
}

func TestKVM(t *testing.T) {
	m := treetest.Lines(t, map[string]string{
		"sys/module/kvm/parameters/halt_poll_ns": "200000", "sys/module/kvm_amd/parameters/avic": "N",
		"sys/module/vhost_net/parameters/experimental_zcopytx": "0", "sys/module/ext4/parameters/x": "1",
	})
	var h facts.Host
	KVM(t.Context(), m, &h)
	if k := h.KVM; !k.Loaded || k.Vendor != "kvm_amd" || !k.Vhost || len(k.Parameters) != 3 ||
		k.Parameters["kvm.halt_poll_ns"] != "200000" {
		t.Errorf("found %+v", k)
	}
}

// TestRealtimeGroupsOfKernel: whether cgroups have realtime budgets, from the file of cgroup v1, from the kernel
// configuration in any of its places, and from the switch of newer kernels.
func TestRealtimeGroupsOfKernel(t *testing.T) {
	const with, without = "CONFIG_CGROUPS=y\nCONFIG_RT_GROUP_SCHED=y\n", "CONFIG_CGROUPS=y\n# CONFIG_RT_GROUP_SCHED " +
		"is not set\n"
	const asleep = with + "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	must.Get(z.Write([]byte(with)))(t)
	must.Do(t, z.Close())
	for name, c := range map[string]struct {
		files   map[string]string
		command string
		want    facts.Answer
	}{
		"nothing tells": {map[string]string{"proc/uptime": "1 1"}, "", ""},
		"version 1": {map[string]string{"sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us": "950000",
			"boot/config-6.1.0": without}, "", facts.Yes},
		"in /boot":               {map[string]string{"boot/config-6.1.0": with}, "", facts.Yes},
		"in /boot, without":      {map[string]string{"boot/config-6.1.0": without}, "", facts.No},
		"of another kernel":      {map[string]string{"boot/config-6.2.0": with}, "", ""},
		"beside the modules":     {map[string]string{"lib/modules/6.1.0/config": with}, "", facts.Yes},
		"of the kernel itself":   {map[string]string{"proc/config.gz": packed.String()}, "", facts.Yes},
		"switched off":           {map[string]string{"boot/config-6.1.0": with}, "ro rt_group_sched=0", facts.No},
		"off unless switched on": {map[string]string{"boot/config-6.1.0": asleep}, "ro", facts.No},
		"switched on":            {map[string]string{"boot/config-6.1.0": asleep}, "ro rt_group_sched=1", facts.Yes},
		"a broken one beside it": {map[string]string{"proc/config.gz": "no gzip", "boot/config-6.1.0": without}, "",
			facts.No},
	} {
		must.Equal(t, realtimeGroups(treetest.Lines(t, c.files), "6.1.0", c.command), c.want, "%s", name)
	}
}

func TestXenDom0(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		dom0  bool
	}{
		"control domain":                    {map[string]string{"proc/xen/capabilities": "control_d\n"}, true},
		"control domain without xenfs":      {xen("00000000000008c5"), true},
		"guest of Xen":                      {treetest.Merged(xen("00002705"), map[string]string{"proc/xen/capabilities": ""}), false},
		"KVM, whose features are a guest's": {map[string]string{"sys/hypervisor/properties/features": "ffff\n"}, false},
		"no hypervisor":                     {nil, false},
	} {
		h := &facts.Host{}
		KVM(context.Background(), treetest.Recorded(t, c.files), h)
		must.Equal(t, h.KVM.XenDom0, c.dom0, "%s", name)
	}
}

func xen(features string) map[string]string {
	return map[string]string{"sys/hypervisor/type": "xen\n", "sys/hypervisor/properties/features": features + "\n"}
}

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
