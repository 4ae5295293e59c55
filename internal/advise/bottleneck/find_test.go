package bottleneck

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const rounds = 40

// TestPlanted plants each bottleneck in many scenes and checks that Find names it.
func TestPlanted(t *testing.T) {
	t.Parallel()
	right, all, rightBlind, allBlind := 0, 0, 0, 0
	for _, p := range plants {
		wrong := map[string]int{}
		for seed := range uint64(rounds) {
			for _, blind := range []bool{false, true} {
				if blind && !p.blind {
					continue
				}
				s := newScene(seed)
				p.make(s)
				if blind {
					s.blind()
				}
				d := Find(s.h, s.l)
				ok := d.Bottleneck != nil && d.Bottleneck.Kind == p.kind
				if !ok {
					wrong[fmt.Sprintf("%s (counters alone: %t)", d.Why, blind)]++
				}
				if blind {
					allBlind++
					if ok {
						rightBlind++
					}
				} else {
					all++
					if ok {
						right++
					}
				}
			}
		}
		if len(wrong) > rounds/20 {
			t.Errorf("%s: expected %s, found:", p.name, p.kind)
			shown := 0
			for why, n := range wrong {
				if shown++; shown <= 4 {
					t.Errorf("    %d× %s", n, why)
				}
			}
		}
	}
	if float64(right) < 0.95*float64(all) || float64(rightBlind) < 0.9*float64(allBlind) {
		t.Errorf("first answer right in %d of %d, by counters alone in %d of %d", right, all, rightBlind, allBlind)
	}
	t.Logf("first answer right in %d of %d, by counters alone in %d of %d", right, all, rightBlind, allBlind)
}

// TestOnSender: packets that are received in their sender's time take its CPU, not those of a thread that hardly sends.
func TestOnSender(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role                string
		ran, softirq, wants float64
	}{{"pktgen", 0.99, 0.85, 0.85}, {"mpps", 0.99, 0.02, 0.02}, {"mpps", 0.2, 0.7, 0}, {"other", 0.99, 0.85, 0}} {
		s := newScene(1)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 60, TID: 60, Comm: "sends", Role: c.role, VCPU: -1,
			Queue: -1, CPU: 15, Affinity: setting.CPUs(15), Ran: c.ran})
		s.cpu(15, facts.CPULoad{System: 0.1, Softirq: c.softirq})
		got := Find(s.h, s.l).OnSender
		must.Hold(t, math.Abs(got-c.wants) < 0.01, "%+v: %g", c, got)
	}
}

func TestEveryKindIsPlanted(t *testing.T) {
	t.Parallel()
	planted := map[Kind]bool{}
	for _, p := range plants {
		planted[p.kind] = true
	}
	for _, m := range meanings {
		must.Hold(t, planted[m.Kind], "%s: nothing plants it", m.Kind)
	}
}

// TestHealthy checks that nothing is named on healthy hosts, at any load or without any.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		s := newScene(seed)
		if seed%3 == 0 {
			s.inside()
		}
		if seed%2 == 0 {
			s.blind()
		}
		if d := Find(s.h, s.l); d.Bottleneck != nil {
			t.Errorf("seed %d, %.0f packets per second: %s named: %s", seed, s.offered, d.Bottleneck.Kind, d.Why)
		}
		s.offered, s.taken = 20, 20
		s.flow()
		if d := Find(s.h, s.l); d.Bottleneck != nil || d.Next != nil || !strings.HasPrefix(d.Why, "no traffic to speak of") {
			t.Errorf("seed %d, idle: %s", seed, d.Why)
		}
	}
	s := newScene(1)
	s.h.Guests, s.h.KVM.Loaded = nil, true
	if d := Find(s.h, s.l); d.Role != facts.RoleEmpty || !strings.HasSuffix(d.Why, facts.RoleEmpty.Why()) {
		t.Errorf("a machine without guests (%s): %s", d.Role, d.Why)
	}
	d := Find(&facts.Host{}, &facts.Load{})
	must.Hold(t, d.Bottleneck == nil && d.Unseen != nil && d.Stages != nil, "an empty load: %+v", d)
}

// TestCalibrated compares the confidence with how often the answer is right, over all plants and scenes.
func TestCalibrated(t *testing.T) {
	t.Parallel()
	type bin struct{ n, right, said float64 }
	var bins [10]bin
	for _, p := range plants {
		for seed := range uint64(rounds) {
			for _, blind := range []bool{false, true} {
				s := newScene(1000 + seed)
				p.make(s)
				if blind {
					s.blind()
				}
				d := Find(s.h, s.l)
				if d.Bottleneck == nil {
					continue
				}
				b := &bins[min(int(d.Bottleneck.Confidence*10), 9)]
				b.n++
				b.said += d.Bottleneck.Confidence
				// without the tracepoint nobody can know more of packets that no counter has
				if d.Bottleneck.Kind == p.kind || blind && !p.blind && d.Bottleneck.Kind == Unaccounted {
					b.right++
				}
			}
		}
	}
	for i, b := range bins {
		if b.n == 0 {
			continue
		}
		t.Logf("%.1f–%.1f: %4.0f answers, %.2f right, %.2f said", float64(i)/10, float64(i+1)/10, b.n, b.right/b.n,
			b.said/b.n)
		if b.n >= 40 && b.right/b.n < b.said/b.n-0.1 {
			t.Errorf("answers with confidence %.2f were right in %.2f", b.said/b.n, b.right/b.n)
		}
	}
}

// TestSame checks that the same load gives the same answer, and that Find changes neither host nor load.
func TestSame(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		one, other := newScene(3), newScene(3)
		p.make(one)
		p.make(other)
		a, b := Find(one.h, one.l), Find(one.h, one.l)
		must.Hold(t, reflect.DeepEqual(a, b), "%s: two answers for one load", p.name)
		must.Hold(t, reflect.DeepEqual(one.l, other.l) && reflect.DeepEqual(one.h, other.h),
			"%s: judging changed what is judged", p.name)
	}
}

func TestFoundingExample(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		if !strings.Contains(p.name, "founding") {
			continue
		}
		s := newScene(1)
		p.make(s)
		b := Find(s.h, s.l).Bottleneck
		must.Hold(t, b != nil && b.Object == "vhost-2100 (queue 3)" &&
			strings.Contains(b.Say, "of CPU 7 while vCPUs are at") &&
			strings.Contains(b.Advice, "fewer vCPUs, more queues and vhost CPUs"), "%+v", b)
	}
}
