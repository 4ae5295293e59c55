package host

import (
	"errors"
	"testing"

	"mpps/internal/setting"
)

// TestWritable: what Writable says of a kind is what a write of it then does.
func TestWritable(t *testing.T) {
	m := recorded(t, map[string]string{
		"proc/sys/net/core/dev_weight": "64\n", "sys/class/net/br0/bridge/stp_state": "0\n", "sys/class/net/br0/queues/rx-0/rps_cpus": "0\n",
	})
	mechanisms := m.Mechanisms()
	for address, value := range map[string]string{
		"sysctl:net.core.dev_weight": "128", "sysfs:class/net/br0/bridge/stp_state": "1", "sysfs-cpus:class/net/br0/queues/rx-0/rps_cpus": "1",
		"nic-ring:br0/rx": "512", "nic-channels:br0/combined": "2", "nic-coalesce:br0/rx-usecs": "1", "nic-feature:br0/rx-gro": "on",
		"domain:vm1/vcpupin/0": "1", "thread-affinity:vm1/emulator": "1", "netfilter-rule:nflog-skip/nft": "present", "service:irqbalance": "stopped",
	} {
		a, err := setting.ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		can, wrote := m.Writable(a.Kind), mechanisms.Write(t.Context(), a, setting.Value(value))
		if (can == nil) != (wrote == nil) {
			t.Errorf("%s can be written: %v; a write says %v", address, can, wrote)
		}
	}
	if err := m.Writable(setting.Domain); !errors.Is(err, errNotLive) {
		t.Errorf("definitions of a recorded tree: %v", err)
	}
	if err := (&Machine{live: true}).Writable(setting.Domain); err != nil {
		t.Errorf("definitions of a live machine: %v", err)
	}
}
