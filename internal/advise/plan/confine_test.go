package plan

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// TestConfine: a vhost thread gets a CPU only where the cpuset of its guest's emulator has it, now or by this plan.
func TestConfine(t *testing.T) {
	thread := setting.Of(setting.ThreadAffinity, "vm1", "vhost", "52:54:00:00:00:01", "0")
	pin := Change{ID: "domain.emulatorpin", Address: setting.Of(setting.DomainLive, "vm1", "emulatorpin"),
		To: setting.Value("5-6")}
	other := pin
	other.Address = setting.Of(setting.Domain, "vm1", "emulatorpin") // of the next start
	for name, c := range map[string]struct {
		emulator setting.CPUSet
		beside   []Change
		kept     bool
	}{
		"the emulator has the CPU":          {setting.CPUs(4, 5), nil, true},
		"the emulator has others":           {setting.CPUs(1, 2), nil, false},
		"this plan gives it the CPU":        {setting.CPUs(1, 2), []Change{pin}, true},
		"this plan takes the CPU from it":   {setting.CPUs(4), []Change{pin}, false},
		"only its next start has the CPU":   {setting.CPUs(1, 2), []Change{other}, false},
		"where the emulator is is not seen": {nil, nil, true},
	} {
		h := &facts.Host{Guests: []facts.Guest{{Name: "vm1",
			Threads: []facts.Thread{{Role: "emulator", Affinity: c.emulator}}}}}
		to := "5"
		if name == "this plan takes the CPU from it" {
			to = "4"
		}
		p := &Plan{Changes: append(c.beside, Change{ID: "vhost.threads", Address: thread, To: setting.Value(to)})}
		p.dropOutsideEmulator(h)
		if kept := len(p.Changes) == len(c.beside)+1; kept != c.kept || kept == (len(p.Skipped) == 1) {
			t.Errorf("%s: kept %v, %+v", name, kept, p.Skipped)
		}
	}
}
