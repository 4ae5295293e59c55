package knob

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

var golden = flag.Bool("golden", false, "add new IDs to testdata/ids.txt (IDs are never taken out)")

// TestIDs holds the IDs to the list of all that were ever given out: journals and site files name them.
func TestIDs(t *testing.T) {
	text, err := os.ReadFile("testdata/ids.txt")
	if err != nil && !*golden {
		t.Fatal(err)
	}
	listed := strings.Fields(string(text))
	given := map[string]bool{}
	for _, k := range Catalogue() {
		must.Hold(t, !given[k.ID], "two knobs are called %s", k.ID)
		given[k.ID] = true
		if !slices.Contains(listed, k.ID) {
			if *golden {
				listed = append(listed, k.ID)
				continue
			}
			t.Errorf("%s is not in testdata/ids.txt (go test -golden adds it)", k.ID)
		}
	}
	for _, id := range listed {
		must.Hold(t, given[id], "%s was given out and is gone: IDs are never renamed", id)
	}
	if *golden {
		must.Do(t, os.WriteFile("testdata/ids.txt", []byte(strings.Join(listed, "\n")+"\n"), 0o644))
	}
}

func TestDefinitions(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Catalogue() {
		known[k.ID] = true
	}
	last := 0
	for _, k := range Catalogue() {
		must.Hold(t, k.Title != "" && k.Where != nil && k.Want != nil,
			"%s needs a Title (it has %q), a Where (there is one: %v) and a Want (%v)", k.ID, k.Title, k.Where != nil,
			k.Want != nil)
		must.Pass(k.Stage.MarshalText())(t, "%s", k.ID)
		must.Hold(t, slices.Contains(goal.Risks(), k.Risk), "%s: risk %q", k.ID, k.Risk)
		for _, after := range k.After {
			must.Hold(t, known[after], "%s comes after %s, which there is not", k.ID, after)
		}
		must.Hold(t, !k.AppliesTo(goal.Default), "%s speaks for targets that need no tuning", k.ID)
		if stage := int(k.Stage); stage < last {
			t.Errorf("%s (%s) stands behind a later stage", k.ID, k.Stage)
		} else {
			last = stage
		}
	}
}

func TestDocs(t *testing.T) {
	for _, k := range Catalogue() {
		d := k.Doc()
		for name, text := range map[string]string{"why": d.Why, "cost": d.Cost, "verify": d.Verify, "title": k.Title} {
			if len(text) < 4 || strings.TrimSpace(text) != text {
				t.Errorf("%s: %s is %q", k.ID, name, text)
			}
		}
		if d.Want == "" || strings.TrimSpace(d.Want) != d.Want || strings.HasSuffix(d.Want, ".") {
			t.Errorf("%s: what it should be is %q", k.ID, d.Want)
		}
		if len(d.Why) < 60 {
			t.Errorf("%s: why explains nothing: %q", k.ID, d.Why)
		}
		if len(d.Sources) == 0 || len(d.Traps) == 0 {
			t.Errorf("%s: %d sources, %d traps", k.ID, len(d.Sources), len(d.Traps))
		}
		for _, s := range d.Sources {
			if s.Fact == "" || s.Where == "" {
				t.Errorf("%s: source %+v", k.ID, s)
			}
		}
	}
}

