package machine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestReadingsOfRecordedHost(t *testing.T) {
	files := treetest.KVMHost()
	for name, text := range map[string]string{
		"proc/sys/net/core/dev_weight":                "64\n",
		"proc/sys/net/ipv4/tcp_rmem":                  "4096\t131072\t6291456\n",
		"proc/sys/net/ipv4/conf/eth0.100/rp_filter":   "2\n",
		"sys/kernel/mm/transparent_hugepage/enabled":  "always [madvise] never\n",
		"sys/devices/virtual/workqueue/cpumask":       "f\n",
		"proc/1/comm":                                 "systemd\n",
		"proc/77/comm":                                "irqbalance\n",
		"etc/secret":                                  "1\n",
		"sys/class/net/outside":                       "-> ../../../etc",
		"proc/sys/kernel/outside":                     "-> /etc/secret",
		"sys/devices/virtual/net/br0/bridge/bad_mask": "xyz\n",
	} {
		files[name] = text
	}
	m := recorded(t, files)
	mechanisms := m.Mechanisms()
	for _, c := range []struct{ address, want, why string }{
		{"sysctl:net.core.dev_weight", "64", ""},
		{"sysctl:net/core/dev_weight", "64", ""},
		{"sysctl:net.ipv4.tcp_rmem", "4096 131072 6291456", ""},
		{"sysctl:net.ipv4.conf.eth0/100.rp_filter", "2", ""},
		{"sysctl:net.core.nothing", "absent", "there is no /proc/sys/net/core/nothing"},
		{"sysctl:kernel.outside", "unknown", "escapes"},
		{"sysfs:kernel/mm/transparent_hugepage/enabled", "madvise", ""},
		{"sysfs:class/net/br0/bridge/nf_call_iptables", "1", ""},
		{"sysfs:class/net/outside/secret", "unknown", "escapes"},
		{"sysfs:class/net/eth9/mtu", "absent", "there is no"},
		{"sysfs-cpus:class/net/ens1/queues/tx-1/xps_cpus", "32", ""},
		{"sysfs-cpus:devices/virtual/workqueue/cpumask", "0-3", ""},
		{"sysfs-cpus:class/net/br0/bridge/bad_mask", "unknown", "hexadecimal"},
		{"irq-affinity:ens1/TxRx-0/46", "0-3", ""},
		{"irq-affinity:ens1/TxRx-0/99", "0-3", ""}, // renumbered since
		{"irq-affinity:ens1/TxRx-0/45", "0-3", ""}, // its number is another's now
		{"irq-affinity:ens1/TxRx-7/46", "absent", `"TxRx-7" of ens1`},
		{"irq-affinity:eth9/TxRx-0/46", "absent", "device eth9"},
		{"irq-affinity:ens1/46", "unknown", "DEVICE/NAME/NUMBER"},
		{"nic-ring:ens1/rx", "unknown", "recorded tree"},
		{"netfilter-rule:nflog-skip/nft", "unknown", "recorded tree"},
		{"service:irqbalance", "running", "systemd is not"},
		{"service:numad", "stopped", "systemd is not"},
		{"service:--help", "unknown", "name of a service"},
	} {
		a := must.Get(setting.ParseAddress(c.address))(t)
		r := mechanisms.Read(context.Background(), a)
		must.Hold(t, r.String() == c.want && strings.Contains(r.Why, c.why),
			"%s: %s (%s), want %s (%s)", c.address, r, r.Why, c.want, c.why)
	}
}

func TestWritingARecordedTree(t *testing.T) {
	m := recorded(t, map[string]string{
		"proc/sys/net/core/dev_weight": "64\n", "sys/class/net/eth0/queues/tx-0/xps_cpus": "3\n", "etc/secret": "1\n",
		"sys/class/net/outside": "-> ../../../etc",
	})
	mechanisms := m.Mechanisms()
	write := func(address, value string) error {
		a := must.Get(setting.ParseAddress(address))(t)
		return mechanisms.Write(context.Background(), a, setting.Value(value))
	}
	must.Try(t, write("sysctl:net.core.dev_weight", "600"))
	must.Try(t, write("sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus", "33"))
	if got := m.Line("proc/sys/net/core/dev_weight") + " " +
		m.Line("sys/class/net/eth0/queues/tx-0/xps_cpus"); got != "600 2,00000000" {
		t.Errorf("tree holds %q, want 600 and the mask of CPU 33", got)
	}
	for address, value := range map[string]string{
		"sysfs:class/net/outside/secret": "2", "sysctl:net.core.nothing": "1", "nic-ring:eth0/rx": "256",
		"nic-ring:eth0/tx": "many",
		"sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus": "9-1", "netfilter-rule:nflog-skip/nft": "present",
		"service:irqbalance": "stopped",
	} {
		if err := write(address, value); err == nil {
			t.Errorf("%s = %s: expected a refusal", address, value)
		} else if !strings.Contains(err.Error(), address) {
			t.Errorf("%s: the refusal does not name the value: %v", address, err)
		}
	}
	if secret, err := os.ReadFile(filepath.Join(m.Path, "etc/secret")); err != nil || string(secret) != "1\n" {
		t.Errorf("a file outside /sys was written: %q (%v)", secret, err)
	}
}

func TestStatesOfUnits(t *testing.T) {
	for text, want := range map[string]string{
		"LoadState=loaded\nActiveState=active\n": "running", "LoadState=loaded\nActiveState=failed\n": "stopped",
		"LoadState=not-found\nActiveState=inactive\n": "absent",
		"LoadState=loaded\nActiveState=activating\n":  "unknown", "": "unknown",
	} {
		must.Equal(t, systemd.UnitState(text, "irqbalance").String(), want, "%q", text)
	}
}
