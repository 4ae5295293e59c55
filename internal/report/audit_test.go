package report

import (
	"fmt"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestWhose: a line of an audit names guests, devices or CPUs, as many as fit, and says how many it does not name.
func TestWhose(t *testing.T) {
	of := func(kind setting.Kind, format string, names ...any) (all []audit.Finding) {
		for _, n := range names {
			all = append(all, audit.Finding{Address: setting.Of(kind, fmt.Sprintf(format, n))})
		}
		return all
	}
	hundred := make([]any, 100)
	for i := range hundred {
		hundred[i] = i
	}
	for _, c := range []struct {
		want string
		room int
		of   []audit.Finding
	}{
		{"CPUs 0-1,3", 20, of(setting.Sysfs, "devices/system/cpu/cpu%d/cpufreq/scaling_governor", 0, 1, 3)},
		{"CPU 7", 20, of(setting.Sysfs, "devices/system/cpu/cpu%d/power/energy_perf_bias", 7)},
		{"eth0", 20, append(of(setting.SysfsCPUs, "class/net/eth0/queues/tx-%d/xps_cpus", 0, 1),
			of(setting.NICRing, "%s/rx", "eth0")...)},
		{"web1, web2", 20, of(setting.Domain, "%s/vcpupin/0", "web1", "web2", "web1")},
		{"web1, and 2 more", 20, of(setting.Domain, "%s/vcpupin/0", "web1", "web-2000", "web-3000")},
		{"a-very-…, and 1 more", 20, of(setting.Domain, "%s/vcpupin/0", "a-very-long-name", "b-long-too")},
		{"sysctl:net.core.rme…", 20, of(setting.Sysctl, "net.core.rmem_max%s", "")},
		{"CPUs 0-1, eth0", 20, append(of(setting.Sysfs, "devices/system/cpu/cpu%d/cpufreq/scaling_governor", 0, 1),
			of(setting.NICRing, "%s/rx", "eth0")...)},
		{"…, and 99 m…", 12, of(setting.Domain, "long-name-%d/vcpupin/0", hundred...)},
		{"gäste1, gäste2", 14, of(setting.Domain, "%s/vcpupin/0", "gäste1", "gäste2")},
		{"?[31m, b", 20, of(setting.Domain, "%s/vcpupin/0", "\x1b[31m", "b")},
		{"host", 20, of(setting.Fact, "host/%s", "memory", "node")},
	} {
		must.Equal(t, whose(c.of, c.room), c.want, "whose(c.of, c.room)")
	}
}
