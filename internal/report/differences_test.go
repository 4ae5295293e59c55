package report

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestSnapshotDiff: of a day with two new functions and a running irqbalance, the differences that somebody made are
// shown, and the others counted.
func TestSnapshotDiff(t *testing.T) {
	var all []facts.Difference
	add := func(before, after string, paths ...string) {
		for _, path := range paths {
			all = append(all, facts.Difference{Path: path, Before: before, After: after})
		}
	}
	add("4", "2", "nics[ens1].channels.combined", "readings[nic-channels:ens1/combined].value")
	add("(absent)", "{}", "nics[ens1v0]", "vfs[ens1 0]", "readings[nic-ring:ens1v0/rx]", "readings[vf-attr:ens1/0/mac]",
		"readings[sysfs:class/net/ens1v0/threaded]")
	add("1", "2", "housekeeping.irqs[6].affinity", "nics[eth0].irqs[eth0-rx-0].affinity",
		"readings[irq-affinity:eth0/rx-0/55].value", "readings[irq-cpus:63/ahci[0000:00:1f.2]].value",
		"readings[irq-cpus:64/x].value", "readings[nic-channels:eth0/combined].value", "readings[sysctl:vm.swappiness].value")
	draw := func(verbose bool) string {
		text := &Text{Width: 80}
		SnapshotDiff(text, 100, all, false, verbose)
		return text.String()
	}
	short := draw(false)
	for _, path := range []string{"nics[ens1].channels.combined", "nics[ens1v0]", "vfs[ens1 0]", "sysctl:vm.swappiness",
		"nic-channels:eth0/combined", "14 differences", "3 interrupts on other CPUs", "4 settings that belong"} {
		must.Hold(t, strings.Contains(short, path), "no %s in\n%s", path, short)
	}
	for _, path := range []string{"ens1v0/rx", "vf-attr", "irq-cpus", "affinity", "nic-channels:ens1"} {
		must.Hold(t, !strings.Contains(short, path), "%s in\n%s", path, short)
	}
	whole := draw(true)
	for _, d := range all {
		must.Hold(t, strings.Contains(whole, d.Path), "no %s with -v in\n%s", d.Path, whole)
	}
}
