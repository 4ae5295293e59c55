package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// lab is a host of four CPUs on two nodes with a guest whose e1000 NIC is on a bridge in netfilter's way.
func lab() *facts.Host {
	h := small()
	h.Kernel.Arch = facts.X86
	h.Bridges[0].Ports = []string{"eth0"}
	h.NICs = []facts.NIC{{
		Name: "eth0", MAC: "52:54:00:00:01:00", Driver: "igb", Node: 1, Up: true, Master: "br0",
		Management: "default route", RxQueues: 1, TxQueues: 2,
		Channels: &facts.Channels{Combined: 1, MaxCombined: 4},
		Rings:    &facts.Rings{Rx: 64, Tx: 256, MaxRx: 4096, MaxTx: 4096},
		IRQs:     []facts.IRQ{{Number: 9, On: "TxRx-0"}},
	}}
	h.Guests = []facts.Guest{{
		Name: "vm1", UUID: "u", Managed: true, State: "running", VCPUs: 2, Memory: 1 << 29,
		Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "bridge", Source: "br0", Model: "e1000",
			Queues: 1}},
	}}
	for id := range 4 {
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: id, Online: true, Core: id, Node: id / 2})
	}
	h.Topology.Online = setting.CPUs(0, 1, 2, 3)
	h.Topology.Nodes = []facts.Node{{ID: 0}, {ID: 1}}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		if _, read := h.Readings[a]; !read {
			h.Readings[a] = setting.Missing("not there")
		}
	}
	for at, value := range map[string]string{
		"nic-ring:eth0/rx": "64", "nic-channels:eth0/combined": "1", "irq-affinity:eth0/TxRx-0/9": "0-3",
		"domain:vm1/interface/52:54:00:00:00:01/model": "e1000", "service:irqbalance": "running",
		"kernel-arg:pcie_aspm.policy": "performance", "sysfs:module/kvm_amd/parameters/avic": "0",
	} {
		a, err := setting.ParseAddress(at)
		if err != nil {
			panic(err)
		}
		h.Readings[a] = setting.Value(value)
	}
	return h
}

func ids(changes []Change) (all []string) {
	for _, c := range changes {
		if !slices.Contains(all, c.ID) {
			all = append(all, c.ID)
		}
	}
	return all
}

func TestLab(t *testing.T) {
	h := lab()
	p := must.Get(Make(h, goal.Unlimited(), knob.Catalogue(), nil))(t)
	want := []string{
		"nic.channels", "nic.ring.rx", "nic.irqbalance", "netfilter.bridge",
		"domain.nic_model", "domain.backend", "domain.queues", "domain.coalesce", "domain.vcpupin",
		"domain.emulatorpin", "domain.numatune",
		"domain.cpu_model",
	}
	got := ids(p.Changes)
	for _, id := range want {
		must.Hold(t, slices.Contains(got, id), "%s is not planned", id)
	}
	for _, pair := range [][2]string{{"nic.channels", "nic.ring.rx"}, {"domain.nic_model", "domain.queues"},
		{"domain.backend", "domain.queues"}, {"domain.vcpupin", "domain.emulatorpin"}} {
		must.Hold(t, slices.Index(got, pair[0]) <= slices.Index(got, pair[1]),
			"%s comes behind %s in %v", pair[0], pair[1], got)
	}
	must.Hold(t, len(got) == len(want), "planned %v; expected %v", got, want)
	must.Hold(t, len(p.Restarts) == 1 && p.Restarts[0].What == setting.RestartOf("vm1") &&
		len(p.Restarts[0].Addresses) == 10, "restarts %+v", p.Restarts)
	must.Hold(t, len(p.Management) == 1 && p.Management[0].Touched && p.Management[0].NIC == "eth0",
		"management %+v", p.Management)
	must.Hold(t, len(p.Later) == 2 && p.Later[0].IDs[0] == "nic.irq_affinity" &&
		p.Later[1].After == "restart of guest vm1", "later %+v", p.Later)
	for _, c := range p.Changes {
		must.Hold(t, c.Because != "" && c.Lasts != "" && c.Title != "", "change %+v is not complete", c)
		if c.ID == "nic.ring.rx" && c.Risk != goal.Connectivity {
			t.Errorf("a ring of the operator's way in has risk %s", c.Risk)
		}
		if c.ID == "domain.queues" && (c.From.State != setting.Absent || c.To.Value != "2") {
			t.Errorf("queues %+v", c)
		}
	}
	again, err := Make(lab(), goal.Unlimited(), knob.Catalogue(), nil)
	must.Hold(t, err == nil && reflect.DeepEqual(p, again), "two plans from the same facts differ: %v", err)
}

