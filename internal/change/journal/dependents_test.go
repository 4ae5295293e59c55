package journal

import (
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestBuiltOn has two transactions that stand, and asks whether the second built on the first.
func TestBuiltOn(t *testing.T) {
	channels, balancer := setting.Of(setting.NICChannels, "eth0", "combined"), setting.Of(setting.Service, "irqbalance")
	irq, mask := setting.Of(setting.IRQAffinity, "eth0", "TxRx-0", "45"),
		setting.Of(setting.SysfsCPUs, "class/net/eth0/queues/tx-0/xps_cpus")
	other, file := setting.Of(setting.IRQAffinity, "eth1", "TxRx-0", "46"),
		setting.Of(setting.File, "etc/sysctl.d/90-mpps.conf")
	ring := setting.Of(setting.NICRing, "eth0", "rx")
	functions, attribute := setting.Of(setting.VFCount, "eth0"), setting.Of(setting.VFAttr, "eth0", "1", "vlan")
	for _, c := range []struct {
		first, second setting.Address
		already       bool // the second found it as wanted
		because       string
	}{
		{ring, ring, false, "it changed nic-ring:eth0/rx again"},
		{ring, ring, true, "it wants nic-ring:eth0/rx to stay"},
		{ring, channels, false, ""},
		{file, file, false, ""},
		{channels, irq, false, "it set irq-affinity:eth0/TxRx-0/45, which rests on nic-channels:eth0/combined"},
		{channels, mask, false, "it set sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus, which rests on " +
			"nic-channels:eth0/combined"},
		{channels, setting.Of(setting.QueueLanes, "eth0"), false, "it set queue-lanes:eth0, which rests on " +
			"nic-channels:eth0/combined"},
		{channels, irq, true, ""},
		{channels, other, false, ""},
		{channels, ring, false, ""},
		{functions, attribute, false, "it set vf-attr:eth0/1/vlan, which rests on vf-count:eth0"},
		{functions, setting.Of(setting.VFAttr, "eth1", "1", "vlan"), false, ""},
		{balancer, other, false, "it set irq-affinity:eth1/TxRx-0/46, which rests on service:irqbalance"},
		{balancer, mask, false, ""},
	} {
		d, _ := open(t)
		l := lock(t, d)
		one, two := setting.Value("1"), setting.Value("2")
		want := setting.Exact("2")
		write := func(a setting.Address, already bool) string {
			w := create(t, d, l, Header{Kind: Apply})
			if already {
				add(t, w, Record{Event: Already, N: 1, Address: &a, Found: &two, Want: &want})
			} else {
				add(t, w, Record{Event: Intent, N: 1, Address: &a, Before: &one, After: &two, Want: &want},
					done(1, "2"))
			}
			add(t, w, Record{Event: Committed})
			return w.TX()
		}
		first := write(c.first, false)
		second := write(c.second, c.already)
		ledger, err := d.Ledger()
		check(t, err)
		of, err := ledger.Find(first)
		check(t, err)
		var found []string
		for _, b := range ledger.Dependents(of) {
			must.Hold(t, b.Header.TX == second, "%s built on %s", b.Header.TX, first)
			found = append(found, b.Because)
		}
		must.Equal(t, strings.Join(found, ", "), c.because, "%s, then %s", c.first, c.second)
	}
}
