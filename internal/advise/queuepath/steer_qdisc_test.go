package queuepath

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func refusedWith(t *testing.T, h *facts.Host, options SteerOptions, says ...string) {
	t.Helper()
	s, err := Steer(h, nil, options)
	refusal, is := errors.AsType[*Refusal](err)
	if !is || refusal.Instead == "" {
		t.Errorf("expected a refusal with %q and what to do instead, found %+v, %v", says, s, err)
		return
	}
	for _, word := range says {
		must.Hold(t, strings.Contains(err.Error(), word), "expected %q, found %v", word, err)
	}
}

// TestSteerQdisc: a discipline whose lock all lanes take is taken off a virtual device that needs none, where it can be
// put back.
func TestSteerQdisc(t *testing.T) {
	at := setting.Of(setting.RootQdisc, "vx0")
	foreign := setting.Value("htb 1:")
	foreign.ReadOnly, foreign.Why = true, "somebody put htb there"
	for what, c := range map[string]struct {
		reading setting.Reading
		spoil   func(*facts.Host)
		planned bool
		advised string
	}{
		"the kernel's own": {setting.Value("default fq_codel"), nil, true, ""},
		"none":             {setting.Value("noqueue"), nil, false, ""},
		"somebody's":       {foreign, nil, false, "somebody put htb there"},
		"down":             {setting.Missing("down"), nil, false, ""},
		"its own lock": {setting.Value("default fq_codel"),
			func(h *facts.Host) { h.Tunnels[0].Lockless = false }, false, "numtxqueues"},
		"a lock for each lane": {setting.Value("default mq fq_codel"),
			func(h *facts.Host) { h.Tunnels[0].TxQueues = 8 }, false, ""},
		"fewer locks than lanes": {setting.Value("default mq fq_codel"),
			func(h *facts.Host) { h.Tunnels[0].TxQueues = 2 }, true, ""}, "a bond": {setting.Value("default fq_codel"),
			func(h *facts.Host) { h.Tunnels[0].Type = "bond" }, true, ""},
		"and too few NIC queues": {setting.Value("default fq_codel"), func(h *facts.Host) { h.NICs[0].TxQueues = 2 },
			true, ""}, "one guest behind a bond": {setting.Value("default fq_codel"), func(h *facts.Host) {
			h.Tunnels[0].Type, h.Taps[1].Up = "bond", false
		}, true, ""},
	} {
		h := steerHost(2, 2, 8)
		through(h, 1, true)
		float(h, 0)
		h.Readings[at] = c.reading
		if c.spoil != nil {
			c.spoil(h)
		}
		s := mustSteer(t, h, nil, SteerOptions{})
		i := slices.IndexFunc(s.Changes, func(c plan.Change) bool { return c.Address == at })
		if (i >= 0) != c.planned {
			t.Errorf("%s: %+v", what, s.Changes)
		} else if c.planned {
			if one := s.Changes[i]; one.To.Value != setting.NoQueue || one.From != c.reading || one.Risk != goal.Blip ||
				one.Warning == "" {
				t.Errorf("%s: %+v", what, one)
			}
		}
		advised := ""
		for _, a := range s.Advice {
			advised += a.Text + ": " + a.Command + "\n"
		}
		if !strings.Contains(advised, c.advised) || c.advised == "" && strings.Contains(advised, "lock") {
			t.Errorf("%s: advice %q, expected %q", what, advised, c.advised)
		}
	}
}

// TestSteerQdiscOnce: a tunnel whose packets were seen to leave by two NICs, each guest's by one, loses its discipline
// once.
func TestSteerQdiscOnce(t *testing.T) {
	h, o := routed(Device{Name: "eno1", Kind: "nic", TxQueues: 4, RxQueues: 4, Node: -1}, 0)
	for i := range o.Rows {
		if r := &o.Rows[i]; r.Origin.Device == "vnet1" && r.To.Device == "eth0" {
			r.To = Queue{"eno1", Tx, r.To.Queue}
		}
	}
	h.Readings[setting.Of(setting.RootQdisc, "vx0")] = setting.Value("default fq_codel")
	s := mustSteer(t, h, o, SteerOptions{By: ByProgram})
	n := 0
	for _, c := range s.Changes {
		if c.Address.Kind == setting.RootQdisc {
			n++
		}
	}
	must.Hold(t, len(s.Groups) == 2 && n == 1, "%d changes of the discipline for %+v", n, s.Groups)
}