// TestOldAdvice looks for what people search for: wrong advice must be found by its name.
func TestOldAdvice(t *testing.T) {
	for id, words := range map[string][]string{
		"domain.tx_queue_size":     {"tx_queue_size=1024"},
		"vhost.zero_copy":          {"experimental_zcopytx"},
		"nic.flow_hash.udp4":       {"sdnf"},
		"softirq.budget_usecs":     {"5000", "8000 at HZ=250"},
		"nic.irqbalance":           {"IRQBALANCE_BANNED_CPULIST"},
		"netfilter.nflog_skip":     {"253", "3.9.1"},
		"nic.numa":                 {"−1"},
		"domain.coalesce":          {"64"},
		"vhost.threads":            {"emulatorpin"},
		"nic.offload.nocache_copy": {"Mellanox"},
		"rt.throttling":            {"sched_rt_period_us=-1", "sched_rt_runtime_us=-1"},
		"rt.period":                {"sched_rt_period_us=-1", "runtime equal to the period"},
		"rt.mce":                   {"mce=off", "check_interval=0"},
		"rt.kthreads":              {"taskset", "EINVAL", "kworkers"},
		"rt.ktimers":               {"ktimersoftd"},
		"rt.rcu_normal":            {"rcupdate.rcu_expedited=1"},
		"rt.compaction":            {"mlockall", "compact_memory"},
		"rt.watchdog":              {"nosoftlockup", "nowatchdog"},
		"boot.irqaffinity":         {"isolcpus does not do it"},
		"domain.vcpusched":         {"vcpus='0-3'", "Operation not permitted"},
		"kvm.timer_advance":        {"tscdeadline_latency"},
		"kernel.clocksource":       {"clocksource=hpet"},
		"domain.invtsc":            {"kvmclock present='no'", "tsc=reliable"},
		"rt.ksm":                   {"merge_across_nodes", "run=2", "EBUSY"},
		"rt.irq_affinity":          {"EIO", "CPU 0"},
		"sriov.vf.rate":            {"11 to 10000", "steps of 50", "silently becomes 50"},
		"sriov.numvfs":             {"max_vfs=", "63"},
		"netfilter.bypass":         {"--consent security,connectivity", "rmmod"},
		"guest.realtime":           {"mce=off", "idle=poll"},
		"kvm.nx_huge_pages":        {"itlb_multihit"},
		"boot.aspm":                {"pcie_asmp=off", "pcie_aspm=off"},
		"boot.lint":                {"pcie_asmp", "amd_iommu=on"},
		"boot.iommu":               {"amd_iommu=on", "intel_iommu=on"},
		"boot.cstate":              {"intel_idle ignores processor.max_cstate"},
		"boot.tsc":                 {"tsc=reliable", "tsc=nowatchdog"},
		"boot.mitigations": {"noibrs noibpb nopti nospectre_v2 nospectre_v1 l1tf=off " +
			"nospec_store_bypass_disable no_stf_barrier mds=off", "mitigations=off"},
		"boot.isolcpus":           {"managed_irq", "cannot be undone before a reboot"},
		"boot.nohz_full":          {"implies rcu_nocbs", "boot CPU"},
		"boot.quiet":              {"rhgb quiet"},
		"boot.mce":                {"mce=ignore_ce", "mce=off"},
		"kernel.default":          {"UEK 5.4.17", "linux-firmware"},
		"kernel.version":          {"ptr_ring (4.8)", "MSG_MORE in tun_sendmsg (4.11)", "batch dequeue (4.13)"},
		"firmware.smt":            {"nosmt", "echo off > /sys/devices/system/cpu/smt/control"},
		"firmware.numa_optimized": {"Node Interleaving"},
	} {
		k := Find(id)
		if k == nil {
			t.Errorf("no knob %s", id)
			continue
		}
		doc := k.Doc()
		text := doc.Why + strings.Join(doc.Traps, " ")
		for _, word := range words {
			must.Hold(t, strings.Contains(text, word), "%s does not speak of %q", id, word)
		}
	}
}

// everything is a host with one of each thing that has addresses.
func everything() *facts.Host {
	h := &facts.Host{
		KVM: facts.KVM{Vendor: "kvm_intel"},
		NICs: []facts.NIC{{
			Name: "eth0", Rings: &facts.Rings{}, Channels: &facts.Channels{MaxCombined: 4}, RxQueues: 2, TxQueues: 2,
			Coalesce: map[string]string{"rx-usecs": "1", "adaptive-rx": "on"},
			FlowHash: map[string]string{"udp4": "sd"},
			Features: []facts.Feature{{Name: "rx-checksum"}, {Name: "tx-scatter-gather"}, {Name: "tx-tcp-segmentation"},
				{Name: "rx-gro"}, {Name: "tx-udp_tnl-segmentation"}, {Name: "tx-nocache-copy"},
				{Name: "rx-udp-gro-forwarding"}, {Name: "rx-gro-list"}},
			IRQs: []facts.IRQ{{Number: 30, Name: "eth0-TxRx-0", On: "TxRx-0"}, {Number: 31, Name: "eth0", On: "eth0"}},
		}},
		Bridges:   []facts.Bridge{{Name: "br0"}},
		Taps:      []facts.Tap{{Name: "vnet0", Master: "br0"}, {Name: "vnet1"}},
		Routing:   &facts.Routing{Forward: facts.Yes, Uplinks: []string{"eth0.5"}},
		Netfilter: facts.Netfilter{Conntrack: true, Rules: []facts.RuleSet{{Tool: "nft"}, {Tool: "iptables-legacy"}}},
		Guests: []facts.Guest{{
			Name: "vm 1", Managed: true, VCPUs: 2,
			Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "bridge"},
				{MAC: "52:54:00:00:00:02", Type: "hostdev"}},
			Threads: []facts.Thread{{Role: "vhost", NIC: "52:54:00:00:00:01"}},
		}, {
			Name: "vm2", State: "running", Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:03", Tap: "vnet1"}},
			Inside: &facts.Inside{Host: &facts.Host{
				Boot: &facts.Boot{},
				NICs: []facts.NIC{{Name: "eth0", Driver: "virtio_net",
					Channels: &facts.Channels{MaxCombined: 2}, TxQueues: 2,
					IRQs: []facts.IRQ{{Number: 30, On: "input.0"}}}},
				Housekeeping: &facts.Housekeeping{Swap: []facts.SwapArea{{Name: "/dev/vda2"}}, KSM: &facts.KSM{}},
			}},
		}},
	}
	h.Power.Uncore = []facts.Uncore{{Name: "package_00_die_00", Max: 2400000}}
	h.Topology.CPUs = []facts.CPU{{ID: 0, Online: true}, {ID: 1}}
	h.Topology.Nodes = []facts.Node{{ID: 0}}
	h.Virtual = "kvm"
	h.OpenVSwitch = &facts.OpenVSwitch{Polled: &facts.PolledSwitch{}}
	h.NICs = append(h.NICs,
		facts.NIC{Name: "eth1", Driver: "ixgbe", SRIOV: &facts.SRIOV{Total: 63, Enabled: 1},
			Link: &facts.PCILink{Speed: "8.0 GT/s PCIe", MaxSpeed: "8.0 GT/s PCIe", Width: 8, MaxWidth: 8}},
		facts.NIC{Name: "eth2", Driver: "ixgbevf", PhysFn: "eth1"}, facts.NIC{Name: "eth3", Driver: "virtio_net"},
		facts.NIC{Name: "eth4", Driver: "mlx5_core"})
	h.VFs = []facts.VF{{PF: "eth1", PCI: "0000:41:10.0"}}
	h.Tunnels = []facts.Tunnel{{Name: "vxlan0", Type: "vxlan"}}
	h.Netfilter.Rules[0].Rules = 3
	h.Guests[0].Hostdevs, h.Guests[0].Definition = []string{"0000:41:10.0"},
		"<domain><iothreads>1</iothreads><features><hyperv/></features></domain>"
	h.Guests[0].Interfaces = append(h.Guests[0].Interfaces,
		facts.Interface{MAC: "52:54:00:00:00:77", Type: "vhostuser", Source: "/run/vhu0", Model: "virtio"},
		facts.Interface{MAC: "52:54:00:00:00:78", Type: "vdpa", Source: "/dev/vhost-vdpa-0"})
	h.Housekeeping = &facts.Housekeeping{
		Swap: []facts.SwapArea{{Name: "/dev/sda2"}}, IRQs: []facts.IRQ{{Number: 9, On: "acpi"}},
		Threads: []facts.KernelThread{{Name: "ksoftirqd/0"}, {Name: "ktimers/0"}, {Name: "rcuc/0"}, {Name: "rcub/0"}},
	}
	return h
}

