package cpu

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Arch returns the machine's architecture as uname -m names it; empty if unknown. The live machine is asked by
// uname(2); in a recorded tree the fields of /proc/cpuinfo tell.
func Arch(m *tree.Tree) string {
	var name unix.Utsname
	if m.Live() && unix.Uname(&name) == nil {
		return unix.ByteSliceToString(name.Machine[:])
	}
	return archOf(FirstCPU(m))
}

// archOf returns the architecture whose kernel alone writes these lines to /proc/cpuinfo (show_cpuinfo in
// arch/x86/kernel/cpu/proc.c, arch/arm64/kernel/cpuinfo.c, arch/riscv/kernel/cpu.c, arch/s390/kernel/processor.c);
// empty if unknown. A 32-bit x86 kernel writes fdiv_bug too, and one of 32-bit ARM never architecture 8.
// POWER does not say its byte order there.
func archOf(cpu map[string]string) string {
	_, isIntel32 := cpu["fdiv_bug"]
	switch {
	case cpu["vendor_id"] == "IBM/S390":
		return "s390x"
	case slices.Contains(strings.Fields(cpu["flags"]), "lm") && cpu["vendor_id"] != "" && !isIntel32:
		return facts.X86
	case cpu["CPU implementer"] != "" && cpu["CPU architecture"] == "8":
		return facts.ARM64
	case strings.HasPrefix(cpu["isa"], "rv64"):
		return "riscv64"
	}
	return ""
}