// TestMendIsWhatSteerDoes: --steer is named where it mends, and where it does not what does.
func TestMendIsWhatSteerDoes(t *testing.T) {
	for _, c := range []struct {
		d       Device
		mend    func(*Device) Mend
		command string
	}{
		{Device{Name: "gre0", Kind: "gretap", TxQueues: 1, Lockless: true, Qdisc: "fq_codel"}, funnelMend,
			steerCommand},
		{Device{Name: "gre0", Kind: "gretap", TxQueues: 1, Lockless: true, Qdisc: "noqueue"}, funnelMend, steerCommand},
		{Device{Name: "gre1", Kind: "gre", TxQueues: 1, Lockless: true, Qdisc: "fq_codel"}, funnelMend,
			"tc qdisc replace dev gre1 root noqueue"},
		{Device{Name: "gre0", Kind: "gretap", TxQueues: 1, Qdisc: "noqueue"}, funnelMend, steerCommand},
		{Device{Name: "vx0", Kind: "vxlan", TxQueues: 1, Qdisc: "noqueue"}, funnelMend, "ip -d link show vx0"},
		{Device{Name: "gre0", Kind: "gretap", TxQueues: 4, Lockless: true, Qdisc: "fq_codel"}, rootMend, steerCommand},
		{Device{Name: "gre0", Kind: "gretap", TxQueues: 4, Qdisc: "fq_codel"}, rootMend,
			"tc qdisc replace dev gre0 root mq"},
		{Device{Name: "eth0", Kind: "nic", TxQueues: 4, Qdisc: "fq"}, rootMend, "tc qdisc replace dev eth0 root mq"},
	} {
		if m := c.mend(&c.d); m.Command != c.command || m.Text == "" {
			t.Errorf("%+v: %+v, expected %q", c.d, m, c.command)
		}
	}
}

// TestUnlockGRE: for a GRE device with a lock the advice is the command that removes the option that needs the lock.
func TestUnlockGRE(t *testing.T) {
	made := []string{"address", "52:54:00:00:00:09", "mtu", "1458", "type", "gretap", "remote", "192.0.2.2", "oseq"}
	for want, spoil := range map[string]func(*facts.Tunnel){
		"ip link set gre1 type gretap nooseq": func(t *facts.Tunnel) { t.LocklessBy = "feature" },
		"bridge -d link show dev gre1; bridge fdb show dev gre1; ip link del gre1 && ip link add gre1 address " +
			"52:54:00:00:00:09 mtu 1458 type gretap remote 192.0.2.2 && ip link set gre1 master br0 up (and what was " +
			"shown)": func(t *facts.Tunnel) { t.LocklessBy, t.Made = "driver", made },
		"ip -d link show gre1 (its options; make it again without oseq)": func(t *facts.Tunnel) {
			t.Type, t.LocklessBy = "ip6gretap", "feature"
		},
	} {
		h := steerHost(2, 2, 8)
		through(h, 1, false)
		h.Bridges[0].Ports[0], h.Tunnels[0].Name, h.Tunnels[0].Type = "gre1", "gre1", "gretap"
		h.Tunnels[0].LockedBy = "oseq"
		spoil(&h.Tunnels[0])
		advice := mustSteer(t, h, nil, SteerOptions{}).Advice
		must.Hold(t, slices.ContainsFunc(advice, func(a Advice) bool { return a.Command == want }),
			"expected %q, found %+v", want, advice)
	}
}
