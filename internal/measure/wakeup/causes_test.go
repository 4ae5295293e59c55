package wakeup

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// background are counters that a host has, each with its mean in 100 ms.
var background = []struct {
	counter facts.Counter
	mean    float64
}{
	{facts.Counter{Kind: facts.SMI, CPU: -1}, 0.001}, {facts.Counter{Kind: facts.Steal, CPU: 3}, 0.003},
	{facts.Counter{Kind: facts.MachineCheck, Name: "polls", CPU: 3}, 0.001},
	{facts.Counter{Kind: facts.Throttle, Name: "core", CPU: 3}, 0.001},
	{facts.Counter{Kind: facts.OtherThread, Name: "kworker/3:1 (812)", CPU: 3}, 0.02},
	{facts.Counter{Kind: facts.OtherThread, Name: "ksoftirqd/3 (40)", CPU: 3}, 0.01},
	{facts.Counter{Kind: facts.Migration, Name: "CPU 1/KVM (900)", CPU: -1}, 0.001},
	{facts.Counter{Kind: facts.PageFault, Name: "CPU 1/KVM (900)", CPU: -1}, 0.05},
	{facts.Counter{Kind: facts.Interrupt, Name: "45 eth0-rx-0", CPU: 3}, 2},
	{facts.Counter{Kind: facts.Interrupt, Name: "LOC local timer", CPU: 3}, 25},
	{facts.Counter{Kind: facts.IPI, Name: "TLB", CPU: 3}, 0.3}, {facts.Counter{Kind: facts.IPI, Name: "CAL", CPU: 3},
		1},
	{facts.Counter{Kind: facts.NMI, Name: "NMI", CPU: 3}, 0.01},
	{facts.Counter{Kind: facts.SoftIRQ, Name: "RCU", CPU: 3}, 3},
	{facts.Counter{Kind: facts.SoftIRQ, Name: "TIMER", CPU: 3}, 5},
	{facts.Counter{Kind: facts.Memory, Name: "compact_stall", CPU: -1}, 0.01},
	{facts.Counter{Kind: facts.IdleEntry, Name: "C6", CPU: 3}, 0.5},
	{facts.Counter{Kind: facts.IdleEntry, Name: "C1", CPU: 3}, 40},
	{facts.Counter{Kind: facts.Frequency, CPU: 3}, 0.2},
	{facts.Counter{Kind: facts.RunDelay, Name: "CPU 1/KVM (900)", CPU: -1}, 30},
	{facts.Counter{Kind: facts.ContextSwitch, CPU: 3}, 12}, {facts.Counter{Kind: facts.VMExit, Name: "exits", CPU: -1},
		500}, {facts.Counter{Kind: facts.VMExit, Name: "io_exits", CPU: -1}, 20},
}

// poisson is a number by lot.
func poisson(r *rand.Rand, mean float64) uint64 {
	if mean > 30 {
		return uint64(max(0, mean+r.NormFloat64()*math.Sqrt(mean)))
	}
	n, p := uint64(0), r.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= r.Float64()
	}
	return n
}

// scene is a made measurement: runs of slices of 10 s, counted every 100 ms, with long wake-ups in some intervals.
// planted goes with them.
type scene struct {
	seed    uint64
	seconds int
	exact   bool
	long    int             // intervals with a long wake-up
	planted map[int]float64 // background's number → what it has more in those intervals
	share   float64         // of the long wake-ups that have it
	extra   map[int]float64 // further ones, as a consequence
}

