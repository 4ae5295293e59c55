package knob

import (
	"testing"

	"mpps/internal/model/setting"
)

// TestIsolationFlags: a kernel gets no flag that it does not know, which would void the whole argument.
func TestIsolationFlags(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"3.10.0-1160.119.1.el7.x86_64": "2-3", "4.18.0-553.40.1.el8_10.x86_64": "2-3", "5.4.0-150-generic": "2-3",
		"5.6.0": "managed_irq,domain,2-3", "6.12.48-amd64": "managed_irq,domain,2-3",
	} {
		if got := (isolation{scheduler: true}).value(release, setting.CPUs(2, 3)); got != want {
			t.Errorf("isolcpus of %q: %s, expected %s", release, got, want)
		}
		if got := (isolation{}).value(release, setting.CPUs(2, 3)); got != "2-3" {
			t.Errorf("nohz_full of %q: %s", release, got)
		}
	}
}
