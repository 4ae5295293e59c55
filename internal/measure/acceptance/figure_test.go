package acceptance

import (
	"math"
	"slices"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/must"
)

// reading returns a Figure.Read that finds m.
func reading(m Measured) func(*Outcomes) (Measured, bool) {
	return func(*Outcomes) (Measured, bool) { return m, true }
}

func TestJudge(t *testing.T) {
	x710 := &Machine{NICs: []NIC{{Name: "eth0", Driver: "i40e", Path: true}, {Name: "eth1", Driver: "mlx5_core"}},
		Guest: &Guest{VCPUs: 9, Queues: 9}}
	other := &Machine{NICs: []NIC{{Name: "eth0", Driver: "mlx5_core", Path: true}, {Name: "eth1", Driver: "i40e"}},
		Guest: &Guest{VCPUs: 4, Queues: 4}}
	chosen := &Machine{NICs: x710.NICs, Guest: &Guest{VCPUs: 9, Queues: 6}}
	emulated := &Machine{Emulated: true, NICs: x710.NICs}
	then := Conditions{Drivers: []string{"i40e"}, VCPUs: 9, Queues: 9}
	for name, c := range map[string]struct {
		figure  Figure
		found   Measured
		machine *Machine
		short   bool // short form
		state   State
		by      float64 // −1: nothing to compare
		reasons []string
	}{
		"higher":  {Figure{Founding: 100}, Measured{Value: 120, Lo: 118, Hi: 122}, x710, false, Reached, 0, nil},
		"as high": {Figure{Founding: 100}, Measured{Value: 100}, x710, false, Reached, 0, nil},
		"lower":   {Figure{Founding: 100}, Measured{Value: 80, Lo: 78, Hi: 82}, x710, false, Short, 0.2, nil},
		"within its spread": {Figure{Founding: 100}, Measured{Value: 98, Lo: 94, Hi: 101}, x710, false, Reached, 0.02,
			[]string{"within-spread"}},
		"a round figure": {Figure{Founding: 100, About: true}, Measured{Value: 92, Lo: 91, Hi: 93}, x710, false,
			Reached, 0.08, []string{"about"}},
		"less than round": {Figure{Founding: 100, About: true}, Measured{Value: 85, Lo: 84, Hi: 86}, x710, false,
			Short, 0.15, nil},
		"other NIC": {Figure{Founding: 100, Conditions: then}, Measured{Value: 80}, other, false,
			NotComparable, 0.2, []string{"other-nic", "fewer-vcpus"}},
		"other NIC, reached": {Figure{Founding: 100, Conditions: then}, Measured{Value: 101}, other, false, Reached, 0,
			[]string{"other-nic", "fewer-vcpus"}},
		"fewer queues than it could have": {Figure{Founding: 100, Conditions: then}, Measured{Value: 80}, chosen, false,
			Short, 0.2, nil},
		"the same NIC": {Figure{Founding: 100, Conditions: then}, Measured{Value: 80}, x710, false, Short, 0.2, nil},
		"a ratio elsewhere": {Figure{Founding: 2, Ratio: true, Conditions: then}, Measured{Value: 1.5}, other, false,
			Short, 0.25, nil},
		"emulated": {Figure{Founding: 100}, Measured{Value: 500}, emulated, false, NotComparable, 0,
			[]string{"emulated"}},
		"generator's limit": {Figure{Founding: 100}, Measured{Value: 80, AtLeast: true, LimitedBy: "generator"}, x710,
			false, NotComparable, 0.2, []string{"generator-limit"}},
		"reached in spite": {Figure{Founding: 100}, Measured{Value: 110, AtLeast: true, LimitedBy: "generator"}, x710,
			false, Reached, 0, nil},
		"uncertain": {Figure{Founding: 2, Ratio: true}, Measured{Value: 3, Uncertain: "its base"}, x710, false,
			NotComparable, 0, []string{"uncertain"}},
		"no rate at all": {Figure{Founding: 100}, Measured{None: "loss at any rate"}, x710, false, Short, 1,
			[]string{"none"}},
		"no figure kept": {Figure{}, Measured{Value: 80}, x710, false, NotComparable, -1, []string{"no-figure"}},
		"under a bound": {Figure{Founding: 50, Under: true}, Measured{Value: 40}, x710, false, NotComparable, 0.2,
			[]string{"no-figure"}},
		"over a bound":   {Figure{Founding: 50, Under: true}, Measured{Value: 60}, x710, false, Reached, 0, nil},
		"less is better": {Figure{Founding: 12, Lower: true}, Measured{Value: 9}, x710, false, Reached, 0, nil},
		"more is worse": {Figure{Founding: 12, Lower: true}, Measured{Value: 18, Lo: 15, Hi: 30}, x710, false,
			Short, 0.5, nil},
		"worse, but may not": {Figure{Founding: 12, Lower: true}, Measured{Value: 13, Lo: 11, Hi: 15}, x710, false,
			Reached, 1.0 / 12, []string{"within-spread"}},
		"a run was better": {Figure{Founding: 12, Lower: true, Extreme: true}, Measured{Value: 18, Lo: 11, Hi: 18},
			x710, false, Short, 0.5, nil},
		"another tool": {Figure{Founding: 12, Lower: true, Tool: "cyclictest"}, Measured{Value: 18, Tool: "own"}, x710,
			false, NotComparable, 0.5, []string{"other-tool"}},
		"as found": {Figure{Founding: 1475, Lower: true, AsFound: true}, Measured{Value: 3000}, x710, false,
			NotComparable, -1, []string{"as-found"}},
		"another direction": {Figure{Founding: 100, Ratio: true, OtherWay: true}, Measured{Value: 80}, x710, false,
			NotComparable, 0.2, []string{"other-direction"}},
		"a ratio by another tool": {Figure{Founding: 100, Ratio: true, Tool: "netperf"}, Measured{Value: 80,
			Tool: "mpps"},
			x710, false, Short, 0.2, []string{"other-tool"}},
		"short form": {Figure{Founding: 100}, Measured{Value: 120}, x710, true, Reached, 0, []string{"short-form"}},
	} {
		c.figure.Read, c.figure.Look = reading(c.found), []string{"mpps audit"}
		judge := func() Judged { return Judge(c.figure, &Outcomes{Short: c.short}, c.machine, Inputs{}) }
		j := judge()
		var codes []string
		for _, r := range j.Reasons {
			codes = append(codes, r.Code)
			must.Hold(t, r.Text != "", "%s: reason %s says nothing", name, r.Code)
		}
		by := -1.0
		if j.ShortBy != nil {
			by = *j.ShortBy
		}
		if j.State != c.state || math.Abs(by-c.by) > 1e-9 || !slices.Equal(codes, c.reasons) {
			t.Errorf("%s: %s, short by %g, %v; expected %s, %g, %v", name, j.State, by, codes, c.state, c.by, c.reasons)
		}
		if wants := j.State == Short; wants && len(j.Look) == 0 || j.State == Reached && len(j.Look) > 0 {
			t.Errorf("%s: %s, look at %v", name, j.State, j.Look)
		}
	}
	if j := Judge(Figure{Read: rateOf("nowhere"), Founding: 1}, &Outcomes{}, x710, Inputs{}); j.State != NotMeasured ||
		j.Measured != nil {
		t.Errorf("what was not measured: %+v", j)
	}
	if j := Judge(Figure{Read: reading(Measured{Value: 1}), Founding: 2,
		Conditions: Conditions{Forwards: true, Tunnel: true, Realtime: true}}, &Outcomes{}, x710,
		Inputs{}); len(j.Reasons) != 3 {
		t.Errorf("other path, tunnel and kernel: %+v", j.Reasons)
	}
}

