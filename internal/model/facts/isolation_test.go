package facts

import (
	"encoding/json"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func isolated() *Host {
	return &Host{
		Name: "host", Guests: []Guest{{Name: "secret"}},
		Isolation: &Isolation{
			Cgroups: []Cgroup{
				{Path: `machine.slice/machine-qemu\x2d1\x2dsecret.scope/libvirt/vcpu0`, Guest: "secret", Part: "vcpu0",
					Effective: setting.CPUs(3)},
				{Path: "system.slice", CPUs: setting.CPUs(0, 1), Effective: setting.CPUs(0, 1)},
				{Path: "user.slice", Effective: setting.CPUs(0, 1)},
			},
			IRQBalance: &IRQBalance{Configured: true, Banned: setting.CPUs(3), From: "its environment"},
		},
		Observed: &Observation{Seconds: 5, Threads: []ThreadRun{{TID: 1, Comm: "dd"}}},
	}
}

// TestIsolationScrubbed: the groups of guests bear their names.
func TestIsolationScrubbed(t *testing.T) {
	h := isolated()
	c := Scrub(h)
	if got := c.Isolation.Cgroups[0]; got.Path != "machine.slice/guest1.scope/libvirt/vcpu0" || got.Guest != "guest1" ||
		got.Part != "vcpu0" {
		t.Errorf("%+v", got)
	}
	text := must.Get(json.Marshal(c))(t)
	must.Hold(t, !strings.Contains(string(text), "secret") && strings.Contains(string(text), "system.slice"),
		"%s", text)
	must.Equal(t, h.Isolation.Cgroups[0].Guest, "secret", "the original was changed")
}

// TestIsolationConfiguration: what was watched, guests' groups and what follows from others are no configuration; what
// a slice and irqbalance are told is.
func TestIsolationConfiguration(t *testing.T) {
	a, b := isolated(), isolated()
	b.Observed, b.Isolation.Cgroups[0].Effective, b.Isolation.Cgroups[1].Effective = nil, setting.CPUs(0),
		setting.CPUs(0)
	b.Isolation.IRQBalance.From = "/etc/default/irqbalance"
	b.Isolation.Cgroups = b.Isolation.Cgroups[:2]
	if d := Diff(a, b); len(d) > 0 || digest(a) != digest(b) {
		t.Errorf("%v", d)
	}
	b.Isolation.Cgroups[1].CPUs = setting.CPUs(0)
	b.Isolation.IRQBalance.Banned = nil
	if d := Diff(a, b); len(d) != 2 {
		t.Errorf("expected two differences, found %v", d)
	}
}
