package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/measure/search"
	"mpps/internal/must"
)

// modesPlan is a plan of so many modes, the first of which is native, under two workloads.
func modesPlan(modes, least, most int, width float64) ModesPlan {
	p := ModesPlan{Native: "native", Min: least, Max: most, Level: 0.95, Width: width, Seed: 7, Workloads: []Workload{
		{Name: "stream", Kind: Stream, Load: Load{Connections: 1, Duration: time.Second}},
		{Name: "pps", Kind: PPS, Load: Load{FrameBytes: 64, Flows: 1, Duration: time.Second}},
	}}
	for i := range modes {
		name := "native"
		if i > 0 {
			name = fmt.Sprintf("mode%d", i)
		}
		p.Modes = append(p.Modes, Mode{Name: name, Agent: "10.0.0.1:7878"})
	}
	return p
}

// modesDevice gives samples: 1000 for native, and so many thousandths of it for the others, with noise.
type modesDevice struct {
	lot   *rand.Rand
	noise float64
	share map[string]float64
	fails func(turn Turn, try int) bool
	tries map[Turn]int
	order []Turn
}

func newDevice(noise float64) *modesDevice {
	return &modesDevice{lot: rand.New(rand.NewPCG(1, 2)), noise: noise,
		share: map[string]float64{"native": 1, "mode1": 0.5, "mode2": 0.1}, tries: map[Turn]int{}}
}

func (d *modesDevice) take(_ context.Context, turn Turn) (ModeCell, error) {
	d.order = append(d.order, turn)
	d.tries[turn]++
	if d.fails != nil && d.fails(turn, d.tries[turn]) {
		return ModeCell{Error: "agent does not answer", Seconds: 1}, nil
	}
	v := 1000 * d.share[turn.Mode] * (1 + d.noise*(2*d.lot.Float64()-1))
	busy := MachineCPU{Where: "host", Seconds: 1, CPUs: []CPUUse{{CPU: 0, SoftIRQ: 0.25, Idle: 0.75},
		{CPU: 1, Guest: 0.75, Idle: 0.25, Steal: 1}}}
	return ModeCell{Seconds: 2, Sample: &Sample{
		PPS: v, BitsPerS: v, Sent: 2000, Received: 1000, Lost: 1000, Seconds: 1, CPU: []MachineCPU{busy},
		CPUNsPerUnit: 1e6 / v,
	}}, nil
}

func keepNothing(ModeCell) error { return nil }

func quiet(ModesProgress) {}

// campaign runs a plan against a device to its end.
func runModes(t *testing.T, p ModesPlan, d *modesDevice) *ModesCampaign {
	t.Helper()
	must.Do(t, p.Check())
	c := &ModesCampaign{Plan: p, Before: Conditions{CPUs: 2}}
	must.Do(t, c.Run(t.Context(), d.take, keepNothing, quiet))
	must.Hold(t, c.Ended, "the campaign has not ended")
	return c
}

func TestModesOrder(t *testing.T) {
	p := modesPlan(6, 4, 4, 0)
	d := newDevice(0.01)
	c := runModes(t, p, d)
	must.Need(t, len(d.order) == 6*2*4, "%d turns, expected %d", len(d.order), 6*2*4)
	again := newDevice(0.01)
	runModes(t, p, again)
	must.NoDiff(t, cmp.Diff(d.order, again.order), "the same seed gives another order")
	p.Seed++
	other := newDevice(0.01)
	runModes(t, p, other)
	must.Hold(t, !slices.Equal(d.order, other.order), "another seed gives the same order")
	for block := range 4 {
		turns := d.order[block*12 : (block+1)*12]
		seen := map[Turn]bool{}
		for i, turn := range turns {
			must.Hold(t, turn.Block == block, "turn %d of block %d belongs to block %d", i, block, turn.Block)
			seen[turn] = true
			must.Hold(t, (i < 6) == (turn.Workload == turns[0].Workload),
				"block %d: the modes of a workload are not taken together", block)
		}
		must.Equal(t, len(seen), 12, "block %d has different turns", block)
	}
	// Linear drift falls on every mode alike: the places of each in a pair of blocks sum up to the same.
	sums := map[string]int{}
	for i, turn := range d.order[:24] {
		sums[turn.Mode+turn.Workload] += i
	}
	for series, sum := range sums {
		must.Equal(t, sum, 23, "%s has places that sum up", series)
	}
	if r := c.Result(); r.Partial || r.Missing != 0 || len(r.Rows) != 12 || r.Blocks != 4 || len(r.Order) != 48 {
		t.Errorf("partial %v, missing %d, %d rows, %d blocks, %d in order", r.Partial, r.Missing, len(r.Rows), r.Blocks,
			len(r.Order))
	}
}

