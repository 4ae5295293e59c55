//go:build netns

package machine

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSettingsAreWrittenAndRestored writes each kind of value on real kernel objects, checks it with another tool, and
// restores the old value.
func TestSettingsAreWrittenAndRestored(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1 numtxqueues 4 numrxqueues 4",
		"link add br0 type bridge",
		"tuntap add t0 mode tap multi_queue", "link set v0 up", "link set v1 up", "link set br0 up")
	mechanisms := live(t).Mechanisms()
	ctx := context.Background()
	info := func(device, field string) string {
		return fmt.Sprint(treetest.IPLink(t, device)["linkinfo"].(map[string]any)["info_data"].(map[string]any)[field])
	}
	for _, c := range []struct {
		address, value string
		seen           func() string // what the other tool shows
		want           string        // of it, after the write
	}{
		{"sysctl:net.ipv4.conf.v0.rp_filter", "2",
			func() string { return treetest.Tool(t, "sysctl", "-n", "net.ipv4.conf.v0.rp_filter") }, "2"},
		{"sysctl:net.ipv4.ip_local_port_range", "20000 30000", func() string {
			return strings.Join(strings.Fields(treetest.Tool(t, "sysctl", "-n", "net.ipv4.ip_local_port_range")), " ")
		}, "20000 30000"},
		{"sysfs:class/net/br0/bridge/nf_call_iptables", "1", func() string { return info("br0", "nf_call_iptables") },
			"1"},
		{"sysfs:class/net/br0/bridge/multicast_snooping", "0", func() string { return info("br0", "mcast_snooping") },
			"0"},
		{"sysfs:class/net/t0/tx_queue_len", "4000",
			func() string { return fmt.Sprint(treetest.IPLink(t, "t0")["txqlen"]) }, "4000"},
		{"sysfs-cpus:class/net/v0/queues/tx-1/xps_cpus", "1", func() string {
			return treetest.Tool(t, "cat", "/sys/class/net/v0/queues/tx-1/xps_cpus")
		}, "2"},
		{"sysfs-cpus:class/net/v0/queues/rx-0/rps_cpus", "0-1", func() string {
			return treetest.Tool(t, "cat", "/sys/class/net/v0/queues/rx-0/rps_cpus")
		}, "3"},
		{"nic-channels:v0/rx", "2", func() string { return treetest.EthtoolLine(t, "RX", 1, "-l", "v0") }, "2"},
		{"nic-channels:v0/tx", "3", func() string { return treetest.EthtoolLine(t, "TX", 1, "-l", "v0") }, "3"},
		{"nic-feature:v0/tx-tcp-segmentation", "off",
			func() string { return treetest.EthtoolLine(t, "tx-tcp-segmentation", 0, "-k", "v0") }, "off"},
		{"nic-feature:v0/rx-gro", "on",
			func() string { return treetest.EthtoolLine(t, "generic-receive-offload", 0, "-k", "v0") }, "on"},
		{"nic-feature:v0/rx-gro-list", "on",
			func() string { return treetest.EthtoolLine(t, "rx-gro-list", 0, "-k", "v0") }, "on"},
		{"nic-state:br0", "down", func() string { return treetest.Tool(t, "cat", "/sys/class/net/br0/flags") },
			"0x1002"},
		{"nic-state:t0", "up", func() string { return treetest.Tool(t, "cat", "/sys/class/net/t0/flags") }, "0x1003"},
		{"nic-coalesce:t0/rx-frames", "32",
			func() string { return treetest.EthtoolLine(t, "rx-frames", 0, "-c", "t0") }, "32"},
	} {
		a := must.Get(setting.ParseAddress(c.address))(t)
		before := mechanisms.Read(ctx, a)
		if before.State != setting.Known || before.ReadOnly || before.Value == c.value {
			t.Errorf("%s: reads %s (%s) before; want another value than %s that can be written", a, before, before.Why,
				c.value)
			continue
		}
		shownBefore := strings.TrimSpace(c.seen())
		if err := mechanisms.Write(ctx, a, setting.Value(c.value)); err != nil {
			t.Error(err)
			continue
		}
		if got := mechanisms.Read(ctx, a); got.String() != c.value {
			t.Errorf("%s: reads %s after %s was written", a, got, c.value)
		}
		must.Equal(t, strings.TrimSpace(c.seen()), c.want, "%s: another tool shows", a)
		must.Try(t, mechanisms.Write(ctx, a, before))
		if after, shown := mechanisms.Read(ctx, a), strings.TrimSpace(c.seen()); !after.Same(before) ||
			shown != shownBefore {
			t.Errorf("%s: %s after it was restored to %s; another tool shows %q, before %q", a, after, before, shown,
				shownBefore)
		}
	}
}

