//go:build lab

package e2e

import (
	"strings"

	"mpps/internal/lab"
	"mpps/internal/must"
)

// testRefused has the kernel refuse the last write of a plan: all before it is undone, and the error says which value,
// what was wanted and what the kernel said.
func testRefused(b *box) {
	h := b.snapshot("refused.json")
	igb := b.names[lab.MACigb1]
	good := []change{
		{"sysctl:net.core.somaxconn", "5000"},
		{"sysfs-cpus:class/net/" + igb + "/queues/tx-0/xps_cpus", "1"},
		{"nic-ring:" + igb + "/rx", "512"},
		{"domain:" + guestName + "/emulatorpin", "0"},
		{"netfilter-rule:nflog-skip/nft", "present"},
	}
	cases := []struct {
		name string
		bad  change
		says []string
	}{
		{"a ring out of range", change{"nic-ring:" + igb + "/tx", "100000"}, []string{"exceeds maximum"}},
		{"a value out of range", change{"sysctl:net.core.rps_sock_flow_entries", "99999999999"},
			[]string{"invalid argument"}},
		{"a file that cannot be written", change{"sysfs:devices/system/cpu/online", "0-1"},
			[]string{"permission denied"}},
		{"a CPU that is not there", change{"thread-affinity:" + guestName + "/vcpu/0", "63"},
			[]string{"invalid argument"}},
		{"more queues than libvirt takes", change{"domain:" + guestName + "/interface/" + guestMAC + "/driver.queues",
			"10000"}, []string{"1 to 256"}},
	}
	all := good
	for _, c := range cases {
		all = append(all, c.bad)
	}
	before := b.survey(addressesOf(b, all)...)
	for _, c := range cases {
		b.putPlan("refused-plan.json", byHand(b, h, before, append(good[:len(good):len(good)], c.bad)...))
		r := b.MPPS(1, "apply", "--yes", "--foreign", "/share/refused-plan.json")
		b.Logf("%s: %s", c.name, strings.TrimSpace(r.Stderr))
		for _, text := range append(c.says, c.bad.address, c.bad.to, "all 6 changes that were begun are put back",
			"hint: the machine is as it was") {
			must.Hold(b, strings.Contains(r.Stderr, text),
				"%s: expected the error to say %q, found:\n%s", c.name, text, r.Stderr)
		}
		b.MPPS(3, "status", "--detailed-exit-code")
	}
	// A value that one of them left behind makes the next plan stale.
	b.survey(addressesOf(b, all)...).same(b, before)
	if undone := strings.Count(b.MPPS(0, "history").Stdout, " undone "); undone < len(cases) {
		b.Errorf("history tells %d of %d transactions that were undone", undone, len(cases))
	}
	b.unchanged("refused.json")
}
