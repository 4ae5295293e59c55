package facts

import (
	"testing"

	"mpps/internal/must"
)

func TestZen(t *testing.T) {
	for _, c := range []struct {
		vendor        string
		family, model int
		want          int
	}{
		{"AuthenticAMD", 0x17, 0x01, 1}, // EPYC 7001
		{"AuthenticAMD", 0x17, 0x31, 2}, // EPYC 7002
		{"AuthenticAMD", 0x19, 0x01, 3}, // EPYC 7003
		{"AuthenticAMD", 0x19, 0x11, 4}, // EPYC 9004
		{"AuthenticAMD", 0x19, 0xa0, 4}, // EPYC 9004, dense cores
		{"AuthenticAMD", 0x1a, 0x02, 5}, // EPYC 9005
		{"HygonGenuine", 0x18, 0x01, 1},
		{"AuthenticAMD", 0x15, 0x02, 0}, // Opteron 6300
		{"AuthenticAMD", 0x1b, 0x00, 0}, // none that is known
		{"GenuineIntel", 0x19, 0x11, 0},
	} {
		top := Topology{Vendor: c.vendor, Processor: &Processor{Family: c.family, Model: c.model}}
		must.Equal(t, top.Zen(), c.want, "%s family %#x model %#x: generation", c.vendor, c.family, c.model)
	}
	must.Equal(t, (&Topology{Vendor: "AuthenticAMD"}).Zen(), 0, "a generation of a processor that was not recorded")
}

func TestBeforeMesh(t *testing.T) {
	for model, want := range map[int]bool{0x2c: true, 0x2d: true, 0x3f: true, 0x4f: true, 0x55: false, 0x6a: false,
		0x8f: false} {
		top := Topology{Vendor: "GenuineIntel", Processor: &Processor{Family: 6, Model: model}}
		must.Equal(t, top.BeforeMesh(), want, "model %#x", model)
	}
	must.Hold(t, !(&Topology{Vendor: "GenuineIntel"}).BeforeMesh(), "an unknown model is old")
}

func TestMemoryType(t *testing.T) {
	of := func(vendor string, family, model int) Host {
		return Host{Topology: Topology{Vendor: vendor, Processor: &Processor{Family: family, Model: model}}}
	}
	for name, c := range map[string]struct {
		h    Host
		want string
	}{
		"as the modules say": {Host{Firmware: Firmware{Memory: "DDR4"},
			Topology: Topology{Vendor: "AuthenticAMD", Processor: &Processor{Family: 0x19, Model: 0x11}}}, "DDR4"},
		"Genoa":           {of("AuthenticAMD", 0x19, 0x11), "DDR5"},
		"Milan":           {of("AuthenticAMD", 0x19, 0x01), ""},
		"Sapphire Rapids": {of("GenuineIntel", 6, 0x8f), "DDR5"},
		"Ice Lake":        {of("GenuineIntel", 6, 0x6a), ""},
		"unknown":         {Host{}, ""},
	} {
		must.Equal(t, c.h.MemoryType(), c.want, "%s", name)
	}
}

// TestArchitecture: what was recorded counts; older snapshots tell it only by what x86_64 alone has.
func TestArchitecture(t *testing.T) {
	for want, hosts := range map[string][]Host{
		ARM64: {{Kernel: Kernel{Arch: "aarch64"}},
			{Kernel: Kernel{Arch: "aarch64"}, Topology: Topology{Vendor: "0x41"}}},
		X86: {{Kernel: Kernel{Arch: "x86_64"}}, {Topology: Topology{Vendor: "GenuineIntel"}},
			{Topology: Topology{Vendor: "AuthenticAMD"}}, {Topology: Topology{Vendor: "HygonGenuine"}},
			{KVM: KVM{Vendor: "kvm_amd"}}},
		"i686": {{Kernel: Kernel{Arch: "i686"}, Topology: Topology{Vendor: "GenuineIntel"}}},
		"": {{}, {Kernel: Kernel{Release: "6.12.0-1.x86_64"}}, {Topology: Topology{Vendor: "0x41"}},
			{Topology: Topology{Model: "Intel"}}},
	} {
		for _, h := range hosts {
			must.Equal(t, h.Architecture(), want, "%+v %+v", h.Kernel, h.Topology)
		}
	}
}
