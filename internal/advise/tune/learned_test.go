package tune

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func learnedOf(class string, attempts ...Attempt) Effects {
	return Effects{}.Learn(class, &Result{Attempts: attempts})
}

// TestLearned: what helped on a host of the class is tried first on the next one, what hurt last; another class counts
// less.
func TestLearned(t *testing.T) {
	helped := Attempt{Key: "b", Outcome: Kept, Gain: Gain{Ratio: 1.5}}
	hurt := Attempt{Key: "a", Outcome: Hurts, Gain: Gain{Ratio: 0.7}}
	e := learnedOf("x", helped, hurt, Attempt{Key: "c", Outcome: Refused}, Attempt{Key: "d", Outcome: Cut})
	score := func(e Effects, class, key string) float64 {
		return expect(Candidate{Key: key, IDs: []string{key}, Weight: 0.5}, nil, nil, e, class).score
	}
	if b, none := score(e, "x", "b"), score(Effects{}, "x", "b"); b <= none {
		t.Errorf("b helped and is expected to gain %g, where nothing is known %g", b, none)
	}
	if a, none := score(e, "x", "a"), score(Effects{}, "x", "a"); a >= none {
		t.Errorf("a hurt and is expected to gain %g, where nothing is known %g", a, none)
	}
	if here, there := score(e, "x", "b"), score(e, "y", "b"); here <= there {
		t.Errorf("b is expected to gain %g here, on another class %g", here, there)
	}
	must.Hold(t, len(e.Known) == 2, "%d effects learned of two attempts that tell something: %v", len(e.Known), e.Known)
}

// TestEffectsFile: what is written is read as it was; what no run can have found is refused.
func TestEffectsFile(t *testing.T) {
	e := learnedOf("x", Attempt{Key: "a", Limit: "vhost-busy", Outcome: Kept, Gain: Gain{Ratio: 2}},
		Attempt{Key: "a", Limit: "vhost-busy", Outcome: Useless})
	var text bytes.Buffer
	must.Do(t, e.Write(&text))
	back, err := ReadEffects(&text)
	must.Hold(t, err == nil && len(back.Known) == 1 &&
		back.Known[0] == (Effect{Class: "x", Bottleneck: "vhost-busy", Key: "a", Tried: 2, Kept: 1, Log: math.Ln2}),
		"read back %+v, %v", back, err)
	if twice := back.Import(e); twice.Known[0].Tried != 4 {
		t.Errorf("imported: %+v", twice)
	}
	for _, wrong := range []string{
		"", "{}", `{"schema":"mpps.effects/2","effects":[]}`,
		`{"schema":"mpps.effects/1","effects":[{"key":"a","tried":1,"kept":2}]}`,
		`{"schema":"mpps.effects/1","effects":[{"key":"","tried":1}]}`,
		`{"schema":"mpps.effects/1","effects":[{"key":"a","tried":1,"kept":1,"log_ratio":1e9}]}`,
	} {
		must.Fail(ReadEffects(strings.NewReader(wrong)))(t, "%q was taken", wrong)
	}
}

// TestOrder: what the bottleneck names comes first, then what the next one names, then what was named before; risk
// makes dearer.
func TestOrder(t *testing.T) {
	d := &bottleneck.Diagnosis{
		Bottleneck: &bottleneck.Bottleneck{Kind: "k", Stage: "vhost", Confidence: 0.9,
			Knobs: []string{"first", "second"}},
		Next: &bottleneck.Bottleneck{Kind: "n", Stage: "nic", Knobs: []string{"next"}},
	}
	before := []*bottleneck.Bottleneck{{Kind: "b", Stage: "tap", Knobs: []string{"before"}}}
	score := func(c Candidate) float64 { return expect(c, d, before, Effects{}, "").score }
	of := func(id string, risk goal.Risk, stage string) Candidate {
		return Candidate{Key: id, IDs: []string{id}, Risk: risk, Stage: stage}
	}
	order := []Candidate{
		of("first", goal.None, "vhost"), of("second", goal.None, "vhost"), of("second", goal.Security, "vhost"),
		of("next", goal.None, "nic"),
		of("before", goal.None, "tap"), of("same", goal.None, "vhost"), of("other", goal.None, "guest"),
	}
	for i := 1; i < len(order); i++ {
		if score(order[i-1]) <= score(order[i]) {
			t.Errorf("%s (%s) at %g does not come before %s (%s) at %g", order[i-1].Key, order[i-1].Risk,
				score(order[i-1]), order[i].Key, order[i].Risk, score(order[i]))
		}
	}
}

func TestTogether(t *testing.T) {
	all := []Candidate{
		{Key: "nic.xps", IDs: []string{"nic.xps"}, Risk: goal.None}, {Key: "other", IDs: []string{"other"}},
		{Key: "nic.channels", IDs: []string{"nic.channels"}, Risk: goal.Blip},
		{Key: "nic.irq_affinity", IDs: []string{"nic.irq_affinity"}, Needs: setting.Reboot()},
	}
	got := Together(all)
	must.Hold(t, len(got) == 3 && got[0].Key == "nic.xps+nic.channels" && got[0].Risk == goal.Blip &&
		got[1].Key == "other" && !got[2].Needs.IsZero(), "%+v", got)
}

// TestHugeEffects: a file of another host costs what it holds, not its square, and sums of absurd counts are refused.
func TestHugeEffects(t *testing.T) {
	var all Effects
	for i := range 60_000 {
		all.Known = append(all.Known, Effect{Class: "amd", Key: strconv.Itoa(i), Tried: 1})
	}
	began := time.Now()
	if e := (Effects{}).Import(all); len(e.Known) != len(all.Known) {
		t.Errorf("%d of %d effects", len(e.Known), len(all.Known))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d effects took %v", len(all.Known), took)
	}
	for _, counts := range []string{`"tried":9223372036854775807,"kept":9223372036854775807,"hurt":1`,
		`"tried":9223372036854775807`, `"tried":1,"kept":1,"log_ratio":1e308`, `"tried":1,"kept":1,"hurt":1`} {
		text := `{"schema":"` + EffectsSchema + `","effects":[{"key":"a",` + counts + `}]}`
		if e, err := ReadEffects(strings.NewReader(text)); err == nil {
			t.Errorf("%s was read as %+v", counts, e)
		}
	}
}
