//go:build lab

package machine

import (
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// writeAndRestore sets a value, checks it with another program, restores it and checks again.
func writeAndRestore(t *testing.T, mechanisms setting.Mechanisms, address, value, script, want string) {
	t.Helper()
	ctx := patient(t)
	a := must.Get(setting.ParseAddress(address))(t)
	before := mechanisms.Read(ctx, a)
	if before.State != setting.Known || before.ReadOnly || before.Value == value {
		t.Errorf("%s: reads %s (%s) before; want another value than %s that can be written", a, before, before.Why,
			value)
		return
	}
	shown := sh(t, script)
	if err := mechanisms.Write(ctx, a, setting.Value(value)); err != nil {
		t.Error(err)
		return
	}
	if got := mechanisms.Read(ctx, a); got.Value != value {
		t.Errorf("%s: reads %s after %s was written", a, got, value)
	}
	if got := sh(t, script); !strings.Contains(got, want) {
		t.Errorf("%s: after %s was written another program shows %q, want %q in it", a, value, got, want)
	}
	must.Try(t, mechanisms.Write(ctx, a, before))
	if after, now := mechanisms.Read(ctx, a), sh(t, script); !after.Same(before) || now != shown {
		t.Errorf("%s: %s after it was restored to %s; another program shows %q, before %q", a, after, before, now,
			shown)
	}
}

func TestHousekeepingOfTheLab(t *testing.T) {
	labtest.Long(t)
	if !inLab(t) {
		return
	}
	m := must.Get(Open("/"))(t)
	mechanisms := m.Mechanisms()
	sh(t, "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
	sh(t, "mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug")
	sh(t, "echo 1 > /sys/kernel/mm/ksm/run")
	defer sh(t, "echo 0 > /sys/kernel/mm/ksm/run")
	for _, c := range []struct{ address, value, script, want string }{
		{"ksm:run", "0", "cat /sys/kernel/mm/ksm/run", "0"},
		{"trace-events:set_event", "sched:sched_process_exec", "cat /sys/kernel/tracing/set_event",
			"sched:sched_process_exec"},
		{"sysfs:kernel/tracing/tracing_on", "0", "cat /sys/kernel/tracing/tracing_on", "0"},
		{"thread-sched:ksoftirqd/1", "SCHED_FIFO 2", "chrt -p $(pgrep -x ksoftirqd/1)", "SCHED_FIFO"},
		{"sysctl:kernel.sched_rt_runtime_us", "-1", "sysctl -n kernel.sched_rt_runtime_us", "-1"},
		{"sysctl:vm.stat_interval", "10", "sysctl -n vm.stat_interval", "10"},
		{"sysctl:kernel.watchdog_cpumask", "0", "sysctl -n kernel.watchdog_cpumask", "0"},
		{"sysfs-cpus:devices/virtual/workqueue/cpumask", "0", "cat /sys/devices/virtual/workqueue/cpumask", "1"},
		{"irq-cpus:default", "0", "cat /proc/irq/default_smp_affinity", "1"},
	} {
		writeAndRestore(t, mechanisms, c.address, c.value, c.script, c.want)
	}
	// This kernel refuses to take time from the deadline server (EBUSY) while realtime threads are throttled:
	// rt.throttling comes first.
	limit := strings.TrimSpace(sh(t, "sysctl -n kernel.sched_rt_runtime_us"))
	sh(t, "sysctl -qw kernel.sched_rt_runtime_us=-1")
	defer sh(t, "sysctl -qw kernel.sched_rt_runtime_us="+limit)
	server := "/sys/kernel/debug/sched/fair_server/cpu1/runtime"
	writeAndRestore(t, mechanisms, "sysfs:"+strings.TrimPrefix(server, "/sys/"), "0", "cat "+server, "0")
}

func TestVirtualFunctionsAreSet(t *testing.T) {
	labtest.Long(t)
	if !inLab(t) {
		return
	}
	m := must.Get(Open("/"))(t)
	name := byMAC(t, takeStock(t, m), lab.MACigb0).Name
	sh(t, "ip link set "+name+" up; echo 0 > /sys/class/net/"+name+"/device/sriov_drivers_autoprobe; echo 2 > "+
		"/sys/class/net/"+name+"/device/sriov_numvfs")
	defer sh(t, "echo 0 > /sys/class/net/"+name+"/device/sriov_numvfs; echo 1 > /sys/class/net/"+name+
		"/device/sriov_drivers_autoprobe")
	mechanisms := m.Mechanisms()
	show := "ip link show " + name + " | grep 'vf 1 '"
	for _, c := range []struct{ attribute, value, want string }{
		{"vlan", "100", "vlan 100"}, {"spoofchk", "off", "spoof checking off"}, {"trust", "on", "trust on"},
	} {
		writeAndRestore(t, mechanisms, "vf-attr:"+name+"/1/"+c.attribute, c.value, show, c.want)
	}
	ctx := patient(t)
	mac := setting.Of(setting.VFAttr, name, "1", "mac")
	must.Try(t, mechanisms.Write(ctx, mac, setting.Value("52:54:00:00:09:02")))
	if text := sh(t, show); !strings.Contains(text, "52:54:00:00:09:02") ||
		mechanisms.Read(ctx, mac).Value != "52:54:00:00:09:02" {
		t.Errorf("mac: %s", text)
	}
	for _, a := range []setting.Address{setting.Of(setting.VFAttr, name, "7", "vlan"),
		setting.Of(setting.VFAttr, "none0", "0", "vlan")} {
		if r := mechanisms.Read(ctx, a); r.State != setting.Absent || !r.NoObject {
			t.Errorf("%s: %+v", a, r)
		}
	}
	must.Refuse(t, mechanisms.Write(ctx, setting.Of(setting.VFAttr, name, "1", "vlan"), setting.Value("4095")),
		"VLAN 4095 was accepted")
}
