package goal

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestTier(t *testing.T) {
	for _, c := range []struct {
		goal Goal
		want Tier
	}{
		{Goal{}, Default}, {Goal{PPS: 99_999}, Default}, {Goal{PPS: 100e3}, Standard}, {Goal{PPS: 499_999}, Standard},
		{Goal{PPS: 500e3}, Aggressive},
		{Goal{PPS: 2.5e6}, Aggressive}, {Goal{PPS: 3e6}, Passthrough}, {Goal{NIC: "vf"}, Passthrough},
		{Goal{NIC: "virtio"}, Default},
		{Goal{Bulk: 999e6}, Default}, {Goal{Bulk: 1e9}, Standard}, {Goal{Bulk: 25e9}, Aggressive},
		{Goal{PPS: 1e6, Latency: 20 * time.Microsecond}, Realtime}, {Unlimited(), Aggressive},
	} {
		must.Equal(t, c.goal.Tier(), c.want, "%+v: tier", c.goal)
		must.Hold(t, c.goal.Why() != "", "%+v: no reason", c.goal)
	}
	must.Hold(t, (Goal{PPS: 2.5e6}).Why() != (Goal{PPS: 1e6}).Why(),
		"2.5 Mpps come without the warning that a kernel guest's own limit is near")
}

func TestNearLimit(t *testing.T) {
	for g, want := range map[*Goal]bool{{PPS: 1.99e6}: false, {PPS: 2e6}: true, {PPS: 2.99e6}: true, {PPS: 3e6}: false,
		{PPS: 2.5e6, NIC: "vf"}: false, {PPS: 2.5e6, Latency: 20000}: false} {
		if got := g.NearLimit(); got != want {
			t.Errorf("%+v: near the limit: %v", *g, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, g := range map[string]Goal{
		"virtio beyond its limit": {PPS: 3e6, NIC: "virtio"}, "negative": {PPS: -1}, "negative bulk": {Bulk: -1},
		"no number": {PPS: math.NaN()}, "beyond any NIC": {PPS: 2e9},
		"beyond any host": {Bulk: 1e15}, "bulk without its unit": {Bulk: 25}, "all lost": {Loss: 1}, "loss below none": {Loss: -0.1},
		"loss is no number": {Loss: math.NaN()}, "runt": {Frame: 63}, "giant": {Frame: 9019},
		"a nanosecond": {Latency: 1},
		"an hour":      {Latency: time.Hour}, "other NIC": {NIC: "e1000"}, "other consent": {Consent: []Risk{"fun"}},
	} {
		err := g.Check()
		var c *Contradiction
		must.Hold(t, errors.Is(err, ErrContradiction) && errors.As(err, &c) && c.Hint() != "",
			"%s: %v; expected a contradiction with a hint", name, err)
	}
	for _, g := range []Goal{{}, Unlimited(), {PPS: 3e6, NIC: "vf"}, {PPS: 3e6},
		{Frame: 64, Loss: 0.005, Consent: Risks()}, {Latency: 20 * time.Microsecond}} {
		must.Succeed(t, g.Check(), "%+v", g)
	}
}

func TestConsents(t *testing.T) {
	g := Goal{Consent: []Risk{Data}}
	for _, r := range Risks() {
		must.Equal(t, g.Consents(r), r != Security && r != Platform, "consents to %s", r)
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{"1.8M": 1.8e6, "140k": 140e3, "25G": 25e9, "500000": 5e5, " 2m ": 2e6,
		"0": 0, "1e3k": 1e6} {
		got, err := ParseRate(text)
		if err != nil || math.Abs(got-want) > 1e-6*want {
			t.Errorf("ParseRate(%q) = %v, %v; expected %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "-1", "1.8MM", "NaN", "Inf", "1e300G", "fast", "1 8M"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v; expected an error", text, got)
		}
	}
	for rate, want := range map[float64]string{1.8e6: "1.8M", 140e3: "140k", 999: "999", 25e9: "25G", 0: "0",
		1234567: "1.235M"} {
		must.Equal(t, FormatRate(rate), want, "FormatRate(%v)", rate)
	}
}

func FuzzParseRate(f *testing.F) {
	f.Add("1.8M")
	f.Add("-0x1p-2k")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseRate(text)
		if err == nil && !(v >= 0 && v <= 1e15) {
			t.Errorf("ParseRate(%q) = %v", text, v)
		}
	})
}

func TestJSON(t *testing.T) {
	g := Goal{PPS: 1.8e6, Frame: 64, Loss: 0.005, Latency: 20 * time.Microsecond, CPUs: setting.CPUs(20, 21, 22),
		Guest: "vm1", NIC: "vf", Consent: []Risk{Security}}
	text := must.Get(json.Marshal(g))(t)
	var read Goal
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(g, read) {
		t.Errorf("%s was read as %+v, %v", text, read, err)
	}
}

// TestGentlest: without a goal nothing that carries a risk is advised, and it is said how to name one.
func TestGentlest(t *testing.T) {
	g := Gentlest()
	if g.Tier() != Standard || g.Check() != nil || !strings.Contains(g.Why(), "--pps") {
		t.Errorf("%+v: tier %s, %v: %s", g, g.Tier(), g.Check(), g.Why())
	}
	named := g
	named.Unnamed = false
	if named.Why() == g.Why() {
		t.Errorf("a goal that was named is spoken of as one that was not: %s", g.Why())
	}
	if tiers := Tiers(); tiers[0] != Default || tiers[1] != g.Tier() {
		t.Errorf("%s is not the first tier above %s", g.Tier(), Default)
	}
}

// TestIncludes: an ID includes its knob, a family all of it, and nothing else does.
func TestIncludes(t *testing.T) {
	for name, want := range map[string]bool{"nic.ring.rx": true, "nic.*": true, "nic.ring.*": true, "nic": false,
		"nic.": false, "nic*": false, "*": false, ".*": false, "": false, "nic.ring": false} {
		must.Equal(t, Includes([]string{"domain.queues", name}, "nic.ring.rx"), want, "%q", name)
	}
}
