package measure

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestRunFileIsReadAsWritten(t *testing.T) { inNoTime(runFileIsReadAsWritten)(t) }

func runFileIsReadAsWritten(t *testing.T) {
	run := newRun(0)
	must.Do(t, quick(&device{makes: 4e6, carries: 1e6, counts: 2e7}).Run(t.Context(), run))
	run.Started = run.Started.UTC().Round(0)
	var file bytes.Buffer
	must.Do(t, Encode(&file, run))
	answer := `{"schema": "mpps.bench-pps/1", "mpps": "0.1.0", "host": "h", "result": ` + file.String() +
		`, "warnings": []}`
	for _, text := range []string{file.String(), answer} {
		got := must.Get(Decode(strings.NewReader(text)))(t)
		must.Hold(t, reflect.DeepEqual(got, run), "read %+v, wrote %+v", got, run)
	}
	for _, field := range []string{`"offered_pps"`, `"sent"`, `"received"`, `"lost"`, `"pps"`, `"limited_by"`,
		`"cpu_ns_per_packet"`, `"samples"`} {
		must.Hold(t, strings.Contains(file.String(), "\n "+field+":"), "the run has no field %s", field)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":           "",
		"zeros":             strings.Repeat("\x00", 1000),
		"no JSON":           "hello",
		"cut off":           `{"schema": "mpps.run/1", "kind": "pps", "samples": [{"pps": 1`,
		"another schema":    `{"schema": "mpps.plan/1", "kind": "pps"}`,
		"a later schema":    `{"schema": "mpps.run/2", "kind": "pps"}`,
		"another kind":      `{"schema": "mpps.run/1", "kind": "latency"}`,
		"a negative sample": `{"schema": "mpps.run/1", "kind": "pps", "samples": [{"pps": -1}]}`,
		"an absurd sample":  `{"schema": "mpps.run/1", "kind": "pps", "samples": [{"pps": 1e300}]}`,
	} {
		if r, err := Decode(strings.NewReader(text)); !errors.Is(err, ErrNotARun) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestComparable(t *testing.T) {
	before, after := newRun(0), newRun(0)
	before.LimitedBy, after.LimitedBy = ByDevice, ByDevice
	warnings, err := Comparable(before, after)
	must.Hold(t, err == nil && len(warnings) == 1 && warnings[0].Code == "not-interleaved", "%+v, %v", warnings, err)
	after.Host, after.LimitedBy, after.Load.FrameBytes = "other", ByGenerator, 128
	warnings, err = Comparable(before, after)
	var codes []string
	for _, w := range warnings {
		codes = append(codes, w.Code)
	}
	if want := "different-host different-frame-size not-the-device not-interleaved"; err != nil ||
		strings.Join(codes, " ") != want {
		t.Errorf("%v, %v; expected %s", codes, err, want)
	}
	after.Kind = RR
	if _, err = Comparable(before, after); err == nil {
		t.Error("packets and transactions were compared")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"schema": "mpps.run/1", "kind": "pps", "samples": [{"pps": 1, "latency": {"buckets": [{"count": 3}]}, "cpu": [{"cpus": []}]}]}`)
	f.Add(`{"schema": "mpps.bench-rr/1", "result": {"schema": "mpps.run/1", "kind": "rr", "baseline": {"generator_alone": {}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Decode(strings.NewReader(text))
		if err != nil {
			return
		}
		r.Judge() // must not panic on anything that was accepted
		Compare(r.Values(), r.Values())
	})
}
