package facts

import "slices"

// Architectures that the catalogue distinguishes, as uname -m names them.
const (
	X86   = "x86_64"
	ARM64 = "aarch64"
)

// ruled are the architectures that the catalogue was made for; the gallery has hosts of each. RISC-V is none of them:
// its KVM gives a vCPU's IMSIC a guest file of the CPU that it runs on (arch/riscv/kvm/aia_imsic.c), and no rule of the
// catalogue knows what that asks of pins and interrupts.
var ruled = []string{X86, ARM64, "ppc64le", "s390x", "loongarch64"}

// hasRules reports whether the catalogue was made for the host's architecture. An unknown one counts as such: snapshots
// of early versions do not record it.
func (h *Host) hasRules() bool {
	arch := h.Architecture()
	return arch == "" || slices.Contains(ruled, arch)
}

// Architecture returns the host's architecture as uname -m names it; empty if unknown. Snapshots of versions that did
// not record it are of x86_64 if their processors' vendor, or their KVM module, exists on nothing else.
func (h *Host) Architecture() string {
	if h.Kernel.Arch != "" {
		return h.Kernel.Arch
	}
	switch h.Topology.Vendor {
	case "GenuineIntel", "AuthenticAMD", "HygonGenuine":
		return X86
	}
	if h.KVM.Vendor == "kvm_intel" || h.KVM.Vendor == "kvm_amd" {
		return X86
	}
	return ""
}
