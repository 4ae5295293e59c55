package machine

import (
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestEachKindHasAMechanism: what a plan or journal may hold can be read and written.
func TestEachKindHasAMechanism(t *testing.T) {
	mechanisms := live(t).Mechanisms()
	for kind := range setting.Kinds {
		must.Hold(t, (mechanisms[kind] == nil) == (kind == setting.Fact),
			"%s: mechanism %v; every kind has one but a fact, which is worked out", kind, mechanisms[kind])
	}
}

// TestWritable: what Writable returns for a kind agrees with what a write of it does.
func TestWritable(t *testing.T) {
	m := recorded(t, map[string]string{
		"proc/sys/net/core/dev_weight": "64\n", "sys/module/kvm/parameters/halt_poll_ns": "200000\n",
		"etc/sysctl.d/10-x.conf": "", "proc/irq/default_smp_affinity": "f\n",
		"sys/kernel/mm/ksm/run": "0\n", "sys/kernel/tracing/set_event": "",
		"usr/lib/systemd/system/mpps-restore.service": "", "etc/systemd/system/multi-user.target.wants/x": "",
		"proc/swaps":                         "",
		"sys/class/net/br0/bridge/stp_state": "0\n", "sys/class/net/br0/device/sriov_numvfs": "0\n",
		"sys/class/net/br0/queues/rx-0/rps_cpus": "0\n",
	})
	mechanisms := m.Mechanisms()
	for address, value := range map[string]string{
		"sysctl:net.core.dev_weight": "128", "sysfs:class/net/br0/bridge/stp_state": "1", "nic-state:br0": "up",
		"vf-count:br0": "2", "sysfs-cpus:class/net/br0/queues/rx-0/rps_cpus": "1",
		"nic-ring:br0/rx": "512", "nic-channels:br0/combined": "2", "nic-coalesce:br0/rx-usecs": "1",
		"nic-feature:br0/rx-gro": "on", "nic-flag:br0/rx_striding_rq": "on",
		"domain:vm1/vcpupin/0": "1", "thread-affinity:vm1/emulator": "1", "netfilter-rule:nflog-skip/nft": "present",
		"service:irqbalance":            "stopped",
		"module-param:kvm/halt_poll_ns": "0", "ksm:run": "2", "trace-events:set_event": "none",
		"irq-cpus:default":               "0-1",
		"file:etc/sysctl.d/90-mpps.conf": "net.core.dev_weight = 128\n", "directory:etc/modprobe.d": "present",
		"unit:mpps-restore.service": "idle",
		"kernel-arg:iommu":          "pt", "swap:dev/sda2": "off", "thread-sched:ksoftirqd/0": "SCHED_FIFO 2",
		"rule-set:nft": "x", "vf-attr:br0/0/trust": "on", "root-qdisc:br0": "noqueue", "queue-lanes:br0": "tap0=0+1",
		"ovsdb:max-idle": "20000",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		can, wrote := m.Writable(a.Kind), mechanisms.Write(t.Context(), a, setting.Value(value))
		must.Equal(t, can == nil, wrote == nil, "%s can be written: %v; a write says %v", address, can, wrote)
	}
	must.Is(t, m.Writable(setting.Domain), tree.ErrNotLive, "definitions of a recorded tree")
	must.Succeed(t, live(t).Writable(setting.Domain), "definitions of a live machine")
}
