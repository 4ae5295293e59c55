package plan

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
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
	must.Do(t, err)
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

// guestArgs are the arguments of the guest's next boot that a plan for a latency sets, and what it says of the others.
func guestArgs(t *testing.T, h *facts.Host) (set map[string]string, p *Plan) {
	t.Helper()
	p, err := Make(h, goal.Goal{Latency: 20 * time.Microsecond, Guest: h.Guests[0].Name}, knob.Catalogue(), nil)
	must.Do(t, err)
	set = map[string]string{}
	for _, c := range p.Changes {
		if c.Address.Kind != setting.GuestArg {
			continue
		}
		set[c.Address.Rest()] = c.To.Value
		must.Hold(t, c.Needs == setting.RestartOf(h.Guests[0].Name) && c.Risk == goal.GuestRestart &&
			c.Lasts == setting.InGuestLoader, "%s needs %q, at risk %s, lasts %s", c.Address, c.Needs, c.Risk, c.Lasts)
	}
	return set, p
}

// TestArgumentsOfGuestsArePlanned: the lists that are missing follow those that are there.
func TestArgumentsOfGuestsArePlanned(t *testing.T) {
	const all = "managed_irq,domain,1-2"
	for name, c := range map[string]struct {
		release string
		next    map[string]string
		want    map[string]string
	}{
		"none":       {"6.12.48", nil, map[string]string{"isolcpus": all, "nohz_full": "1-2", "rcu_nocbs": "1-2"}},
		"old kernel": {"3.10.0-1160.el7", nil, map[string]string{"isolcpus": "1-2", "nohz_full": "1-2", "rcu_nocbs": "1-2"}},
		"one of them": {"6.12.48", map[string]string{"nohz_full": "2"},
			map[string]string{"isolcpus": "managed_irq,domain,2", "rcu_nocbs": "2"}},
		"agreeing": {"6.12.48", map[string]string{"isolcpus": "2", "nohz_full": "2", "rcu_nocbs": "2"}, map[string]string{}},
		"N and ranges": {"6.12.48", map[string]string{"isolcpus": "domain,1-N", "nohz_full": "1,2", "rcu_nocbs": "1-2"},
			map[string]string{}},
		"one differs": {"6.12.48", map[string]string{"isolcpus": "1-2", "nohz_full": "1", "rcu_nocbs": "1-2"},
			map[string]string{"nohz_full": "1-2"}},
	} {
		h := withInside()
		in := h.Guests[0].Inside.Host
		in.Kernel.Release, in.Kernel.CommandLine, in.Boot = c.release, "ro", &facts.Boot{Loader: "grub"}
		for cpu := range 3 {
			in.Topology.CPUs = append(in.Topology.CPUs, facts.CPU{ID: cpu})
		}
		for _, arg := range []string{"isolcpus", "nohz_full", "rcu_nocbs", "idle"} {
			r := setting.Missing("not on the command line")
			if value, given := c.next[arg]; given {
				r = setting.Value(value)
			}
			h.Readings[setting.Of(setting.GuestArg, h.Guests[0].Name, arg)] = r
		}
		set, _ := guestArgs(t, h)
		if idle, given := set["idle"]; given && idle != "poll" {
			t.Errorf("%s: idle=%s", name, idle)
		}
		delete(set, "idle")
		must.Hold(t, maps.Equal(set, c.want), "%s: planned %v, expected %v", name, set, c.want)
		in.Topology.Online = setting.CPUs(0)
		if set, _ := guestArgs(t, h); len(set) > 0 && len(c.next) == 0 && set["isolcpus"] != "" {
			t.Errorf("%s: of a guest with one vCPU: %v", name, set)
		}
		in.Topology.Online, in.Boot = setting.CPUs(0, 1, 2), nil
		if set, p := guestArgs(t, h); len(set) > 0 || !slices.ContainsFunc(p.Skipped, func(s Skipped) bool {
			return s.ID == "guest.realtime" && s.Address.Rest() == "realtime/isolcpus"
		}) {
			t.Errorf("%s: without a boot loader: %v", name, set)
		}
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
		must.Hold(t, c.Address.Guest() != guest, "planned: %s", c.Address)
	}
	var stale *Stale
	if err := Check(p, h); !errors.As(err, &stale) || !strings.Contains(err.Error(), "migration out") {
		t.Errorf("a plan from before: %v", err)
	}
}