func TestWhere(t *testing.T) {
	h := everything()
	owner := map[setting.Address]string{}
	for _, k := range Catalogue() {
		all := k.Where(h)
		if len(all) == 0 {
			must.Hold(t, k.ID == "kvm.amd_avic", "%s has no address on a host with everything", k.ID)
			continue
		}
		for _, a := range all {
			parsed, err := setting.ParseAddress(a.String())
			must.Hold(t, err == nil && parsed == a, "%s: address %q: %v", k.ID, a, err)
			if other, taken := owner[a]; taken {
				t.Errorf("%s and %s both speak of %s", other, k.ID, a)
			}
			owner[a] = k.ID
			if isFact := func(a setting.Address) bool { return a.Kind == setting.Fact }; !k.Check && isFact(a) &&
				!slices.ContainsFunc(all, func(a setting.Address) bool { return !isFact(a) }) {
				t.Errorf("%s: it speaks of facts alone, which can only be checked", k.ID)
			}
		}
	}
	for _, a := range Addresses(h, Catalogue()) {
		if a.Kind == setting.Fact || a.Kind == setting.Domain && strings.Contains(a.Path, "52:54:00:00:00:02") {
			t.Errorf("%s is to be read", a)
		}
	}
	var none []setting.Address
	for _, k := range Catalogue() {
		none = append(none, k.Where(&facts.Host{})...)
	}
	must.Hold(t, len(none) <= 110, "%d addresses on a host of which nothing is known", len(none))
}

func TestFind(t *testing.T) {
	if k := Find("nic.xps"); k == nil || k.ID != "nic.xps" {
		t.Error("nic.xps not found")
	}
	if k := Find("nic.ring.xr"); k != nil {
		t.Errorf("nic.ring.xr finds %s", k.ID)
	}
}

func TestNear(t *testing.T) {
	for id, want := range map[string]string{
		"nic.ring.xr": "nic.ring.rx", "nic.rnig.rx": "nic.ring.rx", "softirq.budgt": "softirq.budget",
		"zero_copy": "vhost.zero_copy", "vhost.thread": "vhost.threads", "domain.nicmodel": "domain.nic_model",
	} {
		if near := Near(id); len(near) == 0 || near[0] != want {
			t.Errorf("Near(%q) = %v; expected %s", id, near, want)
		}
	}
	for _, id := range []string{"completely-other-word", strings.Repeat("x", 1<<20)} {
		must.Empty(t, Near(id), "Near(%.20q)", id)
	}
}

func TestQueueOf(t *testing.T) {
	for name, want := range map[string]int{
		"TxRx-0": 0, "eth0-TxRx-13": 13, "rx-7": 7, "input.2": 2, "output.2": 2, "comp3@pci:0000:41:00.0": 3,
		"Tx-Rx-5": 5, "fp-1": 1,
		"eth0": -1, "misc": -1, "async0@pci:0000:41:00.0": -1, "config": -1, "": -1, "mbx-3": -1, "99": -1,
	} {
		got, ok := QueueOf(name)
		if !ok {
			got = -1
		}
		must.Equal(t, got, want, "QueueOf(%q)", name)
	}
}
