package facts

// Architectures that the catalogue distinguishes, as uname -m names them.
const (
	X86   = "x86_64"
	ARM64 = "aarch64"
)

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
