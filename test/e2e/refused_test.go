//go:build lab

package e2e

import (
	"strings"

	"mpps/internal/lab"
)

// testRefused has the kernel refuse the last write of a plan: all before it is undone, and the error says which value, what
// was wanted and what the kernel said.
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
	for _, c := range []struct {
		name string
		bad  change
		says []string
	}{
		{"a ring out of range", change{"nic-ring:" + igb + "/tx", "100000"}, []string{"nic-ring:" + igb + "/tx", "100000"}},
		{"a value out of range", change{"sysctl:net.core.rps_sock_flow_entries", "99999999999"}, []string{"sysctl:net.core.rps_sock_flow_entries", "99999999999", "invalid argument"}},
		{"a file that cannot be written", change{"sysfs:devices/system/cpu/online", "0-1"}, []string{"sysfs:devices/system/cpu/online", "0-1"}},
		{"a CPU that is not there", change{"thread-affinity:" + guestName + "/vcpu/0", "63"}, []string{"thread-affinity:" + guestName + "/vcpu/0", "63"}},
		{"more queues than libvirt takes", change{"domain:" + guestName + "/interface/" + guestMAC + "/driver.queues", "10000"}, []string{"driver.queues", "10000"}},
	} {
		p := byHand(b, h, append(good[:len(good):len(good)], c.bad)...)
		before := b.survey(p.Addresses()...)
		b.putPlan("refused-plan.json", p)
		r := b.run(1, "apply", "/share/refused-plan.json")
		b.Logf("%s: %s", c.name, strings.TrimSpace(r.Stderr))
		for _, text := range append(c.says, "put back", "hint: ") {
			if !strings.Contains(r.Stderr, text) {
				b.Errorf("%s: expected the error to say %q, found:\n%s", c.name, text, r.Stderr)
			}
		}
		b.survey(p.Addresses()...).same(b, before)
		b.run(3, "status", "--detailed-exit-code")
		if history := b.run(0, "history").Stdout; !strings.Contains(history, "failed") {
			b.Errorf("%s: history does not tell it:\n%s", c.name, history)
		}
	}
	b.unchanged("refused.json")
}
