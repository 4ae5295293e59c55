package cpu

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

func TestArchRecorded(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme lm constant_tsc\n":               "x86_64",
		"processor\t: 0\nvendor_id\t: CentaurHauls\nflags\t\t: fpu lm\n":                                "x86_64",
		"processor\t: 0\nvendor_id\t: GenuineIntel\nfdiv_bug\t: no\nflags\t\t: fpu lm\n":                "",
		"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme\n":                               "",
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\n":                                "aarch64",
		"processor\t: 0\nmodel name\t: ARMv7 Processor\nCPU implementer\t: 0x41\nCPU architecture: 7\n": "",
		"processor\t: 0\nisa\t\t: rv64imafdch_zicbom\n":                                                 "riscv64",
		"vendor_id       : IBM/S390\n# processors    : 4\n":                                             "s390x",
		"processor\t: 0\ncpu\t\t: POWER9, altivec supported\n":                                          "",
		"": "",
	} {
		must.Equal(t, Arch(treetest.Lines(t, map[string]string{"proc/cpuinfo": text})), want, "%q", text)
	}
}

// TestModelOfArm: 64-bit Arm has no name in /proc/cpuinfo, only numbers; a name goes before them.
func TestModelOfArm(t *testing.T) {
	for text, want := range map[string]string{
		"CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n":                         "Neoverse-N1",
		"CPU implementer\t: 0x48\nCPU part\t: 0xd01\n":                         "TaiShan-v110",
		"CPU implementer\t: 0x43\nCPU part\t: 0xd0c\n":                         "",
		"model name\t: Some Arm\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n": "Some Arm",
		"processor\t: 0\n": "",
	} {
		must.Equal(t, Model(FirstCPU(treetest.Lines(t, map[string]string{"proc/cpuinfo": text}))), want, "%q", text)
	}
}
