package facts

import "slices"

// Processor is how the kernel numbers an x86 processor (/proc/cpuinfo): what its name stands for.
type Processor struct {
	Family int `json:"family"` // "cpu family"
	Model  int `json:"model"`  // "model"
	// Flags are those of the lines "flags" and "vmx flags" that advice depends on: ProcessorFlags.
	Flags []string `json:"flags,omitempty"`
}

// ProcessorFlags are the flags that are recorded (arch/x86/include/asm/cpufeatures.h, vmxfeatures.h): the kernel found
// that the processor can deliver guests' interrupts itself (avic, x2avic: AMD; apicv, ipi_virt: Intel), and how far its
// TSC can be trusted.
var ProcessorFlags = []string{"apicv", "avic", "constant_tsc", "ipi_virt", "nonstop_tsc", "tsc_adjust", "tsc_reliable",
	"x2avic"}

// Has reports whether the kernel listed all of these flags. Kernels list only what they know: x2avic since 6.0, the
// flags of VMX since 5.6.
func (p *Processor) Has(flags ...string) bool {
	return p != nil && !slices.ContainsFunc(flags, func(f string) bool { return !slices.Contains(p.Flags, f) })
}

// models is a range of model numbers of a family.
type models struct{ family, first, last, generation int }

// zen are the generations by arch/x86/kernel/cpu/amd.c, bsp_init_amd, of Linux 6.18. Hygon's family 18h is the first.
var zen = []models{
	{0x17, 0x00, 0x2f, 1}, {0x17, 0x50, 0x5f, 1}, {0x18, 0x00, 0xff, 1},
	{0x17, 0x30, 0x4f, 2}, {0x17, 0x60, 0x7f, 2}, {0x17, 0x90, 0x91, 2}, {0x17, 0xa0, 0xaf, 2},
	{0x19, 0x00, 0x0f, 3}, {0x19, 0x20, 0x5f, 3},
	{0x19, 0x10, 0x1f, 4}, {0x19, 0x60, 0xaf, 4},
	{0x1a, 0x00, 0x2f, 5}, {0x1a, 0x40, 0x4f, 5}, {0x1a, 0x60, 0x7f, 5},
	{0x1a, 0x50, 0x5f, 6}, {0x1a, 0x80, 0xaf, 6}, {0x1a, 0xc0, 0xcf, 6},
}

// Zen returns the generation of an AMD or Hygon processor, 1 for the first EPYC; 0 if unknown or older.
func (t *Topology) Zen() int {
	if p := t.Processor; p != nil && (t.Vendor == "AuthenticAMD" || t.Vendor == "HygonGenuine") {
		for _, m := range zen {
			if p.Family == m.family && p.Model >= m.first && p.Model <= m.last {
				return m.generation
			}
		}
	}
	return 0
}

// BeforeMesh reports whether Intel's processors are known to be older than Xeon Scalable, whose mesh and L3 brought
// firmware items of their own: up to Broadwell-D, model 56h, without Skylake-SP, 55h
// (arch/x86/include/asm/intel-family.h).
func (t *Topology) BeforeMesh() bool {
	p := t.Processor
	return p != nil && t.Vendor == "GenuineIntel" && p.Family == 6 && p.Model <= 0x56 && p.Model != 0x55
}

// FaultyOrdering reports whether the processors are known to be servers of Haswell or Broadwell, below whose root ports
// the kernel forbids relaxed ordering (drivers/pci/quirks.c, quirk_relaxedordering_disable; models by
// arch/x86/include/asm/intel-family.h).
func (t *Topology) FaultyOrdering() bool {
	p := t.Processor
	return p != nil && t.Vendor == "GenuineIntel" && p.Family == 6 && slices.Contains([]int{0x3f, 0x4f, 0x56}, p.Model)
}

// ddr5Only are the models of Intel's servers whose memory controllers know only DDR5 (arch/x86/include/asm/
// intel-family.h: Sapphire Rapids, Emerald Rapids, Granite Rapids, Sierra Forest).
var ddr5Only = []int{0x8f, 0xcf, 0xad, 0xae, 0xaf}

// MemoryType returns the type of the memory modules, DDR4 or DDR5: as the firmware says, or else what the processors
// can have at all; empty if neither tells.
func (h *Host) MemoryType() string {
	p := h.Topology.Processor
	switch {
	case h.Firmware.Memory != "" || p == nil:
		return h.Firmware.Memory
	case h.Topology.Zen() >= 4:
		return "DDR5"
	case h.Topology.Vendor == "GenuineIntel" && p.Family == 6 && slices.Contains(ddr5Only, p.Model):
		return "DDR5"
	}
	return ""
}

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
