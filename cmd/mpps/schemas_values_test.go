package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
	"mpps/internal/outcome"
	"mpps/internal/report/bench"
)

// TestEmptyValuesFitTheirSchemas validates what a value looks like of which everything is missing that can be.
func TestEmptyValuesFitTheirSchemas(t *testing.T) {
	run := &measure.Run{Schema: measure.Schema, Kind: measure.PPS, LimitedBy: measure.ByUnknown,
		Samples: []measure.Sample{{}}}
	for name, value := range map[string]any{
		"mpps.run.1":         run,
		"mpps.ab.1":          &measure.AB{Schema: measure.SchemaAB, Kind: measure.PPS, BeforeRun: *run, AfterRun: *run},
		"mpps.latency-run.1": &wakeup.File{Schema: wakeup.Schema, Runs: []wakeup.Run{{}}, Worst: []wakeup.Wakeup{{}}},
		"mpps.report.1":      &bench.Document{Schema: bench.DocumentSchema, Series: []bench.Series{{Run: run}}},
	} {
		text := must.Get(json.Marshal(facts.NonNil(value)))(t)
		must.Succeed(t, validate(name, string(text)), "%s", name)
	}
	var text bytes.Buffer
	p := must.Get(plan.Make(&facts.Host{}, goal.Unlimited(), knob.Catalogue(), nil))(t)
	must.Do(t, plan.Encode(&text, p))
	must.Succeed(t, validate("mpps.plan-file.1", text.String()), "an empty plan")
	text.Reset()
	must.Do(t, facts.Write(&text, &facts.Host{}, version))
	must.Succeed(t, validate("mpps.snapshot.1", text.String()), "a snapshot of nothing")
}

// TestEmbeddedReport validates the data in a page.
func TestEmbeddedReport(t *testing.T) {
	doc := &bench.Document{Schema: bench.DocumentSchema, Title: "</script><b>", Version: version}
	run := &measure.Run{Schema: measure.Schema, Kind: measure.PPS, LimitedBy: measure.ByDevice,
		Samples: []measure.Sample{{PPS: 1}, {PPS: 2}}}
	doc.Add("before", run)
	doc.Add("after", run)
	doc.CompareFirstTwo()
	var page bytes.Buffer
	must.Do(t, bench.HTML(&page, doc))
	data := regexp.MustCompile(`(?s)<script type="application/json" id="mpps-data">(.*?)</script>`).FindStringSubmatch(
		page.String())
	if data == nil {
		t.Fatal("no data in the page")
	}
	must.Try(t, validate("mpps.report.1", data[1]))
}

// TestEveryKnobIsExplained runs explain for the whole catalogue, in both forms.
func TestEveryKnobIsExplained(t *testing.T) {
	for _, k := range knob.Catalogue() {
		for _, form := range []string{"--json=false", "--json"} {
			var out, problems bytes.Buffer
			if code := run([]string{"explain", k.ID, form}, strings.NewReader(""), &out,
				&problems); code != outcome.CodeOK {
				t.Errorf("%s: exit code %d: %s", k.ID, code, problems.String())
			}
			err := wide(out.String(), 80)
			if form == "--json" {
				err = validate("mpps.explain.1", out.String())
			}
			if err != nil {
				t.Errorf("%s: %v", k.ID, err)
			}
		}
	}
}