func (s scene) file() *File {
	r := rand.New(rand.NewPCG(s.seed, 7))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	recorder := NewRecorder()
	tally := facts.Tally{}
	for _, b := range background {
		tally[b.counter] = 1000
	}
	clone := func() facts.Tally {
		c := facts.Tally{}
		for k, v := range tally {
			c[k] = v
		}
		return c
	}
	recorder.Add(begin, clone())
	intervals := s.seconds * 10
	longAt := map[int]uint64{}
	for len(longAt) < s.long {
		longAt[r.IntN(intervals)] = uint64(150_000 + r.IntN(900_000))
	}
	run := Run{Started: begin}
	slice := Slice{From: begin, CPU: 1}
	for i := range intervals {
		end := begin.Add(time.Duration(i+1) * 100 * time.Millisecond)
		ns, isLong := longAt[i]
		hit := isLong && r.Float64() < s.share
		for n, b := range background {
			mean := b.mean
			if hit {
				mean += s.planted[n] + s.extra[n]
			}
			tally[b.counter] += poisson(r, mean)
		}
		recorder.Add(end, clone())
		usual := uint64(9_000 + r.IntN(9_000))
		slice.MaxNs, slice.Count = max(slice.MaxNs, usual), slice.Count+500
		if isLong {
			slice.MaxNs = max(slice.MaxNs, ns)
			slice.Long = append(slice.Long,
				Wakeup{Ns: ns, Run: 1, CPU: 1, From: run.moment(end.Add(-60 * time.Millisecond)),
					To: run.moment(end.Add(-40 * time.Millisecond))})
		}
		if (i+1)%100 == 0 {
			slice.To = end
			if s.exact {
				slice.TriggerNs = 18_000
				keepLongest(&slice.Long, maxLong)
			} else {
				slice.Long = nil
			}
			run.Slices = append(run.Slices, slice)
			slice = Slice{From: end, CPU: 1}
		}
	}
	run.Latency = measure.NewLatency(TimerWakeup, []measure.Bucket{{FromNs: 8000, ToNs: 8000, Count: 1e6},
		{FromNs: 18000, ToNs: 18000, Count: 1000}})
	f := &File{Runs: []Run{run}, Counted: recorder.Series(nil, 0)}
	f.Finish()
	return f
}

// TestPlanted plants each kind of cause behind long wake-ups, by what such a thing looks like, and wants it named
// first.
func TestPlanted(t *testing.T) {
	for n, b := range background {
		more := max(3, 4*b.mean)
		if b.counter.Kind == facts.OtherThread || b.counter.Kind == facts.Steal {
			more = 50
		}
		for seed := range uint64(2) {
			f := scene{seed: seed, seconds: 200, exact: true, long: 25, planted: map[int]float64{n: more},
				share: 0.9}.file()
			c := f.Causes
			if len(c.Found) == 0 || c.Found[0].Kind != b.counter.Kind || c.Found[0].Name != b.counter.Name {
				t.Errorf("planted %v, seed %d: found %+v", b.counter, seed, c)
				continue
			}
			if f.Worst[0].Cause != 1 && f.Worst[1].Cause != 1 && f.Worst[2].Cause != 1 {
				t.Errorf("planted %v: none of the three worst has it: %+v", b.counter, f.Worst[:3])
			}
			must.Hold(t, c.Found[0].Confidence == Strong && c.Found[0].Advice != "" &&
				strings.Contains(c.Verdict, " windows with long wake-ups"), "%+v", c)
		}
	}
}

// TestPlantedBySlice: without exact times a rare thing is found from the slices' maxima, of which more are needed.
func TestPlantedBySlice(t *testing.T) {
	for _, n := range []int{0, 1, 4, 6, 12} {
		f := scene{seed: uint64(n), seconds: 3000, long: 12, planted: map[int]float64{n: 40}, share: 1}.file()
		if c := f.Causes; len(c.Found) == 0 || c.Found[0].Kind != background[n].counter.Kind {
			t.Errorf("planted %v: found %+v", background[n].counter, c)
		}
		if w := f.Worst[0]; w.To.Seconds-w.From.Seconds < 9.9 || !strings.Contains(w.When(), "within") {
			t.Errorf("of a slice it is known that it was %s", w.When())
		}
	}
}

// TestConsequences: a thread that ran comes with switches and with waiting. The thread is the cause, the others are
// named beside it.
func TestConsequences(t *testing.T) {
	f := scene{seed: 3, seconds: 300, exact: true, long: 25, planted: map[int]float64{4: 100},
		extra: map[int]float64{19: 400, 20: 60}, share: 1}.file()
	c := f.Causes
	must.Hold(t, len(c.Found) == 1 && c.Found[0].Kind == facts.OtherThread && len(c.Found[0].Also) == 2, "%+v", c)
}

