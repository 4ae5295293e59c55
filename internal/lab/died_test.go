package lab

import (
	"fmt"
	"testing"
)

func TestLastWords(t *testing.T) {
	t.Parallel()
	hung := `[  968.035147] INFO: task systemd-udevd:267 blocked for more than 120 seconds.
[  968.037526]  <TASK>
[  968.039895]  request_wait_answer+0x1ba/0x2a0
[  968.039952]  __fuse_simple_request+0x297/0x290
[  968.049736]  </TASK>
`
	elsewhere := `[  968.035147] INFO: task modprobe:300 blocked for more than 120 seconds.
[  968.037526]  <TASK>
[  968.039895]  rtnl_lock+0x1ba/0x2a0
[  968.049736]  </TASK>
[  969.000000] task:cat stack trace __fuse_simple_request+0x297/0x290
`
	late := func(cpu string, softirqs int) string {
		return fmt.Sprintf("[   44.946885] rcu: rcu_preempt kthread timer wakeup didn't happen for 5254 jiffies! g-1107 f0x0\n"+
			"[   44.951775] rcu: \tPossible timer handling issue on cpu=%s timer-softirq=%d\n", cpu, softirqs)
	}
	for _, test := range []struct{ log, want string }{
		{"[    0.1] Linux version 6.12\n", ""},
		{elsewhere, ""},
		{hung, "[  968.035147] INFO: task systemd-udevd:267 blocked for more than 120 seconds. (for its file system)"},
		{elsewhere + hung, "[  968.035147] INFO: task systemd-udevd:267 blocked for more than 120 seconds. (for its file system)"},
		{late("0", 51) + late("0", 54) + late("1", 54), ""},
		{late("0", 51) + late("0", 54) + late("0", 54), "[   44.951775] rcu: \tPossible timer handling issue on cpu=0 timer-softirq=54"},
		{"[   37.650356] Kernel panic - not syncing: Fatal exception in interrupt\r\n" + hung, "[   37.650356] Kernel panic - not syncing: Fatal exception in interrupt"},
	} {
		if got := lastWords(test.log); got != test.want {
			t.Errorf("found %q, expected %q in\n%s", got, test.want, test.log)
		}
	}
}

// TestLooping: a CPU that stands on the instruction that it faulted on, twice, will not go on; one that is just there may.
func TestLooping(t *testing.T) {
	const (
		stuck   = "guest g1\nCPU#0\nRIP=ffffffffc0653040\nCR2=ffffffffc0653040\nCPU#1\nRIP=ffffffff8ceacad0\nCR2=00007fd456a13108\n"
		another = "guest g2\nCPU#0\nRIP=ffffffff8d50356f\nCR2=00007fd456a13108\n"
		moved   = "guest g1\nCPU#0\nRIP=ffffffffc0653080\nCR2=ffffffffc0653080\nCPU#1\nRIP=ffffffff8d50356f\nCR2=00007fd456a13108\n"
	)
	if got := looping(stuck + another + stuck + another); got != "guest g1, CPU#0, faults on its instruction at ffffffffc0653040 for ever" {
		t.Errorf("found %q", got)
	}
	for _, goesOn := range []string{"", stuck, stuck + another, stuck + another + moved + another, another + another} {
		if got := looping(goesOn); got != "" {
			t.Errorf("%q: found %q, expected nothing", goesOn, got)
		}
	}
}
