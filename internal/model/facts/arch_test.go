package facts

import (
	"testing"

	"mpps/internal/must"
)

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
