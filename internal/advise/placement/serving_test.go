package placement

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// ports returns the founding host: two sockets of ten cores, two ports of ten busy queues each on node 0, and one guest
// of nine vCPUs with nine queues on each of them.
func ports(threads int) Ask {
	ask := sized(2, 10, threads).nic(0).nic(0).guest("router", 9, 9)
	ask.NICs[0].Queues, ask.NICs[1].Queues = 10, 10
	ask.Guests[0].NICs = []Interface{{MAC: "a", NIC: "eth0", Queues: 9}, {MAC: "b", NIC: "eth1", Queues: 9}}
	return ask
}

// TestInterrupts checks the CPUs of busy interrupts on the founding host: at most four queues for each, with the cost
// of every choice.
func TestInterrupts(t *testing.T) {
	pinned := func(ask Ask) Ask { // as it was recorded: vCPUs on 1 to 9, vhost threads on 11 to 19
		g := &ask.Guests[0]
		for cpu := range 9 {
			g.Pins = append(g.Pins, cpu+1)
		}
		g.Emulator = setting.CPUs(11, 12, 13, 14, 15, 16, 17, 18, 19)
		for q := range 9 {
			for _, n := range g.NICs {
				g.Workers = append(g.Workers, Worker{NIC: n.MAC, Queue: q, CPUs: setting.CPUs(11 + q)})
			}
		}
		return ask
	}
	full := ports(1).guest("second", 9, 1) // nothing is left: ten queues share each of the two CPUs kept for the host
	for _, c := range []struct {
		name    string
		ask     Ask
		want    string
		relaxed string
		most    int
	}{
		{"without SMT", ports(1), "router: 11-19 | vhost 5-9 | emulator 5-9; irq eth0 0-4; irq eth1 0-4; " +
			"kept 0-4,10; relaxed 2; refused 0", "node 1 keeps 1 core fewer", 4},
		{"with SMT", ports(2), "router: 11-19 | vhost 3-9,23-29 | emulator 3-9,23-29; irq eth0 0-2,20-22; " +
			"irq eth1 0-2,20-22; kept 0-2,10,20-22,30; relaxed 1; refused 0", "", 4},
		{"pinned without SMT", pinned(ports(1)), "router: 1-9 | vhost 11-19 | emulator 11-19; irq eth0 0,10-13; " +
			"irq eth1 0,10-13; kept 0,10; relaxed 3; refused 0",
			"have 1 CPU of their node 0 where 5 should serve their 20 busy queues", 4},
		{"pinned with SMT", pinned(ports(2)), "", "", 4},
		{"a second guest", full, "", "10 busy queues share a CPU", 10},
	} {
		r := Place(c.ask)
		if got := picture(r); c.want != "" && got != c.want {
			t.Errorf("%s:\n found    %s\n expected %s\n%s", c.name, got, c.want, strings.Join(r.Relaxed, "\n"))
		}
		must.Hold(t, strings.Contains(strings.Join(r.Relaxed, "\n"), c.relaxed),
			"%s: nothing gives way as %q in %q", c.name, c.relaxed, r.Relaxed)
		load := map[int]int{}
		for _, s := range r.NICs {
			for q := range 10 {
				cpu := s.CPUs[q%len(s.CPUs)]
				if load[cpu]++; load[cpu] > c.most {
					t.Errorf("%s: CPU %d serves %d queues, expected %d", c.name, cpu, load[cpu], c.most)
				}
			}
			chosen := 0
			for _, o := range s.Others {
				chosen += count01(o.Chosen)
			}
			must.Hold(t, s.Most != 0 && s.Most <= c.most && len(s.Others) >= 2 && chosen != 0,
				"%s: %s: %d for a CPU, choices %+v", c.name, s.Name, s.Most, s.Others)
		}
		for _, problem := range Check(c.ask, r) {
			t.Errorf("%s: %s", c.name, problem)
		}
	}
}

// TestBusyQueues: the queues that nic.channels adds for the goal are busy before as after.
func TestBusyQueues(t *testing.T) {
	for _, c := range []struct{ combined, most, rx, want int }{
		{4, 16, 0, 9}, {9, 16, 0, 9}, {4, 6, 0, 6}, {12, 16, 0, 12}, {40, 40, 0, 16}, {0, 16, 4, 4},
	} {
		n := &facts.NIC{Channels: &facts.Channels{Combined: c.combined, MaxCombined: c.most, Rx: c.rx}}
		must.Equal(t, busyQueues(n, goal.Goal{PPS: 1.8e6}), c.want, "%+v: busy queues", c)
	}
}

// TestKeptWorkers: a vhost thread stays on its CPU if that is one of its guest's, and the others leave it alone there.
func TestKeptWorkers(t *testing.T) {
	ask := sized(1, 8, 2).nic(0).guest("vm", 4, 2)
	first := Place(ask).Guest("vm")
	mac, own := first.Vhost[0].NIC, first.VhostCPUs()
	must.Need(t, len(own) >= 2, "%+v", first.Vhost)
	again := Place(ask.with(func(g *Guest) {
		g.Pins, g.Emulator = first.VCPUSet(), own
		g.Workers = []Worker{{NIC: mac, Queue: 0, CPUs: own},
			{NIC: mac, Queue: 1, CPUs: setting.CPUs(first.Vhost[0].CPU)}}
	})).Guest("vm")
	if got := again.Queue(mac, 1).CPU; got != first.Vhost[0].CPU || again.Queue(mac, 0).CPU == got {
		t.Errorf("first %+v, then %+v", first.Vhost, again.Vhost)
	}
}