func TestModesPercentages(t *testing.T) {
	for _, repeat := range []int{3, 6, 12} {
		c := runModes(t, modesPlan(3, repeat, repeat, 0), newDevice(0.02))
		r := c.Result()
		must.NoDiff(t, cmp.Diff(r, c.Result()), "the second answer is another one")
		for _, row := range r.Rows {
			must.Hold(t, len(row.Samples) == repeat && row.Settled,
				"%s/%s: %d samples, settled %v", row.Mode, row.Workload, len(row.Samples), row.Settled)
			// One and a half CPUs of two were idle in the time that was not stolen.
			must.Equal(t, row.CPUIdle.Value, 50, "%s: CPU idle %%", row.Mode)
			if row.Mode == "native" {
				must.Hold(t, row.Percent == nil, "native has a percentage of itself: %+v", row.Percent)
				continue
			}
			want := map[string]float64{"mode1": 50, "mode2": 10}[row.Mode]
			p := row.Percent
			if p == nil || math.Abs(p.Value-want) > 0.04*want || p.Lo > p.Value || p.Hi < p.Value ||
				p.Hi-p.Lo > 0.08*want || p.Unit != "%" {
				t.Errorf("%d samples: %s: %+v, expected %g", repeat, row.Mode, p, want)
				continue
			}
			if (p.Level >= Level) != (repeat >= 6) || row.Differs != (repeat >= 6) && repeat != 3 {
				t.Errorf("%d samples: level %g, differs %v", repeat, p.Level, row.Differs)
			}
		}
		pps := r.Rows[3]
		must.Hold(t, pps.Workload == "pps" && pps.Mode == "native" && pps.Loss != nil && *pps.Loss == 0.5 &&
			pps.CPUNs.Unit == "ns/packet" && r.Rows[0].CPUNs.Unit == "ns/byte", "found %+v", pps)
	}
}

// A series ends when its interval is narrow enough, and native goes on as long as another needs it beside itself.
func TestModesStop(t *testing.T) {
	c := runModes(t, modesPlan(2, 3, 30, 0.05), newDevice(0.001))
	if n := len(c.series("mode1", "pps")); n != 6 {
		t.Errorf("steady: %d samples, expected the 6 that an interval of 95 %% needs", n)
	}
	d := newDevice(0)
	noisy := rand.New(rand.NewPCG(3, 4))
	c = &ModesCampaign{Plan: modesPlan(3, 3, 20, 0.05)}
	take := func(ctx context.Context, turn Turn) (ModeCell, error) {
		cell, err := d.take(ctx, turn)
		if turn.Mode == "mode2" && turn.Workload == "pps" {
			cell.Sample.PPS *= 1 + noisy.Float64()
		}
		return cell, err
	}
	must.Do(t, c.Run(t.Context(), take, keepNothing, quiet))
	for series, want := range map[[2]string]int{{"native", "stream"}: 6, {"mode1", "pps"}: 6, {"mode2", "pps"}: 20,
		{"native", "pps"}: 20} {
		must.Equal(t, len(c.series(series[0], series[1])), want, "%v: samples", series)
	}
	r := c.Result()
	at := slices.IndexFunc(r.Warnings, func(w Warning) bool { return w.Code == "not-settled" })
	must.Hold(t, at >= 0 && strings.Contains(r.Warnings[at].Text, "mode2 (pps)") &&
		!strings.Contains(r.Warnings[at].Text, "mode1"), "warnings: %+v", r.Warnings)
	for _, row := range r.Rows {
		if row.Settled != (row.Mode != "mode2" || row.Workload != "pps") && len(row.Samples) < 20 {
			t.Errorf("%s/%s: settled %v", row.Mode, row.Workload, row.Settled)
		}
	}
}

