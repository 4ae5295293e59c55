package acceptance

import (
	"encoding/json"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/measure/search"
	"mpps/internal/measure/wakeup"
	"mpps/internal/must"
)

// TestAdd reads the answers of measurements as --json gives them, and refuses others.
func TestAdd(t *testing.T) {
	under := measure.Environment{Emulated: true}
	latency := measure.NewLatency("wake-up", []measure.Bucket{{FromNs: 1000, ToNs: 2000, Count: 9}})
	for _, c := range []struct {
		step   string
		gives  Gives
		schema string
		result any
	}{
		{"r", GivesRun, "mpps.bench-pps/1", &measure.Run{Schema: measure.Schema, Kind: measure.PPS, Environment: under,
			Samples: []measure.Sample{{PPS: 5}}}},
		{"s", Searched, "mpps.search/1", &measure.Search{Schema: measure.SchemaSearch, Environment: under,
			Result: search.Result{Mode: search.Fast}}},
		{"m", Campaign, "mpps.bench-modes/1", &measure.Modes{Schema: measure.SchemaModes,
			Warnings: []measure.Warning{{Code: "emulated"}}}},
		{"w", Wakeups, "mpps.latency/1", &wakeup.File{Schema: wakeup.Schema, Environment: under,
			Total: wakeup.Distribution{Latency: latency}, Runs: make([]wakeup.Run, 1)}},
	} {
		text := must.Get(json.Marshal(map[string]any{"schema": c.schema, "result": c.result}))(t)
		o := &Outcomes{}
		if err := o.Add(c.step, c.gives, text); err != nil || !o.Emulated ||
			len(o.Runs)+len(o.Searches)+len(o.Modes)+len(o.Wakeups) != 1 {
			t.Errorf("%s: %v, %+v", c.gives, err, o)
		}
		if r := o.Runs[c.step]; r != nil && r.Median.Value != 5 {
			t.Errorf("median %g", r.Median.Value)
		}
		must.Say(t, o.Add(c.step, c.gives, []byte(`{"schema": "mpps.audit/1", "result": {}}`)), "step "+c.step,
			"%s: another answer was", c.gives)
	}
	o := &Outcomes{}
	must.Succeed(t, o.Add("x", Nothing, []byte("no JSON")), "what nobody judges is not read")
}
