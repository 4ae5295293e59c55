package gallery

import (
	"testing"

	"mpps/internal/must"
)

// TestPagesWhereMemoryIsBound: 1 GiB pages are reserved on the nodes that a guest's definition binds its memory to,
// even if these have no CPUs: without pages there it would not start.
func TestPagesWhereMemoryIsBound(t *testing.T) {
	all := must.Get(judged(host(t, "cxl-guests-on-it")))(t)
	const want = "hugepagesz=1G hugepages=0:33,2:17,3:17" // half of cold's 32 GiB on each, all of warm's on node 0
	found := ""
	for _, v := range all {
		for _, c := range v.plan.Changes {
			if c.Address.Path == "hugepagesz+hugepages" && v.flags == "--latency 20us" {
				found = c.To.Value
			}
		}
	}
	must.Equal(t, found, want, "found")
}