func run(limit measure.Limit, rates ...float64) *measure.Run {
	r := &measure.Run{Kind: measure.PPS, LimitedBy: limit}
	for _, pps := range rates {
		r.Samples = append(r.Samples, measure.Sample{PPS: pps})
	}
	r.Median = measure.Median(r.Values())
	return r
}

func TestReadings(t *testing.T) {
	lower, upper, partial := 1.8e6, 1.82e6, 2e6
	found := &measure.Search{}
	found.LimitedBy, found.Trials = "device", 12
	found.NDR.LowerPPS, found.NDR.UpperPPS, found.PDR.LowerPPS = &lower, &upper, &partial
	lossy := &measure.Search{}
	lossy.NDR.None = "loss at any rate"
	lossy.LimitedBy = "none"
	percent := measure.Estimate{Value: 99, Lo: 98, Hi: 100, N: 6}
	woken := &wakeup.File{Partial: true}
	woken.Total.Latency = &measure.Latency{MaxNs: 18000, MeanNs: 7000}
	for _, ns := range []uint64{11000, 18000} {
		woken.Runs = append(woken.Runs,
			wakeup.Run{Distribution: wakeup.Distribution{Latency: &measure.Latency{MaxNs: ns,
				MeanNs: float64(ns) / 2}}})
	}
	o := &Outcomes{
		Wakeups: map[string]*wakeup.File{"w": woken},
		Runs: map[string]*measure.Run{
			"a": run(measure.ByDevice, 100, 101, 102, 103, 104, 105), "b": run(measure.ByDevice, 200, 202, 204, 206,
				208, 210),
			"g": run(measure.ByGenerator, 300, 301, 302, 303, 304, 305), "z": run(measure.ByDevice, 0, 0, 0, 0, 0, 0),
		},
		Searches: map[string]*measure.Search{"s": found, "l": lossy},
		Modes: map[string]*measure.Modes{"m": {Rows: []measure.ModeRow{{Mode: "vf", Workload: "rr",
			Percent: &percent, LimitedBy: measure.ByReceiver, Samples: make([]float64, 6)}}}},
	}
	for name, c := range map[string]struct {
		read    func(*Outcomes) (Measured, bool)
		value   float64
		atLeast bool
		unsure  bool
		none    bool
	}{
		"rate":                  {rateOf("a"), 102.5, false, false, false},
		"rate of the generator": {rateOf("g"), 302.5, true, false, false},
		"ratio":                 {ratioOf("a", "b"), 2, false, false, false},
		"ratio, at least":       {ratioOf("a", "g"), 2.95, true, false, false},
		"ratio, of who knows":   {ratioOf("g", "b"), 0.68, false, true, false},
		"ratio of nothing":      {ratioOf("z", "b"), 0, false, false, true},
		"without loss":          {ndrOf("s"), 1.8e6, false, false, false},
		"with some loss":        {pdrOf("s"), 2e6, false, false, false},
		"no such rate":          {ndrOf("l"), 0, true, false, true},
		"gain":                  {gainOf("s", "s"), 1, false, false, false},
		"gain over nothing":     {gainOf("l", "s"), 0, false, false, true},
		"worst":                 {worstOf("w"), 18, false, true, false},
		"average":               {averageOf("w"), 7, false, true, false},
		"percent of native":     {percentOf("vf", "rr"), 99, true, false, false},
	} {
		m, ok := c.read(o)
		if !ok || math.Abs(m.Value-c.value) > 0.02*max(c.value, 1e-9) && m.Value != c.value || m.AtLeast != c.atLeast ||
			(m.Uncertain != "") != c.unsure || (m.None != "") != c.none {
			t.Errorf("%s: %+v, %v; expected %g", name, m, ok, c.value)
		}
		if m.Lo > m.Value || m.Hi < m.Value {
			t.Errorf("%s: %g is outside [%g, %g]", name, m.Value, m.Lo, m.Hi)
		}
	}
	for _, read := range []func(*Outcomes) (Measured, bool){rateOf("x"), ratioOf("a", "x"), ndrOf("x"),
		gainOf("s", "x"), percentOf("vf", "stream"), worstOf("x"), averageOf("x")} {
		if m, ok := read(o); ok {
			t.Errorf("what is not there was read as %+v", m)
		}
	}
}
