package latency

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// TestLoadKeepsOffGuests: the load beside a measurement keeps off what is measured, isolated, or pinned to by vCPUs of
// guests that run; vCPUs that float have no dedicated CPUs, and what a guest that is off would have is free.
func TestLoadKeepsOffGuests(t *testing.T) {
	vcpu := func(cpus ...int) facts.Thread {
		return facts.Thread{Role: "vcpu", Affinity: setting.CPUs(cpus...)}
	}
	all := setting.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
	for name, c := range map[string]struct {
		guests []facts.Guest
		want   string
	}{
		"no guest": {nil, "0-5"},
		"another guest's vCPU": {[]facts.Guest{{State: "running", Threads: []facts.Thread{vcpu(2), vcpu(3)}}},
			"0-1,4-5"},
		"one that is paused": {[]facts.Guest{{State: "paused", Threads: []facts.Thread{vcpu(2, 3)}}}, "0-1,4-5"},
		"one that floats":    {[]facts.Guest{{State: "running", Threads: []facts.Thread{vcpu(all...)}}}, "0-5"},
		"one that is off":    {[]facts.Guest{{State: "shut off", Pins: []setting.CPUSet{setting.CPUs(2)}}}, "0-5"},
		"threads not seen": {[]facts.Guest{{State: "running", Pins: []setting.CPUSet{setting.CPUs(2), nil}}},
			"0-1,3-5"},
		"moved off its pins": {[]facts.Guest{{State: "running", Pins: []setting.CPUSet{setting.CPUs(2)},
			Threads: []facts.Thread{vcpu(4)}}}, "0-3,5"},
		"QEMU's own threads": {[]facts.Guest{{State: "running",
			Threads: []facts.Thread{{Role: "emulator", Affinity: setting.CPUs(0)}, vcpu(1)}}}, "0,2-5"},
		"nothing left": {[]facts.Guest{{State: "running", Threads: []facts.Thread{vcpu(0, 1, 2, 3, 4, 5)}}}, ""},
	} {
		h := &facts.Host{Guests: c.guests, Topology: facts.Topology{Online: all, Isolated: setting.CPUs(7)}}
		if got := loadCPUs(h, setting.CPUs(6)); got.String() != c.want {
			t.Errorf("%s: the load is on %q, expected %q", name, got, c.want)
		}
	}
}