// TestRefusalsLeaveTheMachineAsItWas writes what the kernel refuses.
func TestRefusalsLeaveTheMachineAsItWas(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1", "link add br0 type bridge")
	mechanisms := live(t).Mechanisms()
	ctx := context.Background()
	channels := mechanisms.Read(ctx, setting.Of(setting.NICChannels, "v0", "rx"))
	must.Hold(t, channels.Max != nil && *channels.Max == 4,
		"channels of a device with 4 queues: %+v, want a maximum of 4", channels)
	if r := mechanisms.Read(ctx, setting.Of(setting.NICFeature, "v0", "loopback")); r.State != setting.Known ||
		!r.ReadOnly {
		t.Errorf("a feature that is fixed reads as writable: %+v", r)
	}
	for address, want := range map[string]string{
		"nic-ring:br0/rx": "absent", "nic-ring:v9/rx": "absent", "nic-channels:br0/combined": "absent",
		"nic-coalesce:v0/rx-usecs": "absent",
		"nic-feature:v0/no-such":   "absent", "nic-flowhash:v0/udp4": "absent", "nic-flag:v0/rx_striding_rq": "absent", "sysfs:class/net/v9/mtu": "absent",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		if r := mechanisms.Read(ctx, a); r.String() != want {
			t.Errorf("%s: %s (%s), want %s", a, r, r.Why, want)
		}
	}
	// Segmentation needs scatter-gather: without it the request fails, and must not be granted later on its own.
	gather := setting.Of(setting.NICFeature, "v0", "tx-scatter-gather")
	segment := setting.Of(setting.NICFeature, "v0", "tx-generic-segmentation")
	must.Do(t, mechanisms.Write(ctx, segment, setting.Value("off")))
	must.Do(t, mechanisms.Write(ctx, gather, setting.Value("off")))
	for address, value := range map[string]string{
		"nic-channels:v0/rx": "99", "nic-ring:v0/rx": "512", "nic-coalesce:v0/rx-usecs": "3",
		"nic-feature:v0/loopback":                "on",
		"nic-feature:v0/tx-generic-segmentation": "on", "nic-flowhash:v0/udp4": "sdfn", "sysfs:class/net/v0/mtu": "1",
		"sysctl:net.ipv4.ip_local_port_range": "9 1", "sysfs:class/net/v0/ifindex": "7", "nic-channels:v9/rx": "1",
		"nic-feature:v0/no-such": "on",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		before := mechanisms.Read(ctx, a)
		err := mechanisms.Write(ctx, a, setting.Value(value))
		if err == nil {
			t.Errorf("%s = %s: expected the kernel to refuse", a, value)
			continue
		}
		t.Log(err)
		must.Hold(t, strings.Contains(err.Error(), address) && strings.Contains(err.Error(), value),
			"refusal does not name value and wish: %v", err)
		if after := mechanisms.Read(ctx, a); !after.Same(before) {
			t.Errorf("%s: %s after a refused write, %s before", a, after, before)
		}
	}
	must.Do(t, mechanisms.Write(ctx, gather, setting.Value("on")))
	must.Equal(t, mechanisms.Read(ctx, segment).String(), "off",
		"segmentation with scatter-gather: a refused wish was left behind")
}

