package watch

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestPathMetrics: guests' packets by place, at most 20 series a guest, and names that cannot break the format.
func TestPathMetrics(t *testing.T) {
	t.Parallel()
	h := facts.Synthetic(facts.Size{CPUs: 16, NICs: 2, Queues: 2, Guests: 3})
	hostile := "a\"} 1\nmpps_realtime_ok 1 \\ \x1b"
	h.Guests[1].Name = hostile
	h.Guests[2].State = "shut off"
	h.Guests = append(h.Guests, facts.Guest{Name: "web", UUID: "u", State: "running",
		Owner: &facts.Owner{Platform: facts.KubeVirt, ID: "shop/web"}})
	for i := range h.Taps {
		h.Taps[i].Guest = h.Guests[i/2].Name
		h.Taps[i].Stats = map[string]uint64{"rx_packets": 100, "tx_packets": 7, "tx_dropped": 3, "rx_dropped": 1}
	}
	h.VFs = []facts.VF{{PF: "eth0", Guest: "vm000", Traffic: &facts.VFTraffic{RxPackets: 5, TxDropped: 2}}}
	h.NICs[0].Stats["rx_missed_errors"] = 9
	p := PathOf(h)
	p.Limit, p.Judged = &Limit{Stage: "vhost", Kind: "vhost.cpu", Object: "vhost-1"}, true
	w := New()
	w.Observe(Look{Path: &p, Saw: map[Source]bool{Values: true}, States: map[string]int{"waiting": 2, "compliant": 5}})
	text := w.Metrics("1")
	must.Contain(t, text,
		"mpps_guests 3\n", `mpps_guest_info{guest="web",platform="kubevirt",id="shop/web"} 1`,
		`mpps_guest_info{guest="vm000",platform="libvirt",id="00000000-0000-4000-8000-000000000000"} 1`,
		`mpps_guest_info{guest="a\"} 1?mpps_realtime_ok 1 \\ ?",platform=`,
		`mpps_guest_packets_total{guest="vm000",place="tap",direction="to_guest"} 14`,
		`mpps_guest_packets_total{guest="vm000",place="tap",direction="from_guest"} 200`,
		`mpps_guest_packets_total{guest="vm000",place="vf",direction="to_guest"} 5`,
		`mpps_guest_dropped_packets_total{guest="vm000",place="tap",direction="to_guest"} 6`,
		`mpps_guest_dropped_packets_total{guest="vm000",place="vf",direction="from_guest"} 2`,
		`mpps_nic_lost_packets_total{device="eth0",counter="rx_missed_errors"} 9`,
		`mpps_bottleneck_info{stage="vhost",kind="vhost.cpu",object="vhost-1"} 1`,
		`mpps_values{state="waiting"} 2`, `mpps_findings{severity="critical"} 0`, "mpps_bottleneck_judged 1\n")
	if n := strings.Count(text, `guest="vm000"`); n > 20 || n < 9 {
		t.Errorf("%d series of a guest", n)
	}
	if t.Failed() {
		fmt.Println(text)
	}
}
