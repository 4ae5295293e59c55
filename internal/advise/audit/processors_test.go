package audit

import (
	"slices"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// intelOnly and amdOnly are knobs that the other maker's processors do not have.
var (
	intelOnly = []string{"firmware.c3", "firmware.c1e", "firmware.package_c_state", "firmware.llc_dead_line_alloc",
		"firmware.stale_atos", "firmware.cluster_on_die", "firmware.txt", "firmware.enhanced_error_containment",
		"kvm.apicv"}
	amdOnly = []string{"firmware.ctdp", "firmware.df_c_states", "firmware.df_p_state", "firmware.numa_per_socket",
		"kvm.amd_avic"}
)

// TestProcessors: no host is asked for what its processors do not have, or what is wrong on their generation.
func TestProcessors(t *testing.T) {
	avic := []string{"kvm.amd_avic"}
	goals := []goal.Goal{{PPS: 1.8e6, Frame: 64}, {PPS: 5e6, Frame: 64}, {Latency: 20 * time.Microsecond}}
	for name, c := range map[string]struct {
		vendor, module string
		family, model  int
		flags          []string
		not            []string // knobs that have nothing to say
		fine           []string // knobs that find the host as it should be
	}{
		"Rome":  {"AuthenticAMD", "kvm_amd", 0x17, 0x31, []string{"avic"}, intelOnly, avic},
		"Milan": {"AuthenticAMD", "kvm_amd", 0x19, 0x01, []string{"avic"}, intelOnly, avic},
		"Bergamo": {"AuthenticAMD", "kvm_amd", 0x19, 0xa0, []string{"avic", "x2avic"},
			append([]string{"firmware.wr_crc"}, intelOnly...), nil},
		"Dhyana": {"HygonGenuine", "kvm_amd", 0x18, 0x01, nil, intelOnly, avic},
		"Broadwell": {"GenuineIntel", "kvm_intel", 6, 0x4f, []string{"apicv"},
			append([]string{"firmware.stale_atos", "firmware.llc_dead_line_alloc"}, amdOnly...), nil},
		"Sapphire Rapids": {"GenuineIntel", "kvm_intel", 6, 0x8f, []string{"apicv", "ipi_virt"},
			append([]string{"firmware.wr_crc"}, amdOnly...), nil},
	} {
		h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 8, Guests: 4})
		h.Topology.Vendor, h.KVM.Vendor = c.vendor, c.module
		h.Topology.Processor = &facts.Processor{Family: c.family, Model: c.model, Flags: c.flags}
		h.Readings[setting.Of(setting.ModuleParam, "kvm_amd", "avic")] = setting.Value("N")
		for _, g := range goals {
			for _, f := range Run(h, g, knob.Catalogue()).Findings {
				switch {
				case slices.Contains(c.not, f.ID) && f.State != NotApplicable,
					slices.Contains(c.fine, f.ID) && f.State == Off,
					f.ID == "firmware.numa_per_socket" && f.State == Off:
					t.Errorf("%s, %s: %s is %s: %s", name, g.Tier(), f.ID, f.State, f.Why)
				}
			}
		}
	}
}