// TestRuleIsAddedAndRemovedExactly inserts the rule before an accounting rule and removes it again.
func TestRuleIsAddedAndRemovedExactly(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	legacySave := func() string { return withoutComments(treetest.Tool(t, "iptables-legacy-save", "-t", "raw")) }
	nftList := func() string { return treetest.Tool(t, "nft", "-s", "list", "ruleset") }
	ctx := context.Background()
	mechanisms := live(t).Mechanisms()
	rules := []struct {
		address     string
		show        func() string
		make, shift []string // what makes the accounting rule, and another that pushes ours from the head
		want        string   // line of our rule in what the tool shows
	}{
		{"netfilter-rule:nflog-skip/iptables-legacy", legacySave,
			strings.Fields("iptables-legacy -t raw -A PREROUTING -i vnet0 -j NFLOG --nflog-group 3"),
			strings.Fields("iptables-legacy -t raw -I PREROUTING -i vnet1 -j NFLOG --nflog-group 4"),
			`-A PREROUTING ! -p 253 -m comment --comment "mpps nflog-skip" -j ACCEPT`},
		{"netfilter-rule:nflog-skip/nft/inet/acct/pre", nftList,
			[]string{"nft", "add table inet acct; add chain inet acct pre { type filter hook prerouting priority " +
				"raw; }; add rule inet acct pre iifname vnet0 log group 3"},
			[]string{"nft", "insert rule inet acct pre iifname vnet1 log group 4"},
			`meta l4proto != 253 accept comment "mpps nflog-skip"`},
	}
	for _, c := range rules {
		if _, err := exec.LookPath(c.make[0]); err != nil {
			t.Logf("%s is not installed", c.make[0])
			continue
		}
		a := must.Get(setting.ParseAddress(c.address))(t)
		must.Equal(t, mechanisms.Read(ctx, a).State, setting.Absent, "%s where there is no chain", a)
		must.Refuse(t, mechanisms.Write(ctx, a, setting.Value("present")),
			"%s: expected a refusal where there is nothing to skip", a)
		treetest.Tool(t, c.make[0], c.make[1:]...)
		untouched := c.show()
		for range 2 { // the second time it is there already
			must.Do(t, mechanisms.Write(ctx, a, setting.Value("present")))
			if r := mechanisms.Read(ctx, a); r.Value != "present" || strings.Count(c.show(), c.want) != 1 {
				t.Errorf("%s: reads %s, the tool shows\n%s", a, r, c.show())
			}
		}
		treetest.Tool(t, c.shift[0], c.shift[1:]...)
		must.Equal(t, mechanisms.Read(ctx, a).String(), "misplaced", "%s behind another rule", a)
		must.Try(t, mechanisms.Write(ctx, a, setting.Value("present")))
		if r := mechanisms.Read(ctx, a); r.Value != "present" || strings.Count(c.show(), c.want) != 1 {
			t.Errorf("%s: reads %s after it was put first again, the tool shows\n%s", a, r, c.show())
		}
		for range 2 { // the second time it is gone already
			must.Try(t, mechanisms.Write(ctx, a, setting.Missing("")))
		}
		if strings.Contains(c.show(), "mpps") || strings.Count(c.show(), "vnet") != strings.Count(untouched, "vnet")+1 {
			t.Errorf("%s: after it was removed the tool shows\n%s\nbefore\n%s", a, c.show(), untouched)
		}
	}
}

// withoutComments removes the lines with times that iptables-save prints.
func withoutComments(save string) string {
	var kept strings.Builder
	for line := range strings.Lines(save) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ":") { // policies carry counters
			kept.WriteString(line)
		}
	}
	return kept.String()
}