// TestTwoCauses: half of the wake-ups come from one thing, half from another.
func TestTwoCauses(t *testing.T) {
	one := scene{seed: 5, seconds: 300, exact: true, long: 20, planted: map[int]float64{0: 3}, share: 1}.file()
	two := scene{seed: 6, seconds: 300, exact: true, long: 20, planted: map[int]float64{7: 9}, share: 1}.file()
	var sources []Source
	for _, s := range one.Counted.Sources {
		for _, o := range two.Counted.Sources {
			if s.Kind == o.Kind && s.Name == o.Name && s.CPU == o.CPU {
				s.Deltas = append(s.Deltas, o.Deltas...)
				sources = append(sources, s)
			}
		}
	}
	series := *one.Counted
	series.Sources = sources
	runs := []Run{one.Runs[0], two.Runs[0]}
	shift := 300 * time.Second
	for i := range runs[1].Slices {
		s := &runs[1].Slices[i]
		s.From, s.To = s.From.Add(shift), s.To.Add(shift)
		for k := range s.Long {
			s.Long[k].From.At, s.Long[k].To.At = s.Long[k].From.At.Add(shift), s.Long[k].To.At.Add(shift)
		}
	}
	for _, end := range one.Counted.Ends {
		series.Ends = append(series.Ends, end+300)
	}
	c := FindCauses(runs, &series, 8000)
	kinds := map[facts.Disturbance]bool{}
	for _, found := range c.Found {
		kinds[found.Kind] = true
	}
	must.Hold(t, kinds[facts.SMI] && kinds[facts.PageFault] && len(c.Found) <= 2, "%+v", c)
}

// TestNothing: where nothing goes with the long wake-ups nothing is named, whichever way they are seen.
func TestNothing(t *testing.T) {
	for seed := range uint64(24) {
		for _, exact := range []bool{true, false} {
			f := scene{seed: 1000 + seed, seconds: 200, exact: exact, long: 6}.file()
			if len(f.Causes.Found) > 0 || !strings.HasPrefix(f.Causes.Verdict, "nothing that the host counts") ||
				f.Causes.Unexplained != f.Causes.Bad || f.Causes.Bad == 0 {
				t.Errorf("seed %d, exact %v: %+v", seed, exact, f.Causes)
			}
		}
	}
}

// TestEven: where no wake-up stands out there is nothing to explain.
func TestEven(t *testing.T) {
	f := scene{seed: 1, seconds: 100, exact: true}.file()
	must.Hold(t, f.Causes.Bad == 0 && f.Causes.ThresholdNs == 0 &&
		strings.Contains(f.Causes.Verdict, "no wake-up stands out"), "%+v", f.Causes)
	f.Counted = nil
	f.Finish()
	must.Hold(t, f.Causes.Verdict == "the host counted nothing beside the measurement", "%+v", f.Causes)
}

// TestFew: one long wake-up among few windows is a coincidence with everything.
func TestFew(t *testing.T) {
	f := scene{seed: 2, seconds: 100, long: 1, planted: map[int]float64{0: 1000}, share: 1}.file()
	must.Hold(t, len(f.Causes.Found) <= 0 && strings.Contains(f.Causes.Verdict, "measure longer"), "%+v", f.Causes)
}

func TestPure(t *testing.T) {
	f := scene{seed: 9, seconds: 120, exact: true, long: 10, planted: map[int]float64{0: 3}, share: 1}.file()
	again := FindCauses(f.Runs, f.Counted, median(f.Total))
	must.Hold(t, reflect.DeepEqual(again, f.Causes), "it answers otherwise the second time")
}

// TestRecorderBounded: however long it runs, memory is bounded, and no count is lost.
func TestRecorderBounded(t *testing.T) {
	r := NewRecorder()
	r.limit = 50
	begin := time.Now()
	var total uint64
	for i := range uint64(1001) {
		tally := facts.Tally{{Kind: facts.SMI}: i * i}
		for k := range uint64(200) {
			tally[facts.Counter{Kind: facts.Interrupt, Name: fmt.Sprint(k)}] = i
		}
		r.Add(begin.Add(time.Duration(i)*time.Second), tally)
	}
	s := r.Series(nil, 0)
	for _, source := range s.Sources {
		if source.Kind == facts.SMI {
			for _, d := range source.Deltas {
				total += d
			}
		}
		must.Need(t, len(source.Deltas) == len(s.Ends), "%d deltas, %d ends", len(source.Deltas), len(s.Ends))
	}
	if len(s.Ends) > 51 || len(s.Sources) != maxSources || s.LeftOut != 201-maxSources || total != 0 &&
		total != 1_000_000 || s.Ends[len(s.Ends)-1] != 1000 {
		t.Errorf("%d intervals, %d sources, %d left out, total %d, end %v", len(s.Ends), len(s.Sources), s.LeftOut,
			total, s.Ends[len(s.Ends)-1])
	}
	for i := 1; i < len(s.Ends); i++ {
		if s.Ends[i] <= s.Ends[i-1] {
			t.Fatalf("ends %v", s.Ends)
		}
	}
}
