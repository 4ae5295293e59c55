package link

import (
	"maps"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/reach"
)

func TestStack(t *testing.T) {
	t.Parallel()
	m := treetest.Recorded(t, map[string]string{
		"proc/net/netstat": "TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 0 12\nIpExt: InNoRoutes\nIpExt: 7\n",
		"proc/net/snmp":    "Ip: Forwarding InAddrErrors\nIp: 1 5\n",
		"proc/net/stat/arp_cache": "entries  allocs   table_fulls\n00000400 00000010 00000001\n" +
			"00000400 00000010 0000000f\n",
		"proc/net/stat/ndisc_cache": "entries table_fulls\nzz\n",
	})
	counters := []reach.Counter{{File: "netstat", Name: "TcpExt.IPReversePathFilter"},
		{File: "netstat", Name: "IpExt.InNoRoutes"}, {File: "snmp", Name: "Ip.InAddrErrors"},
		{File: "snmp", Name: "Ip.NotThere"}, {File: "stat/arp_cache", Name: "entries"},
		{File: "stat/arp_cache", Name: "table_fulls"}, {File: "stat/ndisc_cache", Name: "table_fulls"},
		{File: "stat/nf_conntrack", Name: "drop"}}
	want := map[string]uint64{"TcpExt.IPReversePathFilter": 12, "IpExt.InNoRoutes": 7, "Ip.InAddrErrors": 5,
		"arp_cache.entries": 1024, "arp_cache.table_fulls": 16}
	if found := ReadStack(m, "proc/net", counters); !maps.Equal(found, want) {
		t.Errorf("found %v, expected %v", found, want)
	}
}
