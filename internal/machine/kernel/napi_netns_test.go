//go:build netns

package kernel

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
)

// TestNAPIFiles sets how a device's queues are polled and whether a bridge floods to it, and puts that back, checked
// with cat.
func TestNAPIFiles(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add br0 type bridge", "link add v0 type veth peer name v1", "link set v0 master br0 up",
		"link set v1 up")
	mechanisms := Mechanisms(treetest.Live(t))
	for file, value := range map[string]string{
		"napi_defer_hard_irqs": "10", "gro_flush_timeout": "20000", "threaded": "1", "brport/unicast_flood": "0",
	} {
		a := setting.Of(setting.Sysfs, "class/net", "v0", file)
		shown := func() string { return strings.TrimSpace(treetest.Tool(t, "cat", "/sys/"+a.Path)) }
		before := mechanisms.Read(t.Context(), a)
		if before.State == setting.Absent {
			t.Logf("this kernel has no %s", file)
			continue
		}
		for _, to := range []string{value, before.Value} {
			if err := mechanisms.Write(t.Context(), a, setting.Value(to)); err != nil {
				t.Errorf("%s = %s: %v", file, to, err)
			}
			if r := mechanisms.Read(t.Context(), a); r.Value != to || shown() != to {
				t.Errorf("%s reads %+v, and cat shows %s; expected %s", file, r, shown(), to)
			}
		}
	}
}
