package lab

import (
	"testing"

	"mpps/internal/must"
)

func TestLastWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ log, want string }{
		{"[    0.1] Linux version 6.12\n", ""},
		{"[  968.035147] INFO: task modprobe:300 blocked for more than 25 seconds.\n", ""},
		{"[  968.1] Kernel panic - not syncing: hung_task: blocked tasks\n[  968.2] CPU: 1\n",
			"[  968.1] Kernel panic - not syncing: hung_task: blocked tasks"},
		{"[   37.650356] Kernel panic - not syncing: Fatal exception in interrupt\r\n", "[   37.650356] Kernel panic " +
			"- not syncing: Fatal exception in interrupt"},
	} {
		if got := lastWords(test.log); got != test.want {
			t.Errorf("found %q, expected %q in\n%s", got, test.want, test.log)
		}
	}
}

// TestLooping: a CPU that stands on the instruction that it faulted on, twice, will not go on; one that is just there
// may.
func TestLooping(t *testing.T) {
	const (
		stuck   = "guest g1\nCPU#0\nRIP=ffffffffc0653040\nCR2=ffffffffc0653040\nCPU#1\nRIP=ffffffff8ceacad0\nCR2=00007fd456a13108\n"
		another = "guest g2\nCPU#0\nRIP=ffffffff8d50356f\nCR2=00007fd456a13108\n"
		moved   = "guest g1\nCPU#0\nRIP=ffffffffc0653080\nCR2=ffffffffc0653080\nCPU#1\nRIP=ffffffff8d50356f\nCR2=00007fd456a13108\n"
	)
	if got := faultLoop(stuck + another + stuck + another); got != "guest g1, CPU#0, faults on its instruction at "+
		"ffffffffc0653040 for ever" {
		t.Errorf("found %q", got)
	}
	for _, goesOn := range []string{"", stuck, stuck + another, stuck + another + moved + another, another + another} {
		must.Equal(t, faultLoop(goesOn), "", "%q", goesOn)
	}
}
