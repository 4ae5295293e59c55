package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/saved"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/bench"
	"mpps/internal/version"
)

// demoState holds the results of one box so far.
type demoState struct {
	box                              int // 0 is the first
	hostBefore, hostAfter, hostAgain *facts.Host
	before, after, again             bench.Series
	plans                            []*plan.Plan // applied plans
	rollbackSeconds, seconds         float64
}

// Result is the demo's result.json.
type Result struct {
	Schema     string              `json:"schema"` // mpps.demo/2
	Version    string              `json:"mpps"`
	Before     *demoSide           `json:"before"` // null until measured, as the next three
	After      *demoSide           `json:"after"`
	RolledBack *demoSide           `json:"rolled_back"`
	Throughput *measure.Comparison `json:"throughput"`
	Changes    []report.ChangeRow  `json:"changes"`
	Rollback   *bench.RollbackRow  `json:"rollback"`
	Missing    []string            `json:"missing"` // acts that were not played
	Seconds    float64             `json:"seconds"`
	Emulated   bool                `json:"emulated"`
	Retries    int                 `json:"guest_start_retries"`
	Boxes      []demoBox           `json:"boxes"` // emulated hosts, one after the other
}

// demoBox is an emulated host of the demo.
type demoBox struct {
	Ended string `json:"ended"` // why it was given up for a fresh one; empty for the last
	Shown bool   `json:"shown"` // the results are of this one
}

// boxes lists the boxes so far, of which s is shown.
func (d *demo) boxes(s *demoState) []demoBox {
	all := []demoBox{}
	for i, why := range append(slices.Clone(d.ended), "") {
		all = append(all, demoBox{Ended: why, Shown: i == s.box})
	}
	return all
}

// demoSide holds the measurements in one state: medians and all samples.
type demoSide struct {
	PPS       float64       `json:"pps"`
	Samples   []float64     `json:"samples"`
	RR        float64       `json:"transactions_per_second"`
	RRSamples []float64     `json:"rr_samples"`
	LimitedBy measure.Limit `json:"limited_by"`
}

func side(s bench.Series) *demoSide {
	if s.Run == nil {
		return nil
	}
	d := &demoSide{PPS: s.Run.Median.Value, Samples: s.Run.Values(), LimitedBy: s.Run.LimitedBy}
	if s.RR != nil {
		d.RR, d.RRSamples = s.RR.Median.Value, s.RR.Values()
	}
	return d
}

// snapshot takes a snapshot of the demo's host and reads it.
func (d *demo) snapshot(ctx context.Context, file string, into **facts.Host) error {
	if _, err := d.scene.mpps(ctx, []int{outcome.CodeOK}, "snapshot", "-o", "/share/"+file); err != nil {
		return err
	}
	h, err := ops.ReadSnapshot(d.scene.shared(file))
	*into = h
	return err
}

// shared returns the local path of a file in the lab's /share.
func (s *scene) shared(file string) string { return filepath.Join(s.lab.ShareDir(), file) }

// bench measures packets into the guest and transactions with it.
func (d *demo) bench(ctx context.Context, label string, into *bench.Series) error {
	to := demoAddress + ":" + strconv.Itoa(demoPort)
	run, err := d.benchRun(ctx, label, "pps", "--via", demoBridge, "--agent", to, "--frame", "64", "--flows", "16",
		"--sink", "af_packet", "--duration", demoTrial.String(), "--repeat", strconv.Itoa(d.trials))
	if err != nil {
		return err
	}
	trips, err := d.benchRun(ctx, label, "rr", "--agent", to, "--duration", demoTrial.String(),
		"--repeat", strconv.Itoa(d.trials))
	if err != nil {
		return err
	}
	*into = bench.Series{Label: label, Run: run, RR: trips}
	return nil
}

// demoTrial is the length of one trial.
const demoTrial = time.Second

// benchRun runs a benchmark on the demo's host and reads its result. A run limited by generator or receiver is still
// shown, marked as such.
func (d *demo) benchRun(ctx context.Context, label, kind string, argv ...string) (*measure.Run, error) {
	file := kind + "-" + strings.ReplaceAll(label, " ", "-") + ".json"
	argv = slices.Concat([]string{"bench", kind}, argv, []string{"--name", label, "--secret-file", "/share/secret",
		"-o", "/share/" + file})
	text, err := d.scene.mpps(ctx, []int{outcome.CodeOK, outcome.CodeNotDevice}, argv...)
	if err != nil {
		return nil, err
	}
	found, err := saved.ReadRun(d.scene.shared(file))
	if err != nil {
		return nil, err
	}
	run, m := found.Run, found.Run.Median
	d.stage.say("  %s: %s %ss per second [%s, %s], %d trials", label, threeDigits(m.Value),
		strings.TrimSuffix(run.Kind.Unit(), "/s"), threeDigits(m.Lo), threeDigits(m.Hi), m.N)
	return run, d.file(strings.TrimSuffix(file, ".json")+".txt", []byte(text))
}

// threeDigits formats a rate with three digits.
func threeDigits(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v/1000, 'f', 1, 64) + " k"
}

func (s *demoState) render(d *demo) (page, result []byte, err error) {
	doc := s.document(d)
	var html bytes.Buffer
	if err := bench.HTML(&html, doc); err != nil {
		return nil, nil, err
	}
	var throughput *measure.Comparison
	if doc.Compared != nil {
		throughput = &doc.Compared.Throughput
	}
	retries := d.retries
	if d.scene != nil {
		retries += d.scene.lab.Retries()
	}
	result, err = json.MarshalIndent(facts.NonNil(Result{
		Schema: "mpps.demo/2", Version: version.Version, Before: side(s.before), After: side(s.after),
		RolledBack: side(s.again),
		Throughput: throughput, Changes: doc.Changes, Rollback: doc.Rollback, Missing: s.missing(),
		Seconds: s.seconds, Emulated: doc.Host.Emulated, Retries: retries, Boxes: d.boxes(s),
	}), "", "  ")
	return html.Bytes(), append(result, '\n'), err
}

