package report

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/must"
)

// TestPolledPath draws a guest's way over its vhost-user port, the polling threads and the ports of DPDK.
func TestPolledPath(t *testing.T) {
	port := func(name, kind string, options map[string]string) facts.OVSPort {
		return facts.OVSPort{Name: name, Interfaces: []facts.OVSInterface{{Name: name, Type: kind, Options: options}}}
	}
	h := &facts.Host{Guests: []facts.Guest{{Name: "vm1", State: "running", VCPUs: 2, Interfaces: []facts.Interface{
		{MAC: "52:54:00:00:00:01", Type: "vhostuser", Source: "/run/vhu0", Model: "virtio"}}}}}
	h.OpenVSwitch = &facts.OpenVSwitch{
		Bridges: []facts.OVSBridge{
			{Name: "br-int", Datapath: facts.UserDatapath, Ports: []facts.OVSPort{
				port("vhu0", "dpdkvhostuserclient", map[string]string{"vhost-server-path": "/run//vhu0"}),
				port("p-phy", "patch", map[string]string{"peer": "p-int"})}},
			{Name: "br-phy", Datapath: facts.UserDatapath, Ports: []facts.OVSPort{
				port("dpdk0", "dpdk", map[string]string{"dpdk-devargs": "0000:5e:00.0,n=1"}),
				port("p-int", "patch", map[string]string{"peer": "p-phy"})}},
		},
		Polled: &facts.PolledSwitch{PMDs: []facts.PMD{{CPU: 3, BusyTSC: 30, IdleTSC: 70, Queues: []facts.PMDQueue{
			{Port: "dpdk0", Enabled: true, Usage: 20}, {Port: "vhu0", Usage: -1}}}}},
	}
	paths := reach.Of(h).Paths
	must.Need(t, len(paths) == 1 && paths[0].Judged(), "%+v", paths)
	way := wayOf(devicesOf(h), paths, true)
	var got []string
	for _, s := range append(way.Shared, way.Branches[0].Stations...) {
		got = append(got, s.Kind+" "+s.Name+": "+s.Text)
	}
	text := strings.Join(got, "\n")
	at := 0
	for _, part := range []string{"dpdk dpdk0: 0000:5e:00.0", "queue 0 polled on CPU 3 for 20 % of its time (busy for 30 %)",
		"PMD br-phy", "PMD br-int", "vhost vhu0: queue 0 (not enabled) polled on CPU 3", "vhost socket: /run/vhu0",
		"guest vm1"} {
		next := strings.Index(text[at:], part)
		must.Need(t, next >= 0, "%q does not follow in\n%s", part, text)
		at += next
	}
	// the same guest, and a switch that tells nothing
	h.OpenVSwitch.Polled = nil
	if p := reach.Of(h).Paths[0]; p.Judged() || !p.Has(reach.PolledUnseen) {
		t.Errorf("a switch that tells nothing is judged: %+v", p)
	}
}
