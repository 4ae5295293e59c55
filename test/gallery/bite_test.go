package gallery

import (
	"maps"
	"slices"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/placement"
	"mpps/internal/advise/plan"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// written is a change that no knob plans.
func written(kind setting.Kind, path, value string) plan.Change {
	return plan.Change{ID: "test", Address: setting.Address{Kind: kind, Path: path}, From: setting.Value("0"),
		To: setting.Value(value), Risk: goal.None}
}

// TestPropertiesCanFail breaks each property of all hosts on one of them: its check finds it, and nothing before.
func TestPropertiesCanFail(t *testing.T) {
	const vhost = "/vhost/52:54:00:00:00:00/0"
	adds := func(c plan.Change) func(v *verdict) {
		return func(v *verdict) { v.plan.Changes = append(v.plan.Changes, c) }
	}
	instead := func(id, value string) func(v *verdict) {
		return func(v *verdict) {
			i := slices.IndexFunc(v.plan.Changes, func(c plan.Change) bool { return c.ID == id })
			v.plan.Changes[i].To = setting.Value(value)
		}
	}
	for _, c := range []struct {
		host, problem string
		breaks        func(v *verdict)
	}{
		{"tuned-well", "worse vhost on CPU, fw", adds(written(setting.ThreadAffinity, "fw"+vhost, "3"))},
		{"tuned-well", "worse vhost on core, fw", adds(written(setting.ThreadAffinity, "fw"+vhost, "35"))},
		{"tuned-well", "worse vcpu on core, fw", adds(written(setting.DomainLive, "fw/vcpupin/0", "34"))},
		{"tuned-well", "worse vcpu on CPU, fw", adds(written(setting.DomainLive, "fw/vcpupin/0", "2"))},
		{"tuned-well", "worse nodes, fw", adds(written(setting.DomainLive, "fw/vcpupin/0", "20"))},
		{"tuned-well", "worse emulator on CPU, fw", adds(written(setting.DomainLive, "fw/emulatorpin", "0-1"))},
		{"nfv-mixed", "worse vcpu on ordinary, fast1", adds(written(setting.DomainLive, "fast1/vcpupin/0", "5"))},
		{"nfv-mixed", "worse vhost on isolated, fast1", adds(written(setting.ThreadAffinity, "fast1"+vhost, "40"))},
		{"ovs-dpdk", "worse vcpu on poller, vnf1", adds(written(setting.DomainLive, "vnf1/vcpupin/0", "2"))},
		{"ovs-dpdk", "polled test", adds(written(setting.DomainLive, "vnf1/emulatorpin", "3"))},
		{"ovs-netdev", "declined test", adds(written(setting.NICRing, "ens1f0/rx", "4096"))},
		{"ovs-netdev", "declined test", adds(written(setting.Sysfs, "class/net/br-user/tx_queue_len", "1"))},
		{"intel-bridge", "again cpu.governor", instead("cpu.governor", "ondemand")},
		{"intel-bridge", "again domain.vcpupin", instead("domain.vcpupin", "31")},
		{"intel-bridge", "moves domain.vcpupin", instead("domain.vcpupin", "31")},
		{"tuned-well", "second nic.irq_affinity", func(v *verdict) { v.plan.Later = nil }},
		{"intel-bridge", "unknown test", func(v *verdict) {
			c := written(setting.Sysctl, "vm.swappiness", "1")
			c.From = setting.CouldNotTell("test")
			v.plan.Changes = append(v.plan.Changes, c)
		}},
		{"intel-bridge", "consent test", func(v *verdict) {
			c := written(setting.Sysctl, "vm.swappiness", "1")
			c.Risk = goal.Security
			v.plan.Changes = append(v.plan.Changes, c)
		}},
		{"intel-bridge", "twice", func(v *verdict) { v.report.Findings = v.report.Findings[1:] }},
		{"intel-bridge", "takes", func(v *verdict) { v.took = 3e9 }},
		{"tuned-well", "refused", func(v *verdict) {
			place := *v.report.Place
			place.Refused = append(place.Refused, placement.Refusal{Guest: v.guests[0].Name})
			v.report.Place = &place
		}},
		{"tuned-by-intel", "guide test", func(v *verdict) {
			v.report.Findings = append(v.report.Findings, audit.Finding{ID: "test", State: audit.Off,
				Severity: knob.Medium})
		}},
	} {
		s := host(t, c.host)
		m := must.Get(s.build())(t)
		m.Gather()
		v := must.Get(judge(m, s.ownGoals()[0]))(t)
		before, after := problems{}, problems{}
		s.checkProperties([]verdict{v}, 0, before)
		c.breaks(&v)
		s.checkProperties([]verdict{v}, 0, after)
		if key := s.Name + " " + c.problem; len(before) > 0 || after[key] == "" {
			t.Errorf("expected %q: before %v, then %q", key, before, slices.Sorted(maps.Keys(after)))
		}
	}
}

// TestPropertiesApply counts the cases that the properties of all hosts are about: with none they would hold of
// anything.
func TestPropertiesApply(t *testing.T) {
	found := map[string]int{}
	for i, s := range allHosts(t) {
		for what, is := range lookAt(t, s, i).has {
			if is {
				found[what]++
			}
		}
	}
	for what, least := range map[string]int{
		"tuned by a guide": 4, "a path that is not judged": 12, "such a path of a NIC": 2, "a plan with changes": 80,
		"threads that move": 50, "interrupts that move": 10, "refused guests": 2, "polling processes": 2,
	} {
		must.Hold(t, found[what] >= least, "%s: %d hosts, expected at least %d", what, found[what], least)
	}
	t.Logf("%v", found)
}
