package bench

import (
	"testing"

	"mpps/internal/model/facts"
)

// TestStops: the way of a packet ends with the guest and its back end before that, whatever its agent tells or does
// not.
func TestStops(t *testing.T) {
	for name, inside := range map[string]*facts.Inside{"nobody asked": nil, "no agent": {Why: "it has no channel"},
		"an agent": {Release: "6.12.1"}} {
		h := &facts.Host{Guests: []facts.Guest{{
			Name: "vm1", Managed: true, State: "running", Inside: inside,
			Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "bridge", Source: "br0", Tap: "vnet0",
				Model: "virtio", Queues: 2}},
		}}}
		stops := guestStops(h, "vm1")
		if n := len(stops); n < 2 || stops[n-1].Stage != "guest" || stops[n-1].Name != "vm1" ||
			stops[n-2].Stage != "vhost" {
			t.Errorf("%s: %+v", name, stops)
		}
	}
}
