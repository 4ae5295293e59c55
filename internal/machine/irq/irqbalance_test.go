package irq

import (
	"slices"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestIRQBalance reads irqbalance's configuration from the environment of the running process, or from its unit's
// files.
func TestIRQBalance(t *testing.T) {
	running := map[string]string{"proc/900/comm": "irqbalance\n"}
	for name, c := range map[string]struct {
		files map[string]string
		want  *facts.IRQBalance
	}{
		"not there": {nil, nil},
		"debian's file": {map[string]string{"etc/default/irqbalance": "# IRQBALANCE_BANNED_CPULIST=1\nIRQBALANCE_BANNED_CPULIST=\"2-3\"\n"},
			&facts.IRQBalance{Configured: true, From: "/etc/default/irqbalance"}},
		"a mask": {map[string]string{"etc/sysconfig/irqbalance": "IRQBALANCE_BANNED_CPUS=0000000c\n"},
			&facts.IRQBalance{Configured: true, From: "/etc/sysconfig/irqbalance"}},
		"set to none": {map[string]string{"etc/default/irqbalance": "IRQBALANCE_BANNED_CPULIST=\n"},
			&facts.IRQBalance{Configured: true, From: "/etc/default/irqbalance"}},
		"silent": {map[string]string{"etc/default/irqbalance": "IRQBALANCE_ONESHOT=\n"},
			&facts.IRQBalance{From: "/etc/default/irqbalance"}},
		"environment": {treetest.Merged(running,
			map[string]string{"proc/900/environ": "A=b\x00IRQBALANCE_BANNED_CPULIST=2,3\x00",
				"etc/default/irqbalance": "IRQBALANCE_BANNED_CPULIST=7\n"}),
			&facts.IRQBalance{Configured: true, From: "its environment"}},
		"unreadable": {running, &facts.IRQBalance{Why: "neither its environment nor a file of its unit could be read"}},
		"nonsense": {map[string]string{"etc/default/irqbalance": "IRQBALANCE_BANNED_CPULIST=zwei\n"},
			&facts.IRQBalance{Configured: true, From: "/etc/default/irqbalance",
				Why: `IRQBALANCE_BANNED_CPULIST: CPU list "zwei": expected a CPU number, found "zwei"`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := treetest.Recorded(t, treetest.Merged(map[string]string{"proc/uptime": "1 1\n"}, c.files))
			got := Balance(m, []facts.Service{{Name: "irqbalance", PID: 900, Running: m.Exists("proc/900/comm")}})
			if (got == nil) != (c.want == nil) {
				t.Fatalf("expected %+v, found %+v", c.want, got)
			}
			if got == nil {
				return
			}
			wantCPUs := map[string]string{"debian's file": "2-3", "a mask": "2-3", "environment": "2-3"}[name]
			must.Hold(t, got.Configured == c.want.Configured && got.From == c.want.From && got.Why == c.want.Why &&
				got.Banned.String() == wantCPUs, "expected %+v of %q, found %+v", *c.want, wantCPUs, *got)
		})
	}
}

// TestIRQBalanceArguments reads the banned interrupts and the policy script, of the running process first.
func TestIRQBalanceArguments(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		irqs   []int
		script string
	}{
		"process": {map[string]string{"proc/900/comm": "irqbalance\n",
			"proc/900/environ":       "A=b\x00IRQBALANCE_ARGS=--banirq=41 -i 42 --policyscript /etc/p.sh\x00",
			"etc/default/irqbalance": "IRQBALANCE_ARGS=--banirq=7\n"}, []int{41, 42}, "/etc/p.sh"},
		"rhel's file":   {map[string]string{"etc/sysconfig/irqbalance": "IRQBALANCE_ARGS=\"--policyscript=/p --banirq=9\"\n"}, []int{9}, "/p"},
		"debian's file": {map[string]string{"etc/default/irqbalance": "#OPTIONS=\"-i 3\"\nOPTIONS=\"-i 4 -l /q\"\n"}, []int{4}, "/q"},
		"none":          {map[string]string{"etc/default/irqbalance": "IRQBALANCE_ARGS=\n"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := treetest.Recorded(t, treetest.Merged(map[string]string{"proc/uptime": "1 1\n"}, c.files))
			got := Balance(m, []facts.Service{{Name: "irqbalance", PID: 900, Running: m.Exists("proc/900/comm")}})
			must.Hold(t, got != nil && slices.Equal(got.IRQs, c.irqs) && got.Script == c.script,
				"expected interrupts %v and script %q, found %+v", c.irqs, c.script, got)
		})
	}
}
