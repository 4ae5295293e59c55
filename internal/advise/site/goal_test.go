package site

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestParseGoal(t *testing.T) {
	t.Parallel()
	from := "/" + GoalPath
	for text, want := range map[string]goal.Goal{
		"pps: 1.8M\n":                  {PPS: 1.8e6, Frame: 64, From: from},
		"pps: 500000\nloss: 0.5%":      {PPS: 5e5, Loss: 0.005, Frame: 64, From: from},
		"{latency: 20us, cpus: '2-3'}": {Latency: 20 * time.Microsecond, CPUs: setting.CPUs(2, 3), Frame: 64, From: from},
		"nic: vf\ndata-nic: [br0, tap1]\nconsent: security": {NIC: "vf", DataNICs: []string{"br0", "tap1"},
			Consent: []goal.Risk{goal.Security}, Frame: 64, From: from},
		"guest: fw1\n": {PPS: goal.Gentlest().PPS, Guest: "fw1", Frame: 64, Unnamed: true, From: from},
	} {
		if f, err := ParseGoal([]byte(text)); err != nil || !reflect.DeepEqual(f.Goal, want) {
			t.Errorf("%q: %+v, %v; expected %+v", text, f, err, want)
		}
	}
	for _, empty := range []string{"", "\n", "# a comment\n", "---\n", "null"} {
		if f, err := ParseGoal([]byte(empty)); f != nil || err != nil {
			t.Errorf("%q: %+v, %v", empty, f, err)
		}
	}
}

func TestGoalRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pps: 1M\npsp: 2M":            `line 2: unknown part of a goal "psp"`,
		"pps: 1M\n\npps: 2M":          "line 3: pps is given twice, first at line 1",
		"- pps: 1M":                   "line 1: expected goal flags",
		"pps":                         "line 1: expected goal flags",
		"pps:":                        "line 1: pps: expected a value",
		"pps: [1M]":                   "line 1: pps: expected a value",
		"consent: []":                 "line 1: consent: expected a value",
		"consent: [security, {a: b}]": "line 1: consent: expected a value",
		"a: &a 1M\npps: *a":           `line 1: unknown part of a goal "a"`,
		"guest: &a x\nnic: *a":        "line 2: nic: expected a value",
		"<<: {pps: 1M}":               `unknown part of a goal "<<"`,
		"pps: fast":                   "line 1: pps: expected a rate",
		"pps: 0":                      "line 1: pps: expected more than nothing",
		"pps: 1M\nframe: big":         "line 2: frame: expected 64 to 9018 bytes",
		"latency: 20":                 "line 1: latency: expected a time",
		"latency: 20us\ncpus: 3-1":    "line 2: cpus: ", "consent: everything": `unknown risk "everything"`,
		"nic: virtio\npps: 5M": "impossible goal", "pps: 1M\n---\npps: 2M": "more than one document",
		"pps: \"1M": "goal file: ", strings.Repeat("#", maxBytes+1): "larger than",
	} {
		var wrong *Error
		f, err := ParseGoal([]byte(text))
		must.Hold(t, f == nil && errors.As(err, &wrong) && strings.Contains(err.Error(), want) &&
			strings.HasPrefix(err.Error(), "goal file: ") && wrong.Hint() != "",
			"%.40q: %+v, %v; expected %s", text, f, err, want)
	}
}

// TestGoalParts: every goal flag has a place in the file, and Goal.Flags reads back what it says.
func TestGoalParts(t *testing.T) {
	t.Parallel()
	values := map[string]string{"pps": "1M", "bulk": "25G", "latency": "20us", "frame": "128", "loss": "0.01",
		"cpus": "2-3", "guest": "vm1", "nic": "vf", "data-nic": "br0", "leave": "nic.*", "consent": "data"}
	for _, name := range goal.Names() {
		f, err := ParseGoal([]byte(name + ": " + values[name]))
		must.Hold(t, err == nil && strings.Contains(f.Goal.Flags(), "--"+name+" "), "%s: %+v, %v", name, f, err)
	}
}
