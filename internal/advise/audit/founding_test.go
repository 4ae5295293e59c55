package audit

import (
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// founding is the host of the founding measurement as far as its notes tell: the recorded domain on two sockets of ten
// cores with two threads each, an X710 with two ports on node 0, management over a bond.
func founding(t *testing.T) *facts.Host {
	t.Helper()
	corpus := os.Getenv("MPPS_CORPUS")
	if corpus == "" {
		corpus = "../../../shared/corpus"
	}
	text, err := os.ReadFile(filepath.Join(corpus, "domains", "routing-guest-tuned.xml"))
	if err != nil {
		t.Skip("the recorded domain is not here: set MPPS_CORPUS")
	}
	doc := must.Get(domain.Parse(text))(t)
	h := &facts.Host{Name: "founding", KVM: facts.KVM{Loaded: true, Vhost: true, Vendor: "kvm_intel"},
		Readings: facts.Readings{}}
	twoSockets(h)
	for i, name := range []string{"ens1f0", "ens1f1"} {
		h.NICs = append(h.NICs, facts.NIC{Name: name, Driver: "i40e", Up: true, Node: 0, Master: "br_" + name,
			RxQueues: 9, TxQueues: 9})
		h.Bridges = append(h.Bridges, facts.Bridge{Name: "br_" + name, Up: true,
			Ports: []string{name, []string{"vnic1.1", "vnic1.2"}[i]}})
	}
	d := doc.Guest()
	g := facts.Guest{
		Name: d.Name, UUID: d.UUID, Managed: true, State: "running", VCPUs: d.VCPUs.Current, MaxVCPUs: d.VCPUs.Max,
		Memory: d.MemoryKiB << 10, Machine: d.Machine, Definition: string(text),
	}
	set := func(text string) setting.CPUSet {
		cpus := must.Get(setting.ParseCPUs(text))(t)
		return cpus
	}
	g.EmulatorPin = set(d.EmulatorPin)
	g.Pins = make([]setting.CPUSet, g.MaxVCPUs) // one for each that can be plugged
	for _, pin := range d.Pins {
		g.Pins[pin.ID] = set(pin.CPUs)
	}
	for _, i := range d.Interfaces {
		g.Interfaces = append(g.Interfaces, facts.Interface{
			MAC: i.MAC, Type: i.Type, Source: i.Source, Model: i.Model, Backend: i.Driver.Name,
			Queues:      max(1, i.Driver.Queues),
			RxQueueSize: i.Driver.RxQueueSize, TxQueueSize: i.Driver.TxQueueSize, Coalesce: i.RxFrames,
		})
	}
	h.Guests = []facts.Guest{g}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		if a.Kind != setting.Domain {
			continue
		}
		value, present, err := doc.Get(a.Rest())
		switch {
		case err != nil:
			t.Fatal(err)
		case present:
			h.Readings[a] = setting.Value(value)
		default:
			h.Readings[a] = setting.Missing("not in the definition")
		}
	}
	return h
}

// TestFounding: the guest that routed 1.8 Mpps without loss is well tuned, and what is odd about it is said.
func TestFounding(t *testing.T) {
	r := Run(founding(t), goal.Unlimited(), knob.Catalogue())
	odd := map[string]bool{}
	for _, f := range r.InState(Off) {
		must.Hold(t, f.Severity <= knob.Info,
			"%s at %s: %s, wanted %s (%s): %s", f.ID, f.Address, f.Found, f.Wanted, f.Severity, f.Why)
		odd[f.ID] = true
	}
	for _, id := range []string{"domain.vnuma", "domain.machine", "nic.numa"} {
		must.Hold(t, odd[id], "%s does not find it odd", id)
	}
	must.Hold(t, len(odd) == 3, "odd is also %v", odd)
	good := map[string]int{}
	for _, f := range r.InState(OK) {
		good[f.ID]++
	}
	for id, n := range map[string]int{"domain.vcpupin": 9, "domain.emulatorpin": 1, "domain.nic_model": 3,
		"domain.queues": 2, "domain.coalesce": 2, "placement.siblings": 1, "domain.numatune": 1} {
		must.Equal(t, good[id], n, "%s is fine at addresses", id)
	}
	t.Log(r.Verdict)
}
