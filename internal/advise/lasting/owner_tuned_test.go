package lasting

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// profiled is a host on which TuneD isolates CPUs 1 to 3.
func profiled() *facts.Host {
	h := host()
	h.Lasting.Tuned = &facts.Tuned{
		Running: true, Profile: "quiet", Reapplies: true, Variables: map[string]string{"isolated_cores": "1-3"},
		Arguments: "isolcpus=managed_irq,domain,1-3 nosoftlockup",
		Sysctls: []facts.OwnedValue{{Key: "vm/swappiness", Value: "10", File: "/p"},
			{Key: "kernel/numa_balancing", Value: "0", File: "/p"}},
		Options: []facts.OwnedValue{{Key: "sysfs./sys/kernel/mm/ksm/run", Value: "2", File: "/p"},
			{Key: "scheduler.isolated_cores", Value: "1-3", File: "/p"},
			{Key: "vm.transparent_hugepages", Value: "never", File: "/p"},
			{Key: "bootloader.cmdline_p", Value: "+isolcpus=managed_irq,domain,1-3 nosoftlockup", File: "/p"}},
	}
	return h
}

const thp = "sysfs:kernel/mm/transparent_hugepage/enabled"

// TestDisputes: what TuneD gives too is no dispute and is not kept a second time; what it gives otherwise is one, and
// where its next start takes a planned value away that is said.
func TestDisputes(t *testing.T) {
	h := profiled()
	p := add(t, h, change("sysctl:vm.swappiness", "60", "1"), change("sysctl:kernel.numa_balancing", "1", "0"),
		change(thp, "always", "madvise"),
		change("ksm:run", "1", "2"), change("kernel-arg:isolcpus", "", "managed_irq,domain,2-3"),
		change("kernel-arg:nosoftlockup", "", "present"),
		change("irq-affinity:eth0/rx-0/45", "0-3", "0"), change("irq-affinity:eth0/rx-1/46", "0-3", "2"),
		change("thread-cpus:kernel", "0-3", "0"), change("thread-cpus:other", "0-3", "0-1"))
	var got []string
	for _, d := range Disputes(p, h) {
		got = append(got, d.Address.String()+" "+d.Planned+" "+d.Tuned+" "+
			d.Option+map[bool]string{true: " resets"}[d.Resets])
	}
	want := []string{
		"sysctl:vm.swappiness 1 10 sysctl.vm/swappiness", thp + " madvise never vm.transparent_hugepages resets",
		"kernel-arg:isolcpus managed_irq,domain,2-3 managed_irq,domain,1-3 bootloader.cmdline_p resets",
		"irq-affinity:eth0/rx-1/46 2  scheduler.isolated_cores resets",
		"thread-cpus:other 0-1  scheduler.isolated_cores resets",
	}
	must.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "disputes")
	for _, i := range []int{1, 3} {
		if c := p.Changes[i]; !strings.HasPrefix(c.Kept, "TuneD profile quiet") || c.Lasts != setting.AcrossReboot {
			t.Errorf("%s is kept by %q", c.Address, c.Kept)
		}
	}
	if text := find(p, "lasting.sysctl").To.Value; strings.Contains(text, "numa_balancing") ||
		!strings.Contains(text, "vm.swappiness = 1\n") {
		t.Errorf("sysctl.d:\n%s", text)
	}
	if text := find(p, "lasting.desired").To.Value; strings.Contains(text, "ksm:run") || !strings.Contains(text, thp) {
		t.Errorf("list:\n%s", text)
	}

	// Without sysctl.d behind it TuneD takes its own value back; a TuneD that is stopped by the plan, or does not run,
	// nothing.
	h = profiled()
	h.Lasting.Tuned.Reapplies = false
	if all := Disputes(add(t, h, change("sysctl:vm.swappiness", "60", "1")), h); len(all) != 1 || !all[0].Resets {
		t.Errorf("%+v", all)
	}
	h = profiled()
	p = add(t, h, change("service:tuned", "running", "stopped"), change("sysctl:kernel.numa_balancing", "1", "0"),
		change(thp, "always", "madvise"))
	if all := Disputes(p, h); len(all) != 0 || strings.HasPrefix(p.Changes[1].Kept, "TuneD") {
		t.Errorf("with TuneD stopped: %+v, kept by %q", all, p.Changes[1].Kept)
	}
	h = profiled()
	h.Lasting.Tuned.Options = append(h.Lasting.Tuned.Options, facts.OwnedValue{Key: "net.coalesce", Value: "rx-usecs 3",
		File: "/p"}, facts.OwnedValue{Key: "net.ring", Value: "rx 512", File: "/p"})
	p = add(t, h, change("nic-coalesce:eth0/rx-usecs", "1", "3"), change("nic-ring:eth0/rx", "256", "512"))
	if all := Disputes(p, h); len(all) != 0 || strings.HasPrefix(p.Changes[0].Kept, "TuneD") ||
		!strings.HasPrefix(p.Changes[1].Kept, "TuneD") {
		t.Errorf("coalescing, which not every TuneD sets: %+v, kept by %q; rings by %q", all, p.Changes[0].Kept,
			p.Changes[1].Kept)
	}
	h = profiled()
	h.Lasting.Tuned.Running = false
	must.Empty(t, Disputes(add(t, h, change(thp, "always", "madvise")), h), "where TuneD does not run")
}