// Whenever it is interrupted, a campaign that is resumed from its file takes the same turns as one that is not.
func TestModesResume(t *testing.T) {
	p := modesPlan(3, 3, 3, 0)
	whole := newDevice(0.01)
	runModes(t, p, whole)
	for after := range len(whole.order) {
		var file bytes.Buffer
		c := &ModesCampaign{Plan: p, Host: "h", Environment: Environment{Kernel: "6.1"}}
		must.Do(t, EncodeCampaign(&file, c))
		ctx, cancel := context.WithCancel(t.Context())
		first, n := newDevice(0.01), 0
		cut := func(ctx context.Context, turn Turn) (ModeCell, error) {
			if n++; n > after {
				cancel() // in the middle of this turn
			}
			return first.take(ctx, turn)
		}
		err := c.Run(ctx, cut, func(cell ModeCell) error { return EncodeCell(&file, &cell) }, quiet)
		must.Need(t, err == nil && !c.Ended && c.Result().Partial, "after %d turns: %v, ended %v", after, err, c.Ended)
		size := file.Len()
		file.WriteString(`{"schema":"mpps.campaign/1","cell":{"mode":"na`) // killed while it wrote
		again, good, err := DecodeCampaign(&file)
		must.Need(t, err == nil && good == int64(size) && len(again.Cells) == after && again.Host == "h",
			"after %d turns: %v, %d good bytes of %d, %d cells", after, err, good, size, len(again.Cells))
		second := newDevice(0.01)
		must.Do(t, again.Run(t.Context(), second.take, keepNothing, quiet))
		if d := cmp.Diff(whole.order, slices.Concat(first.order[:after], second.order)); d != "" {
			t.Fatalf("interrupted after %d turns: %s", after, d)
		}
		if r := again.Result(); r.Partial {
			t.Errorf("the resumed result is partial: %+v", r.Warnings)
		}
	}
}

func TestModesFailures(t *testing.T) {
	d := newDevice(0.01)
	d.fails = func(turn Turn, try int) bool { return turn.Mode == "mode1" && turn.Block == 1 && try == 1 }
	c := runModes(t, modesPlan(3, 3, 3, 0), d)
	r := c.Result()
	must.Hold(t, !r.Partial && len(r.Failures) == 2 && len(d.order) == 3*3*2+2,
		"failed once each: partial %v, %d failures, %d turns", r.Partial, len(r.Failures), len(d.order))

	d = newDevice(0.01)
	d.fails = func(turn Turn, _ int) bool { return turn.Mode == "mode2" && turn.Block > 0 }
	c = runModes(t, modesPlan(3, 3, 3, 0), d)
	r = c.Result()
	if !r.Partial || !c.GivenUp("mode2") || c.GivenUp("mode1") || len(r.Failures) != maxFailures || r.Missing != 4 {
		t.Errorf("gone: partial %v, given up %v, %d failures, missing %d", r.Partial, c.GivenUp("mode2"),
			len(r.Failures), r.Missing)
	}
	if at := slices.IndexFunc(r.Warnings, func(w Warning) bool { return w.Code == "mode-failed" }); at < 0 ||
		!strings.Contains(r.Warnings[at].Text, "mode2") || !strings.Contains(r.Warnings[at].Text, "does not answer") {
		t.Errorf("warnings: %+v", r.Warnings)
	}
	// Mended, it is measured to the end.
	c.Forgive()
	d.fails = nil
	must.Do(t, c.Run(t.Context(), d.take, keepNothing, quiet))
	if r := c.Result(); r.Partial || r.Missing != 0 {
		t.Errorf("mended: partial %v, missing %d", r.Partial, r.Missing)
	}
	// Of a native mode that is gone there are no percentages, and the rest is measured.
	d = newDevice(0.01)
	d.fails = func(turn Turn, _ int) bool { return turn.Mode == "native" }
	r = runModes(t, modesPlan(2, 3, 3, 0), d).Result()
	must.Hold(t, len(r.Rows[1].Samples) == 3 && r.Rows[1].Percent == nil && len(r.Rows[0].Samples) == 0,
		"without native: %+v", r.Rows)
	failed := errors.New("disk full")
	c = &ModesCampaign{Plan: modesPlan(2, 3, 3, 0)}
	must.Is(t, c.Run(t.Context(), newDevice(0).take, func(ModeCell) error { return failed }, quiet), failed, "c.Run")
	senseless := func(context.Context, Turn) (ModeCell, error) { return ModeCell{}, failed }
	c = &ModesCampaign{Plan: modesPlan(2, 3, 3, 0)}
	if err := c.Run(t.Context(), senseless, keepNothing, quiet); !errors.Is(err, failed) || len(c.Cells) != 0 ||
		c.Ended {
		t.Errorf("found %v after %d cells", err, len(c.Cells))
	}
}

