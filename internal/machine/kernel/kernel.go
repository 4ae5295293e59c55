// Package kernel reads the kernel, its firmware and its hypervisor, and reads and writes its parameters: sysctls, files
// below /sys, module parameters, KSM, swap and trace events.
package kernel

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Inventory reads the running kernel and its hypervisor.
func Inventory(_ context.Context, m *tree.Tree, h *facts.Host) {
	k := &h.Kernel
	k.Release, k.Version = m.Line("proc/sys/kernel/osrelease"), m.Line("proc/sys/kernel/version")
	if k.Release == "" {
		k.Release, k.Version = parseVersion(m.Line("proc/version"))
	}
	k.Arch = cmp.Or(m.Line("proc/sys/kernel/arch"), cpu.Arch(m))
	k.CommandLine = m.Line("proc/cmdline")
	k.Realtime = m.Line("sys/kernel/realtime") == "1" || realtimeVersion(k.Version)
	k.Clocksource = m.Line("sys/devices/system/clocksource/clocksource0/current_clocksource")
	k.RTGroups = realtimeGroups(m, k.Release, k.CommandLine)
	k.Vulnerabilities = map[string]string{}
	holes := m.Folder(cpu.Dir + "/vulnerabilities")
	defer holes.Close()
	for _, name := range holes.Names() {
		if state := holes.Line(name); state != "" {
			k.Vulnerabilities[name] = state
		}
	}
	h.Virtual, h.Emulated = hypervisor(m)
}

// parseVersion splits /proc/version (linux_proc_banner, init/version.c): "Linux version RELEASE (who@where) (compiler)
// VERSION". The version begins at the number sign.
func parseVersion(text string) (release, version string) {
	rest, found := strings.CutPrefix(text, "Linux version ")
	if !found {
		return "", ""
	}
	release, rest, _ = strings.Cut(rest, " ")
	if at := strings.Index(rest, " #"); at >= 0 {
		version = rest[at+1:]
	}
	return release, version
}

// realtimeVersion reports whether uname -v names a PREEMPT_RT kernel; the patches before Linux 5.3 wrote "PREEMPT RT".
func realtimeVersion(version string) bool {
	return strings.Contains(version, "PREEMPT_RT") || strings.Contains(version, "PREEMPT RT")
}

// signatures maps the signature in leaf 40000000h of CPUID to the hypervisor.
var signatures = map[string]string{
	"KVMKVMKVM\x00\x00\x00": "kvm", "Linux KVM Hv": "kvm", "TCGTCGTCGTCG": "tcg", "VMwareVMware": "vmware",
	"Microsoft Hv": "hyperv", "XenVMMXenVMM": "xen", "bhyve bhyve ": "bhyve", "ACRNACRNACRN": "acrn",
}

// hypervisor returns the hypervisor that this machine runs under, empty on bare metal, and whether it emulates the
// processor. On the live machine CPUID has it. In a recorded tree the DMI tables have it; QEMU emulates the processor
// if the processor's name says so, or if the kernel found clock sources but not KVM's.
//
// A guest of a hypervisor that is itself emulated sees only its own hypervisor: then emulated is false although times
// mean nothing. A guest cannot detect that.
func hypervisor(m *tree.Tree) (name string, emulated bool) {
	if m.Live() {
		if signature := cpu.HypervisorSignature(); signature != "" {
			name = cmp.Or(signatures[signature], "unknown")
			return name, name == "tcg"
		}
	}
	first := cpu.FirstCPU(m)
	flagged := slices.Contains(strings.Fields(first["flags"]), "hypervisor")
	name = firmwareHypervisor(m.Line("sys/class/dmi/id/sys_vendor") + "\n" + m.Line("sys/class/dmi/id/product_name"))
	if strings.Contains(cpu.Model(first), "QEMU TCG") {
		return "tcg", true
	}
	switch {
	case name == "" && flagged:
		name = "unknown"
	case name == "qemu":
		clocks := m.Line("sys/devices/system/clocksource/clocksource0/available_clocksource")
		switch {
		case strings.Contains(clocks, "kvm-clock"):
			name = "kvm"
		case clocks != "":
			return "tcg", true
		}
	}
	return name, false
}

// Emulated reports whether this machine's processor is emulated: then everything takes many times as long.
func Emulated(m *tree.Tree) bool {
	_, emulated := hypervisor(m)
	return emulated
}

// firmwareHypervisor returns the hypervisor that has these DMI strings; empty if none is known.
func firmwareHypervisor(dmi string) string {
	for _, known := range [...]struct{ text, name string }{
		{"QEMU", "qemu"}, {"KVM", "kvm"}, {"Amazon EC2", "kvm"}, {"Google", "kvm"}, {"OpenStack", "kvm"},
		{"VMware", "vmware"}, {"innotek", "virtualbox"}, {"VirtualBox", "virtualbox"}, {"Xen", "xen"},
		{"Microsoft Corporation\nVirtual Machine", "hyperv"}, {"BHYVE", "bhyve"}, {"Bochs", "qemu"},
	} {
		if strings.Contains(dmi, known.text) {
			return known.name
		}
	}
	return ""
}
