//go:build lab

package load

import (
	"os"
	"slices"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// TestLoadOfGuest floods a guest with echo requests and looks at every part of what was seen meanwhile: the tap and the
// threads by name and owner, what KVM counts, the inside by its agent, the profile, waits and cost.
func TestLoadOfGuest(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t)
	must.Do(t, l.Bridge(t.Context(), "br0", "10.50.0.1/24"))
	g := must.Get(l.StartGuest(t.Context(), lab.GuestSpec{
		Name: "vm1", Binary: labtest.Init(t), Agent: true, VCPUs: 2,
		NICs: []lab.NIC{{Model: lab.Vhost, Bridge: "br0", Addr: "10.50.0.2/24"}},
	}))(t)
	text := must.Get(l.Must(t.Context(), `mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
ping -f -q -w 600 10.50.0.2 >/dev/null & flood=$!
for i in $(seq 600); do [ "$(cat /sys/class/net/br0/statistics/tx_packets)" -gt 1000 ] && break; sleep 0.2; done
mpps diagnose --for 8s -o -; code=$?
kill -INT $flood; exit $code`))(t)
	h, err := facts.ReadSnapshot(strings.NewReader(text))
	must.Need(t, err == nil, "%v: %.400s", err, text)
	load := h.Load
	t.Logf("%.1f s by %s, cost %.1f ms, unseen %+v\nthreads %+v\nprofile %+v\ndelays %+v\ndrops %+v\nguests %+v",
		load.Seconds, load.Method, load.CostMS, load.Unseen, load.Threads, load.Profile, load.Delays, load.Drops,
		load.Guests)
	// ms of each second. The bound of 2 % of a CPU is TestLoadCost's, on a processor; an emulated one takes some ten
	// times as long for the same, and longer beside another lab: 12 % was measured.
	const most = 300
	if load.Method != facts.ByTracepoints || load.CostMS > most*load.Seconds {
		t.Errorf("by %s, which took %.1f ms of %.1f s; expected at most 30 %% of an emulated CPU", load.Method,
			load.CostMS, load.Seconds)
	}
	tap := slices.IndexFunc(load.Devices, func(d facts.DeviceLoad) bool {
		return d.Kind == "tap" && d.Guest == g.Spec.Name
	})
	must.Hold(t, tap >= 0 && load.Devices[tap].TxPackets >= 100,
		"no tap of the guest that carries packets in %+v", load.Devices)
	roles := map[string]facts.ThreadLoad{}
	for _, x := range load.Threads {
		if x.Guest != g.Spec.Name {
			continue
		}
		if _, there := roles[x.Role]; !there { // the busiest stands first
			roles[x.Role] = x
		}
	}
	if v := roles["vhost"]; v.NIC == "" || v.Queue != 0 || v.Ran <= 0 || v.Switches == 0 || len(v.Devices) != 1 ||
		tap >= 0 && v.Devices[0] != load.Devices[tap].Name {
		t.Errorf("vhost: %+v", v)
	}
	if v := roles["vcpu"]; v.VCPU < 0 || v.Ran <= 0 || v.HaltPoll < 0 || v.HaltPoll > v.Ran || v.Policy != "other" {
		t.Errorf("vCPU: %+v", v)
	}
	if e := roles["emulator"]; e.Exits == 0 {
		t.Errorf("emulator: %+v, expected exits", e)
	}
	must.Need(t, len(load.Guests) == 1, "inside: %+v", load.Guests)
	in := load.Guests[0]
	if in.Seconds < load.Seconds*0.9 || len(in.CPUs) != 2 || len(in.Devices) == 0 || in.Devices[0].RxPackets < 100 ||
		len(in.IRQs) == 0 || len(in.Softnet) != 2 {
		t.Errorf("inside: %+v", in)
	}
	stages := map[string]float64{}
	for _, p := range load.Profile {
		stages[p.Stage] += p.Share
	}
	must.Hold(t, stages["tun"]+stages["vhost"]+stages["bridge"]+stages["kvm"] != 0, "profile: %v", stages)
	waited := func(tid int) bool {
		return slices.ContainsFunc(load.Delays, func(d facts.WakeDelay) bool { return d.TID == tid })
	}
	if !waited(roles["vhost"].TID) && !waited(roles["vcpu"].TID) {
		t.Errorf("delays: %+v", load.Delays)
	}
}