func TestModesProgress(t *testing.T) {
	c := &ModesCampaign{Plan: modesPlan(2, 3, 10, 0.05)}
	if p := c.Progress(); p.Done != 0 || p.AtLeast != 12 || p.AtMost != 40 || p.Left != 36*time.Second ||
		p.LeftMax != 120*time.Second {
		t.Errorf("at the start: %+v", p)
	}
	var seen []ModesProgress
	d := newDevice(0)
	must.Do(t, c.Run(t.Context(), d.take, keepNothing, func(p ModesProgress) { seen = append(seen, p) }))
	for i, p := range seen {
		must.Hold(t, p.Turn == d.order[i] && p.Done == i && p.AtLeast <= p.AtMost && p.Left <= p.LeftMax && p.Left > 0,
			"turn %d: %+v", i, p)
	}
	if p := c.Progress(); p.Left != 0 || p.AtLeast != p.Done || p.AtMost != p.Done {
		t.Errorf("at the end: %+v", p)
	}
}

func TestModesPlanRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*ModesPlan){
		"no mode":                  func(p *ModesPlan) { p.Modes = nil },
		"no workload":              func(p *ModesPlan) { p.Workloads = nil },
		"two modes":                func(p *ModesPlan) { p.Modes[1].Name = "native" },
		"two workloads":            func(p *ModesPlan) { p.Workloads[1].Name = "stream" },
		"no mode bare":             func(p *ModesPlan) { p.Native = "bare" },
		"expected a name":          func(p *ModesPlan) { p.Modes[1].Agent = "" },
		"expected 1 to 1000":       func(p *ModesPlan) { p.Max = 2 },
		"needs 8":                  func(p *ModesPlan) { p.Level, p.Width, p.Max = 0.99, 0.05, 7 },
		"more than 0 and less":     func(p *ModesPlan) { p.Level = 1 },
		"interval of 200 %":        func(p *ModesPlan) { p.Width = 2 },
		`workload stream: found k`: func(p *ModesPlan) { p.Workloads[0].Kind = "x" },
	} {
		p := modesPlan(3, 3, 6, 0)
		spoil(&p)
		must.Say(t, p.Check(), want, "p.Check")
	}
}

func TestDecodeCampaignRefuses(t *testing.T) {
	var good bytes.Buffer
	c := &ModesCampaign{Plan: modesPlan(2, 3, 3, 0)}
	must.Do(t, EncodeCampaign(&good, c))
	head := good.String()
	for text, want := range map[string]string{
		"":                      "found no whole line",
		head[:20]:               "found no whole line",
		"[]\n":                  "line 1",
		`{"schema":"x"}` + "\n": `found schema "x"`,
		head + head:             "expected the plan first",
		head + `{"schema":"mpps.campaign/1","cell":{"mode":"other","workload":"pps"}}` + "\n":           `mode "other"`,
		head + `{"schema":"mpps.campaign/1","cell":{"mode":"mode1","workload":"pps","block":3}}` + "\n": "block 3",
		head + `{"schema":"mpps.campaign/1","cell":{"mode":"mode1","workload":"pps","block":0,"sample":{"pps":-1}}}` +
			"\n": "found -1",
		strings.Replace(head, `"repeat_min":3`, `"repeat_min":0`, 1): "the plan",
	} {
		if _, _, err := DecodeCampaign(strings.NewReader(text)); !errors.Is(err, ErrNotACampaign) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, expected %q", text, err, want)
		}
	}
}

