package queuepath

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSteerClassifiers: a tap with a classifier of somebody else's gets no program, and XPS does without it.
func TestSteerClassifiers(t *testing.T) {
	h := steerHost(2, 2, 8)
	h.Taps[1].Classifiers = []string{"u32"}
	if s := mustSteer(t, h, nil, SteerOptions{}); s.Groups[0].Means != ByXPS || len(s.Groups[0].Lanes) != 2 {
		t.Errorf("with threads on dedicated CPUs: %+v", s.Groups)
	}
	float(h, 0)
	s := mustSteer(t, h, nil, SteerOptions{})
	if value := s.Changes[len(s.Changes)-1].To.Value; s.Groups[0].Means != ByProgram ||
		value != "52:54:00:00:00:00=0+2" {
		t.Errorf("%s: %s", s.Groups[0].Means, value)
	}
	told := false
	for _, a := range s.Advice {
		told = told || strings.Contains(a.Text, "ingress of vnet1 (u32;") && a.Command != ""
	}
	if !told {
		t.Errorf("advice: %+v", s.Advice)
	}
	h.Taps[0].Classifiers = []string{"bpf"}
	refusedWith(t, h, SteerOptions{}, "vhost threads of vm0 float", "erases the lane")
	refusedWith(t, h, SteerOptions{By: ByProgram}, "ingress of vnet0 (bpf;")

	h = steerHost(2, 2, 8) // at a tunnel, below both
	through(h, 1, true)
	float(h, 0)
	h.Tunnels = append(h.Tunnels, facts.Tunnel{Name: "vx9", Type: "vxlan", Classifiers: []string{"u32"}})
	if s := mustSteer(t, h, nil, SteerOptions{}); s.Groups[0].Means != ByProgram {
		t.Errorf("with a classifier at another tunnel: %+v", s.Groups)
	}
	h.Tunnels[0].Classifiers = []string{"flower"}
	refusedWith(t, h, SteerOptions{}, "vhost threads of vm0 float", "egress of vx0 (flower; tc filter show dev vx0 "+
		"egress) erases the lane")
}

// TestAstray: what leaves by another queue than planned is told, what keeps to it and what hardly sends is not.
func TestAstray(t *testing.T) {
	h := steerHost(2, 2, 8)
	for wrong, want := range map[int]int{0: 0, 1: 1} {
		o := seenOn(h, func(tap, queue int) uint64 { return []uint64{5000, 10}[tap*queue] },
			func(tap, queue int) int { return 2*tap + queue + wrong*(1-tap)*queue })
		found := Astray(o, &Steering{Groups: []Steered{{NICs: []string{"eth0"}, Means: ByProgram,
			taps:  []string{"vnet0", "vnet1"},
			Lanes: []setting.Lane{{Tap: "a", Base: 0, Count: 2}, {Tap: "b", Base: 2, Count: 2}}}}})
		if len(found) != want || want > 0 && !strings.Contains(found[0], "5000 of 5000 packets of 1 queue of vnet0") {
			t.Errorf("%d wrong: %q", wrong, found)
		}
	}
}

// TestSteerClasses: queues that are divided into traffic classes are not steered; a driver that chooses itself is told.
func TestSteerClasses(t *testing.T) {
	h := steerHost(2, 2, 8)
	h.NICs[0].Classes = 3
	refusedWith(t, h, SteerOptions{}, "eth0 are divided into 3 traffic classes")
	h.NICs[0].Classes = 1
	for _, h.NICs[0].Driver = range []string{"hv_netvsc", "mana"} {
		s := mustSteer(t, h, nil, SteerOptions{})
		must.Hold(t, len(s.Changes) != 0 && len(s.Advice) != 0 &&
			strings.Contains(s.Advice[0].Text, h.NICs[0].Driver+" chooses"), "%+v", s.Advice)
	}
}
