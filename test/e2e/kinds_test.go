//go:build lab

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/lab"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

// applied is what mpps apply answers.
type applied struct {
	TX      string          `json:"tx"`
	State   string          `json:"state"`
	Changes []apply.Outcome `json:"changes"`
	Moved   []apply.Moved   `json:"moved"`
}

// roundTrip applies a plan, finds every value of it with other programs, rolls it back, and finds the host as it was.
func (b *box) roundTrip(name string, before *survey, p *plan.Plan) {
	b.Helper()
	b.putPlan(name+".json", p)
	for _, c := range p.Changes {
		if was := before.at(c.Address); !was.Same(c.From) {
			b.Errorf("%s: the plan says it is %s, another program %s", c.Address, c.From, was)
		}
	}
	done := answer[applied](b, 2, "apply", "--detailed-exit-code", "--confirm", "0", "/share/"+name+".json")
	if done.TX == "" || done.State != "applied" || len(done.Changes) != len(p.Changes) || len(done.Moved) > 0 {
		b.Errorf("%s: transaction %q %s with %d of %d changes, moved: %v", name, done.TX, done.State, len(done.Changes), len(p.Changes), done.Moved)
	}
	during := b.survey(p.Addresses()...)
	for _, c := range p.Changes {
		if is := during.at(c.Address); !c.Want.Met(is) {
			b.Errorf("%s: wanted %s, another program finds %s", c.Address, c.Want, is)
		}
	}
	b.run(2, "rollback", "--detailed-exit-code", done.TX)
	b.survey(p.Addresses()...).same(b, before)
}

// testKinds sets a value of every kind that can be set on a host that runs, in two plans: what sets a NIC up anew stands in
// a plan of its own, in front of what belongs to the NIC's new queues.
func testKinds(b *box) {
	h := b.snapshot("kinds.json")
	igb, virtio, uplink := b.names[lab.MACigb1], b.names[lab.MACvirtio], b.names[lab.MACigb0]
	queues := "sysfs-cpus:class/net/" + igb + "/queues/"
	guest := "domain:" + guestName + "/"
	settings := []change{
		{"sysctl:net.core.somaxconn", "5000"},
		{"sysctl:net.ipv4.tcp_rmem", "8192 131072 7000000"},
		{"sysfs:kernel/mm/transparent_hugepage/enabled", "never"},
		{"sysfs:class/net/" + igb + "/tx_queue_len", "2500"},
		{"sysfs:class/net/" + bridge + "/bridge/multicast_snooping", "0"},
		{queues + "tx-1/xps_cpus", "0,2"},
		{queues + "rx-0/rps_cpus", "1-3"},
		{"sysfs-cpus:class/net/" + virtio + "/queues/tx-0/xps_cpus", "3"},
		{interrupt(b, h, igb), "2"},
		{"nic-coalesce:" + igb + "/rx-usecs", "70"},
		{"nic-feature:" + igb + "/tx-tcp-segmentation", "off"},
		{"nic-feature:" + uplink + "/rx-checksum", "off"},
		{"nic-flowhash:" + igb + "/udp4", "sdfn"},
		{"netfilter-rule:nflog-skip/iptables-legacy", "present"},
		{"netfilter-rule:nflog-skip/nft", "present"},
		{"thread-affinity:" + guestName + "/vcpu/1", "2"},
		{"thread-affinity:" + guestName + "/emulator", "0,3"},
		{guest + "vcpupin/0", "1"},
		{guest + "emulatorpin", "2-3"},
		{guest + "numatune/memory.nodeset", "1"},
		{guest + "interface/" + guestMAC + "/model", "virtio"},
		{guest + "interface/" + guestMAC + "/driver.name", "vhost"},
		{guest + "interface/" + guestMAC + "/driver.queues", "2"},
		{guest + "interface/" + guestMAC + "/driver.rx_queue_size", "512"},
	}
	anew := []change{
		{"nic-channels:" + igb + "/combined", "2"},
		{"nic-ring:" + igb + "/rx", "512"},
		{"nic-ring:" + igb + "/tx", "1024"},
		{"nic-ring:" + uplink + "/rx", "1024"},
		{"nic-channels:" + virtio + "/combined", "2"},
		{"nic-ring:" + virtio + "/rx", "128"},
		{queues + "tx-0/xps_cpus", "0-1"},
		{queues + "tx-1/xps_cpus", "2-3"},
	}
	covered := map[setting.Kind]bool{}
	for _, a := range addressesOf(b, slices.Concat(settings, anew)) {
		covered[a.Kind] = true
	}
	// A fact is worked out and never written; services and units need systemd, which does not run here. The other kinds are in
	// the plans of test/catalogue.
	elsewhere := []setting.Kind{
		setting.Fact, setting.Service, setting.Unit, setting.File, setting.Directory, setting.ModuleParam, setting.VFAttr, setting.KSM, setting.Swap,
		setting.IRQCPUs, setting.RuleSet, setting.ThreadSched, setting.TraceEvents, setting.KernelArg, setting.BootKernel,
	}
	for kind := range setting.Kinds {
		if !covered[kind] && !slices.Contains(elsewhere, kind) {
			b.Errorf("no change of kind %s", kind)
		}
	}
	for i, changes := range [][]change{settings, anew} {
		now := b.survey(addressesOf(b, changes)...)
		b.roundTrip(fmt.Sprintf("kinds-%d", i), now, byHand(b, h, now, changes...))
	}
	b.unchanged("kinds.json")
}

// interrupt is the address of a NIC's first queue's interrupt.
func interrupt(b *box, h *facts.Host, nic string) string {
	b.Helper()
	for _, n := range h.NICs {
		for _, i := range n.IRQs {
			if n.Name == nic && strings.HasSuffix(i.On, "-0") {
				return n.Address(i).String()
			}
		}
	}
	b.Fatalf("%s has no interrupt of its first queue", nic)
	return ""
}

// testCataloguePlan does the same with all that the catalogue wants here for its highest tier.
func testCataloguePlan(b *box) {
	b.run(2, "plan", "--pps", "1.8M", "--consent", "security", "--detailed-exit-code", "-o", "/share/catalogue.json")
	p := readPlan(b, "catalogue.json")
	kinds := map[setting.Kind]int{}
	for _, c := range p.Changes {
		kinds[c.Address.Kind]++
	}
	b.Logf("%d changes: %v", len(p.Changes), kinds)
	for _, kind := range []setting.Kind{setting.Sysctl, setting.Sysfs, setting.SysfsCPUs, setting.IRQAffinity, setting.NICFlowHash, setting.NetfilterRule, setting.Domain} {
		if kinds[kind] == 0 {
			b.Errorf("the plan has no change of kind %s", kind)
		}
	}
	for _, id := range []string{"netfilter.bridge", "netfilter.nflog_skip", "domain.nic_model", "domain.queues"} {
		if !slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.ID == id }) {
			b.Errorf("the plan has no change of %s", id)
		}
	}
	b.snapshot("catalogue-before.json")
	b.roundTrip("catalogue-again", b.survey(p.Addresses()...), p)
	b.unchanged("catalogue-before.json")
}

// readPlan reads a plan that mpps has written on the host.
func readPlan(b *box, file string) *plan.Plan {
	b.Helper()
	f, err := os.Open(filepath.Join(b.lab.ShareDir(), file))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	p, err := plan.Decode(f)
	if err != nil {
		b.Fatal(err)
	}
	return p
}