// missing lists what an unfinished run has not done.
func (s *demoState) missing() []string {
	all := []string{}
	for _, part := range []struct {
		what string
		done bool
	}{
		{"the host as found", s.hostBefore != nil}, {"measurement as found", s.before.Run != nil},
		{"the plan, applied", s.hostAfter != nil}, {"measurement after", s.after.Run != nil},
		{"rollback", s.hostAgain != nil}, {"measurement after the rollback", s.again.Run != nil},
	} {
		if !part.done {
			all = append(all, part.what)
		}
	}
	return all
}

// document returns the demo's report so far.
func (s *demoState) document(d *demo) *bench.Document {
	h := s.hostBefore
	doc := &bench.Document{
		Schema: bench.DocumentSchema, Title: "mpps demo · one guest on one KVM host", Made: time.Now(),
		Version: version.Version,
		Seconds: s.seconds,
		Goal:    goal.FormatRate(d.pps) + " packets per second of 64 bytes into guest " + demoGuest,
		Method: []string{
			"Three states are measured one after the other, each after a start of the guest: as found, with the " +
				"whole plan applied, and after the rollback. The ratio compares the second with the others measured " +
				"so far, which are the same configuration; how far those lie apart is drift.",
			"Frames enter the bridge through a temporary veth pair and are counted by a packet socket in the guest: " +
				"behind its driver and the receive path of its kernel, the same for every model of NIC.",
			"Intervals are those of the median by order statistics; the ratio is the Hodges–Lehmann estimate with " +
				"the interval that inverts the Mann–Whitney test.",
			"The rule set that the bridge walked through was the demo's own, so it consented to taking the bridge " +
				"out of iptables. On your host mpps lists the rules that would stop matching and asks.",
		},
	}
	if missing := s.missing(); len(missing) > 0 {
		doc.Warn(outcome.Warning{Code: "unfinished",
			Text: "This run is not finished. Missing: " + strings.Join(missing, "; ") + ".",
			Hint: "Nothing is claimed about them."})
	}
	for i, why := range d.ended {
		doc.Warn(outcome.Warning{Code: "box-given-up",
			Text: fmt.Sprintf("Emulated host %d of %d died or hung and was given up: %s. This report is of host %d.",
				i+1, len(d.ended)+1, why, s.box+1),
			Hint: "Each file next to this report is of the last host that came that far."})
	}
	if h == nil {
		return doc
	}
	doc.Host = bench.HostOf(h)
	after := s.hostAfter
	if after == nil {
		after = h
	}
	sender := "frames into a veth port of the bridge"
	if run := s.before.Run; run != nil {
		sender += ", generator " + run.Environment.Generator
	}
	doc.Path = bench.Path(h, after, demoGuest, sender, s.before.Run)
	if h.Emulated || d.scene != nil && d.scene.lab.Emulated() {
		doc.Host.Emulated = true
		doc.Warn(outcome.Warning{Code: "emulated",
			Text: "The host and its guest run under software emulation (TCG). An exit of the guest costs many times " +
				"what it does on hardware, and so do all rates: e1000 against vhost is about right as a ratio, " +
				"nothing is right as a figure.",
			Hint: "Repeat with mpps bench on the real host."})
	}
	s.compare(doc)
	for _, p := range s.plans {
		doc.Changes = append(doc.Changes, report.Rows(p.Changes)...)
	}
	if n := len(s.plans); n > 0 {
		doc.Refused = report.SkippedRows(s.plans[n-1])
	}
	for _, series := range doc.Series {
		for _, w := range series.Run.Warnings {
			doc.Warn(outcome.Warning{Code: w.Code, Text: series.Label + ": " + w.Text, Hint: w.Hint})
		}
	}
	if s.hostAgain == nil {
		return doc
	}
	differences := facts.Diff(h, s.hostAgain)
	doc.Rollback = &bench.RollbackRow{Identical: len(differences) == 0, Compared: len(h.Readings),
		Seconds: s.rollbackSeconds, Differences: []string{}}
	for _, difference := range differences {
		doc.Rollback.Differences = append(doc.Rollback.Differences,
			fmt.Sprintf("%s: %s → %s", difference.Path, difference.Before, difference.After))
	}
	return doc
}

// compare adds the series measured so far, and the verdict if there are two to compare.
func (s *demoState) compare(doc *bench.Document) {
	for _, series := range []bench.Series{s.before, s.after, s.again} {
		if series.Run != nil {
			doc.Series = append(doc.Series, series)
		}
	}
	if s.before.Run == nil || s.after.Run == nil {
		return
	}
	from, found, foundTrips := "before", s.before.Run.Values(), s.before.RR.Values()
	if s.again.Run != nil {
		if drift := measure.Compare(found, s.again.Run.Values()); drift.Significant {
			doc.Warn(outcome.Warning{Code: "drift",
				Text: fmt.Sprintf("Before and rolled back are the same configuration and still differ by %s: that "+
					"much of any difference here is drift of the machine.", drift),
				Hint: "Nothing else should run on the machine that the demo runs on."})
		}
		from = "before and rolled back"
		found, foundTrips = slices.Concat(found, s.again.Run.Values()), slices.Concat(foundTrips, s.again.RR.Values())
	}
	trips := measure.Compare(foundTrips, s.after.RR.Values())
	doc.Compared = &bench.Compared{From: from, To: "after", Throughput: measure.Compare(found, s.after.Run.Values()),
		RoundTrips: &trips}
}
