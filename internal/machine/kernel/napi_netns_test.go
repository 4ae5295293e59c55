//go:build netns

package kernel

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestNAPIFiles sets how a device's queues are polled and whether a bridge floods to it, and puts that back, checked
// with cat.
func TestNAPIFiles(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add br0 type bridge", "link add v0 type veth peer name v1", "link set v0 master br0 up",
		"link set v1 up", "link add vx0 type vxlan id 7 dstport 4789 remote 192.0.2.7 dev v1", "link set vx0 up")
	mechanisms := Mechanisms(treetest.Live(t))
	for file, value := range map[string]string{
		"v0/napi_defer_hard_irqs": "10", "v0/gro_flush_timeout": "20000", "v0/brport/unicast_flood": "0",
		"vx0/threaded": "1", // a veth without GRO has no NAPI, and refuses
	} {
		a := setting.Of(setting.Sysfs, "class/net", file)
		shown := func() string { return strings.TrimSpace(treetest.Tool(t, "cat", "/sys/"+a.Path)) }
		before := mechanisms.Read(t.Context(), a)
		if before.State == setting.Absent {
			t.Logf("this kernel has no %s", file)
			continue
		}
		for _, to := range []string{value, before.Value} {
			must.Succeed(t, mechanisms.Write(t.Context(), a, setting.Value(to)), "%s = %s", file, to)
			if r := mechanisms.Read(t.Context(), a); r.Value != to || shown() != to {
				t.Errorf("%s reads %+v, and cat shows %s; expected %s", file, r, shown(), to)
			}
		}
	}
}
