package knob

import (
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestIsolationFlags: a kernel gets no flag that it does not know, which would void the whole argument.
func TestIsolationFlags(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"3.10.0-1160.119.1.el7.x86_64": "2-3", "4.18.0-553.40.1.el8_10.x86_64": "2-3", "5.4.0-150-generic": "2-3",
		"5.6.0": "managed_irq,domain,2-3", "6.12.48-amd64": "managed_irq,domain,2-3",
	} {
		must.Equal(t, (isolation{scheduler: true}).value(release, setting.CPUs(2, 3)), want, "isolcpus of %q", release)
		must.Equal(t, (isolation{}).value(release, setting.CPUs(2, 3)), "2-3", "nohz_full of %q", release)
	}
}
