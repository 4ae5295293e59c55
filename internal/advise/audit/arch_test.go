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

// onlyX86 are addresses of x86_64 that no other machine has, or that its kernel or libvirt refuses.
func onlyX86(guest string) []setting.Address {
	arg := func(name string) setting.Address { return setting.Of(setting.KernelArg, name) }
	return []setting.Address{
		arg("iommu"), arg("intel_iommu"), arg("idle"), arg("intel_pstate"), arg("processor.max_cstate"),
		arg("intel_idle.max_cstate"), arg("tsc"), arg("mce"), setting.Of(setting.Fact, "host", "txt"),
		setting.Of(setting.Sysfs, "devices/system/clocksource/clocksource0/current_clocksource"),
		setting.Of(setting.Domain, guest, "cpu/cache.mode"),
		setting.Of(setting.Domain, guest, "clock/timer/kvmclock.present"),
		setting.Of(setting.Domain, guest, "features/kvm/hint-dedicated.state"),
		setting.Of(setting.Domain, guest, "cpu/migratable"),
	}
}

// ampere is a host of ARM64 with 64 CPUs on which nothing has been tuned.
func ampere() *facts.Host {
	h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 16, Guests: 4})
	h.Kernel.Arch, h.Kernel.Clocksource, h.KVM.Vendor = facts.ARM64, "arch_sys_counter", ""
	h.Topology.Vendor, h.Topology.Model, h.Firmware = "0x41", "Neoverse-N1", facts.Firmware{Tables: true, Groups: 50}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Missing("not there")
	}
	return h
}

// TestOtherArchitecture: nothing of x86_64 is wanted on another architecture, or where it is not known, and a site file
// does not change that.
func TestOtherArchitecture(t *testing.T) {
	site := func(_ string, a setting.Address, advice knob.Advice) knob.Advice {
		if a == setting.Of(setting.KernelArg, "tsc") {
			return knob.Wants(setting.Exact("reliable"), "the site wants it")
		}
		return advice
	}
	for arch, state := range map[string]State{facts.ARM64: NotApplicable, "riscv64": NotApplicable, "": Unknown} {
		h := ampere()
		h.Kernel.Arch = arch
		forbidden := onlyX86(h.Guests[0].Name)
		for _, g := range []goal.Goal{goal.Unlimited(), {PPS: 5e6}, {Latency: 20 * time.Microsecond}} {
			for _, f := range RunWith(h, g, knob.Catalogue(), site).Findings {
				if slices.Contains(forbidden, f.Address) && f.State != state && f.State != NotApplicable {
					t.Errorf("%q: %s at %s is %s, wants %q: %s", arch, f.ID, f.Address, f.State, f.Wanted, f.Why)
				}
			}
		}
	}
}