// TestReboot: kernel arguments are planned like everything else, and wait for one reboot together; those that open
// something are planned only with consent.
func TestReboot(t *testing.T) {
	h := lab()
	h.Kernel = facts.Kernel{Release: "6.12.0", Arch: facts.X86, Clocksource: "tsc",
		Vulnerabilities: map[string]string{"meltdown": "Mitigation: PTI"}}
	h.Readings[setting.Of(setting.KernelArg, "quiet")] = setting.Value(setting.Flag)
	g := goal.Goal{Latency: 20 * time.Microsecond, CPUs: setting.CPUs(0, 2, 3)}
	p := must.Get(Make(h, g, knob.Catalogue(), nil))(t)
	to := map[string]string{}
	for _, c := range p.Changes {
		if c.Address.Kind == setting.KernelArg {
			to[c.Address.Path] = c.To.String()
			must.Hold(t, c.Risk == goal.Reboot && c.Needs == setting.Reboot() && c.Lasts == setting.InBootLoader,
				"change %+v", c)
		}
	}
	for name, want := range map[string]string{
		"isolcpus": "managed_irq,domain,2-3", "nohz_full": "2-3", "rcu_nocbs": "2-3",
		"tsc": "nowatchdog", "quiet": "absent", "processor.max_cstate": "1",
	} {
		must.Equal(t, to[name], want, "%s is planned to be", name)
	}
	consent := ids(p.Consent)
	must.Hold(t, slices.Contains(consent, "boot.mitigations") && slices.Contains(consent, "boot.mce") &&
		to["mitigations"] == "", "consent is asked for %v", consent)
	waiting := 0
	for _, r := range p.Restarts {
		if r.What == setting.Reboot() {
			waiting += len(r.Addresses)
		}
	}
	must.Hold(t, waiting == len(to), "%d of %d arguments wait for a reboot", waiting, len(to))
}

func TestConsent(t *testing.T) {
	h := small()
	h.Netfilter.Rules = []facts.RuleSet{{Tool: "iptables-legacy", Rules: 1,
		Lines: []string{"-t filter -A FORWARD -s 10.0.0.1/32 -j DROP"}}}
	g := goal.Unlimited()
	p := must.Get(Make(h, g, knob.Catalogue(), nil))(t)
	must.Need(t, len(p.Consent) == 2 && len(p.Changes) == 2,
		"%d changes without consent and %d that need it; expected ip6tables to be planned and iptables not",
		len(p.Changes), len(p.Consent))
	for _, c := range p.Consent {
		must.Hold(t, strings.Contains(c.Address.Path, "iptables") && c.Risk == goal.Security && len(c.Rules) == 1 &&
			c.Because != "" && c.Warning != "", "consent is asked for %+v", c)
	}
	g.Consent = []goal.Risk{goal.Security}
	with, err := Make(h, g, knob.Catalogue(), nil)
	must.Hold(t, err == nil && len(with.Changes) == 4 && len(with.Consent) == 0,
		"with consent: %d changes, %d that need it, %v", len(with.Changes), len(with.Consent), err)
	must.Hold(t, with.Digest != p.Digest, "consent does not change the digest")
}

func TestNothing(t *testing.T) {
	p, err := Make(small(), goal.Goal{PPS: 1000}, knob.Catalogue(), nil)
	must.Hold(t, err == nil && p.Empty() && p.Tier == goal.Default,
		"%d changes for a target that needs none, %v", len(p.Changes), err)
	must.Fail(Make(small(), goal.Goal{PPS: 3e6, NIC: "virtio"}, knob.Catalogue(), nil))(t,
		"a plan for a goal that contradicts itself")
}

func TestReadOnlyIsSkipped(t *testing.T) {
	h := small()
	a := setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-iptables")
	h.Readings[a] = setting.Reading{State: setting.Known, Value: "1", ReadOnly: true, Why: "read-only file system"}
	p := must.Get(Make(h, goal.Unlimited(), knob.Catalogue(), nil))(t)
	must.Hold(t, len(p.Skipped) == 1 && p.Skipped[0].Address == a && p.Skipped[0].Why == "read-only file system",
		"skipped %+v", p.Skipped)
	must.Hold(t, !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Address == a }),
		"a read-only value is to be written")
}

func BenchmarkMake(b *testing.B) {
	h := facts.Synthetic(facts.Large)
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Value("1")
	}
	for b.Loop() {
		p, err := Make(h, goal.Unlimited(), knob.Catalogue(), nil)
		must.Do(b, err)
		b.ReportMetric(float64(len(p.Changes)), "changes")
	}
}

func TestOrder(t *testing.T) {
	k := func(id string, after ...string) *knob.Knob { return &knob.Knob{ID: id, After: after} }
	order, err := Order([]*knob.Knob{k("a", "c"), k("b"), k("c", "d"), k("d")})
	must.Hold(t, err == nil && order["b"] == 0 && order["d"] == 1 && order["c"] == 2 && order["a"] == 3,
		"order %v, %v", order, err)
	for want, catalogue := range map[string][]*knob.Knob{
		"knobs wait for each other: a, b":                       {k("a", "b"), k("b", "a"), k("c")},
		`knob a comes after "z", which is not in the catalogue`: {k("a", "z")},
		"catalogue has two knobs a":                             {k("a"), k("a")},
	} {
		if _, err := Order(catalogue); err == nil || err.Error() != want {
			t.Errorf("found %v; expected %s", err, want)
		}
	}
	must.Try(t, must.Err(Order(knob.Catalogue())))
}
