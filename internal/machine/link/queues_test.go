package link

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestClasses: without traffic classes the kernel shows 0 for every queue, and nothing for a device with one queue.
func TestClasses(t *testing.T) {
	for want, of := range map[int]map[string]string{
		0: {"net/queues/tx-0/traffic_class": "0\n", "net/queues/tx-1/traffic_class": "0\n"},
		3: {"net/queues/tx-0/traffic_class": "0\n", "net/queues/tx-1/traffic_class": "2\n"},
	} {
		m := treetest.Recorded(t, of)
		must.Equal(t, classes(m, "net", 2), want, "%v classes", of)
	}
}
