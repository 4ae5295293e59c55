package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// withInside is the lab's host with what the agent of its guest told: two queues, of which one is used, and one vCPU
// that sends.
func withInside() *facts.Host {
	h := lab()
	g := &h.Guests[0]
	in := &facts.Host{
		AsRoot: true, Virtual: "kvm", Kernel: facts.Kernel{Release: "6.12.48"}, Readings: facts.Readings{},
		NICs: []facts.NIC{{
			Name: "eth0", Driver: "virtio_net", Up: true, TxQueues: 2, RxQueues: 2,
			Channels: &facts.Channels{Combined: 2, MaxCombined: 2},
			XPS:      []setting.CPUSet{setting.CPUs(0), {}},
		}},
	}
	in.Topology.Online = setting.CPUs(0, 1, 2)
	g.Inside = &facts.Inside{Release: "6.12.48", Host: in}
	for path, value := range map[string]string{"nic-channels:eth0/combined": "1",
		"sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus": "0", "sysfs-cpus:class/net/eth0/queues/tx-1/xps_cpus": ""} {
		a, err := setting.ParseAddress("inside:" + g.Name + "/" + path)
		if err != nil {
			panic(err)
		}
		h.Readings[a] = setting.Value(value)
	}
	return h
}

// insideIDs are the knobs that a plan for a guest sets inside it.
func insideIDs(t *testing.T, h *facts.Host, guest string) (*Plan, []string) {
	t.Helper()
	g := goal.Unlimited()
	g.Guest = guest
	p, err := Make(h, g, knob.Catalogue(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range p.Changes {
		if c.Address.Kind == setting.Inside {
			ids = append(ids, c.ID)
		}
	}
	return p, ids
}

func TestInsideIsPlannedWhereTheGoalNamesTheGuest(t *testing.T) {
	h := withInside()
	guest := h.Guests[0].Name
	if _, ids := insideIDs(t, h, guest); !slices.Equal(ids, []string{"guest.xps", "guest.xps"}) {
		t.Errorf("planned inside: %v", ids)
	}
	if p, ids := insideIDs(t, h, ""); len(ids) > 0 ||
		!slices.ContainsFunc(p.Skipped, func(s Skipped) bool { return strings.Contains(s.Why, "--guest "+guest) }) {
		t.Errorf("planned unasked: %v", ids)
	}
	h.Guests[0].Inside.Host.NICs[0].Channels.Combined = 1
	p, ids := insideIDs(t, h, guest)
	if !slices.Equal(ids, []string{"guest.channels"}) ||
		!slices.ContainsFunc(p.Later, func(l Later) bool { return slices.Equal(l.IDs, []string{"guest.xps"}) }) {
		t.Errorf("with queues to come: %v, later %+v", ids, p.Later)
	}
}

// TestMigratingGuestIsLeftAlone: nothing of it is planned, and a plan from before is stale.
func TestMigratingGuestIsLeftAlone(t *testing.T) {
	h := withInside()
	guest := h.Guests[0].Name
	p, _ := insideIDs(t, h, guest)
	h.Guests[0].Job = "migration out"
	now, _ := insideIDs(t, h, guest)
	for _, c := range now.Changes {
		if guestOf(c.Address) == guest {
			t.Errorf("planned: %s", c.Address)
		}
	}
	var stale *Stale
	if err := Check(p, h); !errors.As(err, &stale) || !strings.Contains(err.Error(), "migration out") {
		t.Errorf("a plan from before: %v", err)
	}
}
