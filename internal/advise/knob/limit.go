package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Makers of processors. Hygon's count as AMD's, whose design they are; Centaur's are Zhaoxin's (arch/x86/kernel/cpu/
// zhaoxin.c, centaur.c).
const (
	Intel   = "intel"
	AMD     = "amd"
	Zhaoxin = "zhaoxin"
)

// Limit names the machines that have a value. Where the architecture or the maker is not known, nothing is judged.
type Limit struct {
	Arch    []string `json:"arch,omitempty"`    // as uname -m; empty: every one
	Vendors []string `json:"vendors,omitempty"` // makers of processors: intel, amd, zhaoxin; empty: every one
	// The oldest libvirt and QEMU that take the value, as "5.7"; empty: any. Older ones refuse the definition, or the
	// guest does not start.
	Libvirt string `json:"libvirt,omitempty"`
	QEMU    string `json:"qemu,omitempty"`
}

var (
	onX86   = Limit{Arch: []string{facts.X86}}
	onARM64 = Limit{Arch: []string{facts.ARM64}}
	onIntel = Limit{Arch: []string{facts.X86}, Vendors: []string{Intel}}
	onAMD   = Limit{Arch: []string{facts.X86}, Vendors: []string{AMD}}
	// Zhaoxin's IOMMU is Intel's (drivers/iommu/intel/dmar.c finds it by the same table)
	onDMAR = Limit{Arch: []string{facts.X86}, Vendors: []string{Intel, Zhaoxin}}
)

// limitOf returns the limit of an address: that of the part, or else the knob's own.
func (k *Knob) limitOf(a setting.Address) Limit {
	for _, part := range []string{a.Path, a.Rest()} {
		if l, found := k.Parts[part]; found {
			return l
		}
	}
	return k.Limit
}

// Limited returns the advice for an address that this host lacks, or may lack: a value of another architecture or of
// another maker's processors. There nobody's wish counts, not even the site file's.
func (k *Knob) Limited(h *facts.Host, a setting.Address) (Advice, bool) {
	l, arch, vendor := k.limitOf(a), h.Architecture(), cpuVendor(h)
	switch {
	case len(l.Arch) > 0 && arch == "":
		return Unsure(fmt.Sprintf("for %s only, and this host's architecture is not known",
			strings.Join(l.Arch, " or "))), true
	case len(l.Arch) > 0 && !slices.Contains(l.Arch, arch):
		return Skips(fmt.Sprintf("for %s only: this host is %s", strings.Join(l.Arch, " or "), arch)), true
	case len(l.Vendors) > 0 && vendor == "":
		return Unsure("the processors' maker is not known"), true
	case len(l.Vendors) > 0 && !slices.Contains(l.Vendors, vendor):
		return Skips("for " + l.makers() + " processors only"), true
	case older(h.KVM.Libvirt, l.Libvirt):
		return Skips(fmt.Sprintf("libvirt has it since %s: this one is %s", l.Libvirt, h.KVM.Libvirt)), true
	case older(h.KVM.QEMU, l.QEMU):
		return Skips(fmt.Sprintf("QEMU has it since %s: this one is %s", l.QEMU, h.KVM.QEMU)), true
	}
	return Advice{}, false
}

// older reports whether a version is known to be older than another one, if there is such a limit.
func older(found, least string) bool {
	_, _, known := version(found)
	return known && least != "" && facts.CompareVersions(found, least) < 0
}

// cpuVendor returns the maker of the processors: intel, amd (also for Hygon), zhaoxin, or "" if unknown.
func cpuVendor(h *facts.Host) string {
	switch vendor := strings.ToLower(h.Topology.Vendor); {
	case strings.Contains(vendor, "intel"), vendor == "" && h.KVM.Vendor == "kvm_intel":
		return Intel
	case strings.Contains(vendor, "amd"), strings.Contains(vendor, "hygon"), vendor == "" && h.KVM.Vendor == "kvm_amd":
		return AMD
	case strings.Contains(vendor, "centaur"), strings.Contains(vendor, "shanghai"):
		return Zhaoxin
	}
	return ""
}

// makers returns the makers in words: "Intel's".
func (l Limit) makers() string {
	var names []string
	for _, v := range l.Vendors {
		names = append(names, map[string]string{Intel: "Intel's", AMD: "AMD's", Zhaoxin: "Zhaoxin's"}[v])
	}
	return strings.Join(names, " or ")
}

// Words says which machines a limit allows: "x86_64, Intel's processors, libvirt 6.5 or newer"; empty if it allows all.
func (l Limit) Words() string {
	text := strings.Join(l.Arch, ", ")
	if len(l.Vendors) > 0 {
		text += ", " + l.makers() + " processors"
	}
	if l.Libvirt != "" {
		text += ", libvirt " + l.Libvirt + " or newer"
	}
	if l.QEMU != "" {
		text += ", QEMU " + l.QEMU + " or newer"
	}
	return strings.TrimPrefix(text, ", ")
}
