package link

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRootQdiscLeftAlone: a NIC's qdisc, one with parameters, and one that would not be the kernel's default now.
func TestRootQdiscLeftAlone(t *testing.T) {
	r := rootQdisc{treetest.Recorded(t, map[string]string{"proc/sys/net/core/default_qdisc": "fq_codel\n",
		"sys/class/net/eth0/device/vendor": "0x8086\n", "sys/class/net/gre0/flags": "0x1003\n"})}
	for _, c := range []struct{ device, value, why string }{
		{"gre0", "default fq_codel", ""}, {"gre0", "default mq fq_codel", ""}, {"gre0", "mq 1: fq_codel", ""},
		{"gre0", "pfifo_fast 1:", ""}, {"gre0", "noqueue", ""},
		{"gre0", "default pfifo_fast", "choice was pfifo_fast and now is fq_codel"},
		{"gre0", "default mq fq", "choice was fq and now is fq_codel"},
		{"gre0", "htb 1:", "parameters"}, {"eth0", "default fq_codel", "a NIC's"},
	} {
		q := must.Get(setting.ParseQdisc(c.value))(t)
		if err := r.checkReplaceable(c.device, q); (err == nil) != (c.why == "") || err != nil &&
			!strings.Contains(err.Error(), c.why) {
			t.Errorf("%s on %s: %v, expected %q", c.value, c.device, err, c.why)
		}
	}
	if got := r.Read(t.Context(), setting.Of(setting.RootQdisc, "gre0")); got.State != setting.Unknown ||
		got.Why == "" {
		t.Errorf("of a recorded tree: %+v", got)
	}
}
