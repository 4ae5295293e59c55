package trace

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// TestRhythm: windows and pauses together take their share of the busiest CPU, however busy it is, in windows that are
// neither too short nor many, and where windows end too late.
func TestRhythm(t *testing.T) {
	for _, late := range []time.Duration{0, 40 * time.Millisecond} {
		for _, part := range []float64{0.02, 0.05, 0.2, 0.5, 0.9} {
			var windows, pauses time.Duration
			r := rhythm{length: shortest}
			for i := range 100 {
				held := r.length + lead + late
				pause := r.next(held, time.Duration(part*float64(held)), float64(i)/100)
				windows += held
				pauses += pause
				if r.length < shortest || held+pause < cycle/2 && late == 0 && i > 5 {
					t.Errorf("%.2f spent: a window of %v, and %v to the next", part, held, pause)
				}
			}
			took := part * float64(windows) / float64(windows+pauses)
			if took > share*1.05 || took < share*0.9 {
				t.Errorf("%.2f spent within windows that end %v late: %.4f of the CPU's time, expected %.4f", part,
					late, took, share)
			}
		}
	}
	r := rhythm{length: shortest}
	for i := range 10 {
		before := r.length
		if pause := r.next(before+lead, 0, 0.5); pause != 0 || r.length > 2*before {
			t.Errorf("window %d on an idle machine: %v after one of %v, %v apart", i, r.length, before, pause)
		}
	}
	if r.length != cycle {
		t.Errorf("after many windows on an idle machine they last %v, expected %v", r.length, cycle)
	}
	if pause := r.next(time.Second, time.Second, 0.9); pause != longest || r.length != shortest {
		t.Errorf("after a window of an overloaded machine %v and then one of %v, expected %v and %v", pause, r.length,
			longest, shortest)
	}
	if r.next(shortest, 0, 0.5); r.length > 2*shortest {
		t.Errorf("one window without packets later they last %v", r.length)
	}
}

func TestTimeIsBounded(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, time.Hour + 1} {
		if _, err := Watch(context.Background(), Config{For: d}); err == nil ||
			!strings.Contains(err.Error(), "at most an hour") {
			t.Errorf("for %v: %v, expected a refusal", d, err)
		}
	}
	if _, err := Watch(context.Background(), Config{For: time.Second, Netns: "there-is-none"}); err == nil ||
		!strings.Contains(err.Error(), "there-is-none") {
		t.Errorf("a namespace that is not there: %v", err)
	}
}

func TestNodesAndWorkers(t *testing.T) {
	h := &facts.Host{
		Topology: facts.Topology{CPUs: []facts.CPU{{ID: 0, Node: 0}, {ID: 1, Node: 1}, {ID: 3, Node: 0}}},
		Guests: []facts.Guest{{
			Name: "vm1", MemoryNodes: setting.CPUs(1),
			Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Tap: "vnet0"}, {MAC: "52:54:00:00:00:02"}},
			Threads: []facts.Thread{
				{TID: 1 << 30, Role: "vhost", NIC: "52:54:00:00:00:01", Queue: 1, CPU: 3}, {TID: 5, Role: "vcpu"},
				{TID: 6, Role: "vhost"}, {TID: 7, Role: "vhost", NIC: "52:54:00:00:00:02"},
			},
		}},
	}
	if found := cpuNodes(h); len(found) != 4 || found[1] != 1 || found[2] != -1 || found[3] != 0 {
		t.Errorf("nodes %v, expected 0 1 -1 0", found)
	}
	want := queuepath.Vhost{Guest: "vm1", Device: "vnet0", Queue: 1, Thread: 1 << 30, CPU: 3, Memory: setting.CPUs(1)}
	if found := vhost(h, namespace{}); len(found) != 1 || !reflect.DeepEqual(found[0], want) {
		t.Errorf("workers %+v, expected %+v: of a thread that is gone the CPU is the last known", found, want)
	}
	if found := vhost(h, namespace{name: "blue"}); found != nil {
		t.Errorf("workers %+v in another namespace", found)
	}
}
