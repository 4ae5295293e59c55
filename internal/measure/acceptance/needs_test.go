package acceptance

import (
	"errors"
	"slices"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// set is a host on which every experiment can run.
func set() Seen {
	return Seen{Root: true, Agents: map[Agent]error{}, Links: map[string]error{}, Host: &facts.Host{
		Kernel: facts.Kernel{Release: "6.12-rt", Realtime: true},
		Guests: []facts.Guest{{Name: "vm1", State: "running", VCPUs: 9, Agent: true, Interfaces: []facts.Interface{
			{Type: "bridge", Source: "br0"}, {Type: "bridge", Source: "br1"}}}},
		Tunnels: []facts.Tunnel{{Name: "vxlan0", Type: "vxlan", TxQueues: 1}},
		NICs:    []facts.NIC{{Name: "ens1f0", Driver: "ixgbe", SRIOV: &facts.SRIOV{Total: 63}}},
		VFs:     []facts.VF{{PF: "ens1f0"}, {PF: "ens1f0", Guest: "vm9"}},
	}}
}

func inputs(change func(*Inputs)) Inputs {
	in := whole()
	in.Modes = []string{"native=192.0.2.1:7878,from=eth1"}
	switch {
	case change != nil:
		change(&in)
	}
	return in
}

func TestNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		of     *Experiment
		change func(*Inputs)
		spoil  func(*Seen)
		code   string // what is missing; empty: nothing
	}{
		"throughput":             {throughput, func(in *Inputs) { in.Agent = "" }, nil, ""},
		"both ends of the guest": {throughput, nil, nil, "way"},
		"no root":                {throughput, func(in *Inputs) { in.Agent = "" }, func(s *Seen) { s.Root = false }, "root"},
		"no guest named":         {throughput, func(in *Inputs) { in.Agent, in.Guest = "", "" }, nil, "guest"},
		"no such guest":          {throughput, func(in *Inputs) { in.Agent, in.Guest = "", "vm2" }, nil, "guest"},
		"guests are not seen": {throughput, func(in *Inputs) { in.Agent, in.Guest = "", "vm2" },
			func(s *Seen) { s.Host.Unseen = []facts.Unseen{facts.GuestsUnseen("no libvirt")} }, "guest-unseen"},
		"guest is off": {throughput, func(in *Inputs) { in.Agent = "" },
			func(s *Seen) { s.Host.Guests[0].State = "shut off" }, "guest-off"},
		"no way in":                 {throughput, func(in *Inputs) { in.From, in.Via = "", "" }, nil, "way"},
		"no way out":                {throughput, func(in *Inputs) { in.Agent, in.Out = "", "" }, nil, "way"},
		"another generator":         {throughput, func(in *Inputs) { in.Trial, in.MaxPPS = "trex.py", "14.88M" }, nil, ""},
		"one that nobody can gauge": {throughput, func(in *Inputs) { in.Trial = "trex.py" }, nil, "way"},
		"an agent that is silent": {throughput, func(in *Inputs) { in.Out = "" },
			func(s *Seen) { s.Agents[Agent{At: "192.0.2.2:7878"}] = errors.New("refused") }, "agent-silent"},
		"queues":                     {queues, func(in *Inputs) { in.Out = "" }, nil, ""},
		"queues of a namespace":      {queues, func(in *Inputs) { in.Out, in.Guest, in.Container = "", "", true }, nil, ""},
		"a namespace beside a guest": {queues, func(in *Inputs) { in.Out, in.Container = "", true }, nil, "container"},
		"a namespace without agent": {queues, func(in *Inputs) { in.Guest, in.Agent, in.Container = "", "", true }, nil,
			"container"},
		"no such NIC": {queues, func(in *Inputs) { in.Out, in.NIC = "", "ens9" }, nil, "nic"},
		"too few vCPUs": {queues, func(in *Inputs) { in.Out = "" },
			func(s *Seen) { s.Host.Guests[0].VCPUs = 4 }, "vcpus"},
		"sriov":                      {sriov, nil, nil, ""},
		"no sender":                  {sriov, func(in *Inputs) { in.From = "" }, nil, "from"},
		"no agent":                   {sriov, func(in *Inputs) { in.Agent = "" }, nil, "agent"},
		"no card":                    {sriov, nil, func(s *Seen) { s.Host.NICs = nil }, "functions"},
		"another card":               {sriov, func(in *Inputs) { in.PF = "eth9" }, nil, "functions"},
		"no functions made":          {sriov, nil, func(s *Seen) { s.Host.VFs = nil }, "functions"},
		"no free function":           {sriov, nil, func(s *Seen) { s.Host.VFs[0].Guest = "vm8" }, "functions"},
		"no address on the function": {sriov, func(in *Inputs) { in.VFAgent = "" }, nil, "vf-agent"},
		"modes":                      {modes, nil, nil, ""},
		"no modes":                   {modes, func(in *Inputs) { in.Modes = nil }, nil, "modes"},
		"nothing to compare with":    {modes, func(in *Inputs) { in.Modes = []string{"vf=192.0.2.1:1"} }, nil, "native"},
		"a sender that is not there": {queues, func(in *Inputs) { in.Out = "" },
			func(s *Seen) { s.Links["eth1"] = errors.New("no such interface") }, "link"},
		"a bridge that is not there": {throughput, func(in *Inputs) { in.Agent = "" },
			func(s *Seen) { s.Links["br1"] = errors.New("no such bridge") }, "link"},
		"a generator elsewhere needs no bridge": {throughput, func(in *Inputs) { in.Trial, in.MaxPPS = "trex.py", "14.88M" },
			func(s *Seen) { s.Links["br1"] = errors.New("no such bridge") }, ""},
		"a bridge that the guest is not on": {throughput, func(in *Inputs) { in.Agent, in.Out = "", "br7" }, nil,
			"off-bridge"},
		"in and out by one bridge": {throughput, func(in *Inputs) { in.Agent, in.Out = "", "br0" }, nil, "way"},
		"in and out by one port": {throughput, func(in *Inputs) { in.Agent, in.Via, in.Out, in.To = "", "", "", "eth1" },
			nil, "way"},
		"the second port is the first": {sriov, func(in *Inputs) { in.PF, in.From = "ens1f0", "ens1f0" }, nil, "from"},
		"the second port is not there": {sriov, nil,
			func(s *Seen) { s.Links["eth1"] = errors.New("no such interface") }, "link"},
		"the host uses the function":    {sriov, nil, func(s *Seen) { s.Host.VFs[0].HostUse = "port of br0" }, "functions"},
		"a program has the function":    {sriov, nil, func(s *Seen) { s.Host.VFs[0].Holder = "dpdk-testpmd" }, "functions"},
		"the function is bound to vfio": {sriov, nil, func(s *Seen) { s.Host.VFs[0].Driver = "vfio-pci" }, "functions"},
		"a guest that is off has it": {sriov, nil, func(s *Seen) {
			s.Host.VFs[0].PCI = "0000:01:10.0"
			s.Host.Guests = append(s.Host.Guests, facts.Guest{Name: "vm7", State: "shut off",
				Hostdevs: []string{"0000:01:10.0"}})
		}, "functions"},
		"one address for both paths": {sriov, func(in *Inputs) { in.VFAgent = in.Agent }, nil, "vf-agent"},
		"a mode's agent is silent": {modes, nil,
			func(s *Seen) { s.Agents[Agent{At: "192.0.2.1:7878"}] = errors.New("refused") }, "agent-silent"},
		"a mode's port is not there": {modes, nil,
			func(s *Seen) { s.Links["eth1"] = errors.New("no such interface") }, "link"},
		"realtime":         {realtime, nil, nil, ""},
		"no CPUs":          {realtime, func(in *Inputs) { in.CPUs = "" }, nil, "cpus"},
		"no agent of QEMU": {realtime, nil, func(s *Seen) { s.Host.Guests[0].Agent = false }, "guest-agent"},
	} {
		s := set()
		if c.spoil != nil {
			c.spoil(&s)
		}
		all := c.of.Look(inputs(c.change), s)
		var missing []string
		for _, k := range all {
			if !k.OK && !k.Soft {
				missing = append(missing, k.Code)
				must.Hold(t, k.Why != "" && k.Hint != "", "%s: %+v says too little", name, k)
			}
		}
		if Missing(all) != (len(missing) > 0) || c.code == "" && len(missing) > 0 || c.code != "" &&
			!slices.Contains(missing, c.code) {
			t.Errorf("%s: missing %v, expected %q", name, missing, c.code)
		}
	}
	for name, c := range map[string]struct {
		of    *Experiment
		spoil func(*Seen)
		code  string
	}{
		"no tunnel":          {queues, func(s *Seen) { s.Host.Tunnels = nil }, "tunnel"},
		"no realtime kernel": {realtime, func(s *Seen) { s.Host.Kernel.Realtime = false }, "realtime-kernel"},
	} {
		s := set()
		c.spoil(&s)
		all := c.of.Look(inputs(func(in *Inputs) { in.Out = "" }), s)
		if Missing(all) || !slices.ContainsFunc(all, func(k Check) bool {
			return k.Code == c.code && !k.OK && k.Soft
		}) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestPlansForDataNICs: queues are planned for the NICs that packets pass, and not for the guest's management NIC.
func TestPlansForDataNICs(t *testing.T) {
	for _, c := range []struct {
		in   Inputs
		want string
	}{{Inputs{Via: "br0", Out: "br1"}, "br0,br1"}, {Inputs{Via: "br0"}, "br0"}, {Inputs{From: "eth1", To: "eth2"}, ""},
		{Inputs{Via: "br0", Trial: "trex.py"}, ""}} {
		argv := c.in.plan("1", Always, "--pps", "1.8M")[0].Argv
		at := slices.Index(argv, "--data-nic")
		if (at >= 0) != (c.want != "") || at >= 0 && argv[at+1] != c.want {
			t.Errorf("%+v: %v, expected %q", c.in, argv, c.want)
		}
	}
}

// TestSettle: wake-ups are measured on one and the same CPU of the guest before and after, whether it was named or not.
func TestSettle(t *testing.T) {
	s := set()
	for _, c := range []struct {
		of           *Experiment
		guest, named string
		want         string
	}{{realtime, "vm1", "", "8"}, {realtime, "vm1", "2", "2"}, {realtime, "vm2", "", ""}, {throughput, "vm1", "", ""}} {
		in := c.of.Settle(inputs(func(in *Inputs) { in.Guest, in.GuestCPU = c.guest, c.named }), s.Host)
		if in.GuestCPU != c.want {
			t.Errorf("%s on %s, %q named: %q, expected %q", c.of.Name, c.guest, c.named, in.GuestCPU, c.want)
		}
		for _, step := range c.of.Steps(in) {
			if at := slices.Index(step.Argv, "--cpu"); step.Gives == Wakeups && c.want != "" &&
				(at < 0 || step.Argv[at+1] != c.want) {
				t.Errorf("%s: %v", c.of.Name, step.Argv)
			}
		}
	}
}

// TestUnknown: a guest that is not there is distinguished from one that was not named, or could not be seen.
func TestUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		guest   string
		unseen  []facts.Unseen
		unknown bool
	}{"there": {"vm1", nil, false}, "not there": {"vm2", nil, true}, "not named": {"", nil, false},
		"not seen": {"vm2", []facts.Unseen{facts.GuestsUnseen("")}, false}} {
		s := set()
		s.Host.Unseen = c.unseen
		in := inputs(func(in *Inputs) { in.Guest = c.guest })
		if got := Unknown(in, realtime.Look(in, s)); (got != nil) != c.unknown {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestMachine(t *testing.T) {
	s := set()
	s.Host.Topology.Model = "some CPU"
	s.Host.Guests[0].Interfaces = []facts.Interface{{Source: "br0", Queues: 4, Model: "virtio"},
		{Source: "br1", Queues: 2, Model: "e1000"}}
	s.Host.NICs = append(s.Host.NICs, facts.NIC{Name: "ens2", Driver: "i40e", Master: "br0"},
		facts.NIC{Name: "ens1f0v0", Driver: "ixgbevf", PhysFn: "ens1f0"})
	m := MachineOf(s.Host, Inputs{Guest: "vm1", Via: "br7"})
	if on := m.OnPath(); len(on) != 1 || on[0].Name != "ens2" || m.Guest.Queues != 4 || m.Guest.Model != "virtio" ||
		len(m.NICs) != 2 {
		t.Errorf("%+v, guest %+v", m, m.Guest)
	}
	if on := MachineOf(s.Host, Inputs{From: "netns:far/ens1f0"}).OnPath(); len(on) != 1 || on[0].Name != "ens1f0" {
		t.Errorf("the sender's NIC: %+v", on)
	}
	same := MachineOf(s.Host, Inputs{})
	same.Kernel = "another"
	must.Hold(t, m.Same(same), "with another kernel it is another machine")
	same.CPU = "another"
	must.Hold(t, !m.Same(same), "with another CPU it is the same machine")
}