func TestModesFile(t *testing.T) {
	r := runModes(t, modesPlan(3, 3, 3, 0), newDevice(0.01)).Result()
	var file bytes.Buffer
	must.Do(t, Encode(&file, r))
	text := file.String()
	again := must.Get(DecodeModes(&file))(t)
	must.NoDiff(t, cmp.Diff(r.Rows, again.Rows), "difference")
	if _, err := Decode(strings.NewReader(text)); !errors.Is(err, ErrModes) || !errors.Is(err, ErrNotARun) {
		t.Errorf("read as a run: %v", err)
	}
	for _, bad := range []string{"{}", `{"schema":"mpps.modes/1","rows":[{}]}`,
		`{"schema":"mpps.modes/1","rows":[{}],"runs":[{}]}`} {
		must.Is(t, must.Err(DecodeModes(strings.NewReader(bad))), ErrNotARun, "%s", bad)
	}
}

func TestConditions(t *testing.T) {
	count := func(n uint64) *uint64 { return &n }
	quietly := Conditions{CPUs: 8, Governors: map[string]int{"performance": 8}, BusyCPUs: 0.2, Clocksource: "tsc",
		Throttled: count(3)}
	must.Empty(t, quietly.Warnings(), "a quiet machine")
	must.Empty(t, (Conditions{}).Warnings(), "nothing is known")
	spoilt := Conditions{CPUs: 8, Governors: map[string]int{"performance": 2, "powersave": 6}, BusyCPUs: 3, Steal: 0.2,
		Clocksource: "hpet"}
	var codes []string
	for _, w := range spoilt.Warnings() {
		codes = append(codes, w.Code)
	}
	must.NoDiff(t, cmp.Diff([]string{"governor", "other-load", "steal", "slow-clock"}, codes), "difference")
	later := quietly
	later.Throttled = count(5)
	if w := quietly.Between(later); len(w) != 1 || !strings.Contains(w[0].Text, "2 times") {
		t.Errorf("found %+v", w)
	}
	if w := later.Between(quietly); len(w) != 0 {
		t.Errorf("found %+v", w)
	}
	if w := quietly.Between(Conditions{}); len(w) != 0 {
		t.Errorf("found %+v", w)
	}
}

// TestModesSearch sums up searches: their lower bounds are the samples, and a mode without a rate without loss has
// none.
func TestModesSearch(t *testing.T) {
	p := modesPlan(3, 3, 3, 0)
	p.Workloads = []Workload{{Name: "ndr", Kind: PPS, Load: Load{FrameBytes: 64, Flows: 1, Duration: time.Second},
		Search: 10 * time.Second}}
	rate := func(pps float64) *float64 { return &pps }
	take := func(_ context.Context, turn Turn) (ModeCell, error) {
		cell := ModeCell{Seconds: 12, LimitedBy: ByDevice, Sample: &Sample{}, Search: &search.Result{Seconds: 9}}
		switch found := &cell.Search.NDR; turn.Mode {
		case "native":
			cell.Sample.PPS, found.LowerPPS, found.UpperPPS = 1000+float64(turn.Block), rate(1000), rate(1010)
			cell.Search.PDR.LowerPPS = rate(1100)
		case "mode1":
			cell.Sample.PPS, found.LowerPPS = 500, rate(500)
			if turn.Block == 1 {
				cell.LimitedBy = ByGenerator
			}
		default:
			found.None = "no rate without loss; floor 0.03 %"
		}
		return cell, nil
	}
	c := &ModesCampaign{Plan: p}
	must.Do(t, c.Run(t.Context(), take, keepNothing, quiet))
	m := c.Result()
	must.NoDiff(t, cmp.Diff(m, c.Result()), "the second answer is another one")
	native, first, none := m.Rows[0], m.Rows[1], m.Rows[2]
	must.Hold(t, native.Median.Value == 1001 && native.LimitedBy == ByDevice && *native.Search.NDRUpper == 1010 &&
		*native.Search.PDRLower == 1100 && native.Search.Seconds == 27 && native.Loss == nil,
		"native: %+v, %+v", native, native.Search)
	if first.LimitedBy != ByGenerator || first.Percent == nil || math.Abs(first.Percent.Value-50) > 0.2 ||
		first.Search.NDRUpper != nil {
		t.Errorf("one that the generator limited: %+v, %+v", first, first.Search)
	}
	must.Hold(t, len(none.Samples) == 3 && none.Median.Value == 0 && none.Percent == nil && none.Search.None != "" &&
		!m.Partial, "one with a floor: %+v, %+v", none, none.Search)
	if p := (&ModesCampaign{Plan: p}).Progress(); p.Left != 9*12*time.Second {
		t.Errorf("time left: %v", p.Left)
	}
}
