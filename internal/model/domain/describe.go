package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Description is the input for a complete definition.
type Description struct {
	Name      string
	UUID      string // empty: libvirt makes one
	VCPUs     int
	MemoryKiB uint64
	NICs      []NICDescription
	Disks     []string // files or block devices, in the order in which the guest sees them
	HostDevs  []string // PCI functions
	Nodes     string   // host nodes for its memory; with several, the guest gets one NUMA cell each
	CPUs      string   // one CPU per vCPU, in order
	Emulator  string   // CPUs of QEMU's own threads
	HugePages string   // page size such as 1GiB, or default
	Machine   string   // empty: q35
	UEFI      bool
	Realtime  bool
	Windows   bool

	// Kernel is the file of a kernel to boot without boot loader, with Initrd and Arguments; empty: the disk's boot
	// loader. Such a guest ends where others boot again.
	Kernel, Initrd, Arguments string
	Console                   string // file for the output of the serial port; empty: a terminal
	Mark                      *Mark  // of the program that makes the guest; nil: none
}

// NICDescription is one NIC. Exactly one of Bridge, Network, Direct and VF is set.
type NICDescription struct {
	Bridge, Network, Direct, VF string
	MAC, Model, Driver          string
	Queues, RxQueueSize         int
	Coalesce, MTU, VLAN         int
}

// DescriptionError reports an invalid description. What is a field as a YAML file has it, or "NIC 0".
type DescriptionError struct{ What, Problem, Advice string }

func (e *DescriptionError) Error() string { return e.What + ": " + e.Problem }

// Hint returns the advice; it may be empty.
func (e *DescriptionError) Hint() string { return e.Advice }

// MaxVCPUs is the largest number of vCPUs: KVM_MAX_VCPUS of x86 (arch/x86/include/asm/kvm_host.h).
const MaxVCPUs = 4096

// check refuses a description that gives no usable definition.
func (s Description) check() error {
	bad := func(what, problem, advice string) error { return &DescriptionError{what, problem, advice} }
	switch {
	case s.Name == "":
		return bad("name", "found nothing, expected the guest's name", "")
	case len(s.Name) > 255 || strings.ContainsAny(s.Name, "/\n\r\t") || strings.TrimSpace(s.Name) == "" ||
		strings.Trim(s.Name, ".") == "":
		return bad("name", fmt.Sprintf("found %q, expected up to 255 characters without slashes and line ends",
			clip(s.Name)), "libvirt names a file after it")
	case checkXMLText("name", s.Name) != nil:
		return checkXMLText("name", s.Name)
	case strings.TrimSpace(s.Name) != s.Name:
		return bad("name", fmt.Sprintf("found %q, expected no white space around it", clip(s.Name)), "")
	case s.UUID != "" && !uuid.MatchString(s.UUID):
		return bad("uuid", fmt.Sprintf("found %q, expected a UUID such as 5f2d1c1a-0c3b-4a55-9e5e-3e1d2c4b5a01",
			clip(s.UUID)), "left out, libvirt makes one")
	case s.VCPUs < 1 || s.VCPUs > MaxVCPUs:
		return bad("vcpus", fmt.Sprintf("found %d, expected 1 to %d", s.VCPUs, MaxVCPUs), "")
	case s.MemoryKiB < 1024:
		return bad("memory", fmt.Sprintf("found %d KiB, expected at least 1 MiB", s.MemoryKiB), "such as 8GiB")
	case s.Realtime && (s.CPUs == "" || s.Emulator == ""):
		return bad("realtime", "found no dedicated CPUs, expected one for each vCPU and others for QEMU",
			"a realtime guest runs on isolated CPUs: name them, and those of the emulator")
	}
	cpus, err := s.cpus()
	if err != nil {
		return err
	}
	if s.Emulator != "" {
		set, err := ParseSet(s.Emulator)
		if err != nil {
			return bad("emulator_cpus", err.Error(), "such as 0-1")
		}
		if slices.ContainsFunc(set, func(n int) bool { return slices.Contains(cpus, n) }) {
			return bad("emulator_cpus", fmt.Sprintf("%s and the vCPUs' %s overlap", s.Emulator, s.CPUs),
				"QEMU's own threads would take time from a vCPU in the middle of a burst")
		}
	}
	for i, n := range s.NICs {
		if err := n.check(i); err != nil {
			return err
		}
	}
	for _, path := range s.Disks {
		if !strings.HasPrefix(path, "/") {
			return bad("disk", fmt.Sprintf("found %q, expected a path from / on", clip(path)),
				"libvirt looks for it from its own directory")
		}
	}
	for what, texts := range map[string][]string{"disk": s.Disks, "machine": {s.Machine},
		"kernel": {s.Kernel, s.Initrd, s.Arguments}, "console": {s.Console}} {
		for _, text := range texts {
			if err := checkXMLText(what, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkXMLText refuses characters that XML cannot hold.
func checkXMLText(what, text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !legalRune(r) }) {
		return &DescriptionError{what, "holds characters that XML does not have", ""}
	}
	return nil
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (s Description) cpus() ([]int, error) {
	if s.CPUs == "" {
		return nil, nil
	}
	set, err := ParseSet(s.CPUs)
	if err != nil {
		return nil, &DescriptionError{"cpus", err.Error(), "such as 2-5"}
	}
	if len(set) != s.VCPUs {
		return nil, &DescriptionError{"cpus", fmt.Sprintf("found %d (%s), expected %d, one for each vCPU", len(set),
			FormatSet(set), s.VCPUs), "vCPUs that share a CPU lose packets"}
	}
	return set, nil
}

func (n NICDescription) check(i int) error {
	what, places := "NIC "+strconv.Itoa(i), 0
	for _, text := range []string{n.Bridge, n.Network, n.Direct, n.MAC} {
		if err := checkXMLText(what, text); err != nil {
			return err
		}
	}
	for _, place := range []string{n.Bridge, n.Network, n.Direct, n.VF} {
		if place != "" {
			places++
		}
	}
	_, isMAC := CanonMAC(n.MAC)
	_, isPCI := CanonPCI(n.VF)
	switch {
	case n.MAC != "" && !isMAC:
		return &DescriptionError{what, fmt.Sprintf("found %q, expected a MAC address such as 52:54:00:00:00:01",
			clip(n.MAC)), ""}
	case places != 1:
		return &DescriptionError{what, fmt.Sprintf("leads to %d places, expected one", places),
			"one of bridge, network, direct (a device of the host) and vf (a PCI address)"}
	case n.VF != "" && !isPCI:
		return &DescriptionError{what, fmt.Sprintf("found %q, expected a PCI address such as 0000:01:10.0",
			clip(n.VF)), ""}
	}
	return nil
}
