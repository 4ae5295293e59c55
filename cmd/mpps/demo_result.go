package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/plan"
	"mpps/internal/report"
	"mpps/internal/tune"
)

// demoState is what the demo has found out so far.
type demoState struct {
	hostBefore, hostAfter, hostAgain *facts.Host
	before, after, again             report.Series
	tuned                            []*tune.Result
	plans                            []*plan.Plan // of what they kept
	transactions                     int          // that stand in the end
	rollbackSeconds, seconds         float64
}

// demoResult is result.json.
type demoResult struct {
	Schema     string             `json:"schema"` // mpps.demo/1
	Version    string             `json:"mpps"`
	Before     demoSide           `json:"before"`
	After      demoSide           `json:"after"`
	RolledBack demoSide           `json:"rolled_back"`
	Throughput measure.Comparison `json:"throughput"`
	Changes    []report.ChangeRow `json:"changes"`
	Tuned      []*tune.Result     `json:"tuned"`
	Rollback   report.RollbackRow `json:"rollback"`
	Seconds    float64            `json:"seconds"`
	Emulated   bool               `json:"emulated"`
	Retries    int                `json:"guest_start_retries"`
}

// demoSide is what was measured in one state: medians, with every sample.
type demoSide struct {
	PPS       float64       `json:"pps"`
	Samples   []float64     `json:"samples"`
	RR        float64       `json:"transactions_per_second"`
	RRSamples []float64     `json:"rr_samples"`
	LimitedBy measure.Limit `json:"limited_by"`
}

func side(s report.Series) demoSide {
	d := demoSide{PPS: s.Run.Median.Value, Samples: s.Run.Values(), LimitedBy: s.Run.LimitedBy}
	if s.RR != nil {
		d.RR, d.RRSamples = s.RR.Median.Value, s.RR.Values()
	}
	return d
}

// snapshot takes a snapshot on the demo's host and reads it here.
func (d *demo) snapshot(ctx context.Context, file string, into **facts.Host) error {
	if _, err := d.scene.mpps(ctx, []int{exitOK}, "snapshot", "-o", "/share/"+file); err != nil {
		return err
	}
	h, err := readSnapshot(d.scene.shared(file))
	*into = h
	return err
}

// shared is a file of the lab's /share, seen from here.
func (s *scene) shared(file string) string { return filepath.Join(s.lab.ShareDir(), file) }

// bench measures packets into the guest and transactions with it.
func (d *demo) bench(ctx context.Context, label string, into *report.Series) error {
	to := demoAddress + ":" + strconv.Itoa(demoPort)
	run, err := d.run1(ctx, label, "pps", "--via", demoBridge, "--agent", to, "--frame", "64", "--flows", "16", "--sink", "af_packet",
		"--duration", demoTrial.String(), "--repeat", strconv.Itoa(d.trials))
	if err != nil {
		return err
	}
	trips, err := d.run1(ctx, label, "rr", "--agent", to, "--duration", demoTrial.String(), "--repeat", strconv.Itoa(d.trials))
	if err != nil {
		return err
	}
	*into = report.Series{Label: label, Run: run, RR: trips}
	return nil
}

// demoTrial is the length of one trial.
const demoTrial = time.Second

// run1 makes one run of bench on the demo's host and reads it here. A run that generator or receiver limited is still
// shown, marked as such.
func (d *demo) run1(ctx context.Context, label, kind string, argv ...string) (*measure.Run, error) {
	file := kind + "-" + strings.ReplaceAll(label, " ", "-") + ".json"
	argv = append([]string{"bench", kind, "--secret-file", "/share/secret", "--name", label, "-o", "/share/" + file}, argv...)
	text, err := d.scene.mpps(ctx, []int{exitOK, exitNotDevice}, argv...)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(d.app.stdout, text); err != nil {
		return nil, err
	}
	return readRun(d.scene.shared(file))
}

// half runs one half of the loop, and keeps what it found and planned for the report.
func (d *demo) half(ctx context.Context, n int, argv ...string) (*tune.Result, error) {
	found, planned := fmt.Sprintf("tune-%d.json", n), fmt.Sprintf("plan-%d.json", n)
	argv = append([]string{"tune", "--budget", d.budget.String(), "-o", "/share/" + found, "--plan-output", "/share/" + planned}, argv...)
	text, err := d.scene.mpps(ctx, []int{exitOK, exitChanges, exitNotDevice}, argv...)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(d.app.stdout, text); err != nil {
		return nil, err
	}
	saved, err := os.ReadFile(d.scene.shared(found))
	if err != nil {
		return nil, err
	}
	r := &tune.Result{}
	if err := json.Unmarshal(saved, r); err != nil {
		return nil, err
	}
	d.state.tuned = append(d.state.tuned, r)
	made := len(r.Chain)
	if r.RestartTX != "" {
		made++
	}
	d.state.transactions += made
	for _, name := range planFiles(planned, made)[:made] {
		p, err := readPlan(d.scene.shared(name))
		if err != nil {
			return nil, err
		}
		d.state.plans = append(d.state.plans, p)
	}
	return r, nil
}

func (s *demoState) render(d *demo) (page, result []byte, err error) {
	doc := s.document(d)
	var html bytes.Buffer
	if err := report.HTML(&html, doc); err != nil {
		return nil, nil, err
	}
	result, err = json.MarshalIndent(facts.Whole(demoResult{
		Schema: "mpps.demo/1", Version: version, Before: side(s.before), After: side(s.after), RolledBack: side(s.again),
		Throughput: doc.Compared.Throughput, Changes: doc.Changes, Tuned: s.tuned, Rollback: *doc.Rollback,
		Seconds: s.seconds, Emulated: d.scene.lab.Emulated(), Retries: d.scene.lab.Retries(),
	}), "", "  ")
	return html.Bytes(), append(result, '\n'), err
}

// document is the demo's report.
func (s *demoState) document(d *demo) *report.Document {
	h := s.hostBefore
	found := slices.Concat(s.before.Run.Values(), s.again.Run.Values())
	trips := measure.Compare(slices.Concat(s.before.RR.Values(), s.again.RR.Values()), s.after.RR.Values())
	drift := measure.Compare(s.before.Run.Values(), s.again.Run.Values())
	doc := &report.Document{
		Schema: report.DocumentSchema, Title: "mpps demo · one guest on one KVM host", Made: time.Now(), Version: version,
		Seconds: s.seconds, Host: report.HostOf(h),
		Goal:   goal.FormatRate(d.pps) + " packets per second of 64 bytes into guest " + demoGuest,
		Path:   report.Path(h, s.hostAfter, demoGuest, "XDP live frames into a veth port of the bridge", s.before.Run),
		Series: []report.Series{s.before, s.after, s.again},
		Compared: &report.Compared{From: "before and rolled back", To: "after",
			Throughput: measure.Compare(found, s.after.Run.Values()), RoundTrips: &trips},
		Method: []string{
			"Three states were measured one after the other, each after a start of the guest: as found, with what the closed loop kept, and after the rollback. The ratio compares the middle one with the two around it, which are the same configuration; how far those two lie apart is drift.",
			"Frames enter the bridge through a temporary veth pair and are counted by a packet socket in the guest: behind its driver and the receive path of its kernel, the same for every model of NIC.",
			"Intervals are those of the median by order statistics; the ratio is the Hodges–Lehmann estimate with the interval that inverts the Mann–Whitney test.",
			"The rule set that the bridge walked through was the demo's own, so it consented to taking the bridge out of iptables. On your host mpps lists the rules that would stop matching and asks.",
		},
	}
	if h.Emulated || d.scene.lab.Emulated() {
		doc.Host.Emulated = true
		doc.Warnings = append(doc.Warnings, report.Warning{Code: "emulated",
			Text: "The host and its guest run under software emulation (TCG). An exit of the guest costs many times what it does on hardware, and so do all rates: e1000 against vhost is about right as a ratio, nothing is right as a figure.",
			Hint: "Repeat with mpps bench on the real host."})
	}
	if drift.Significant {
		doc.Warnings = append(doc.Warnings, report.Warning{Code: "drift",
			Text: fmt.Sprintf("Before and rolled back are the same configuration and still differ by %s: that much of any difference here is the machine's.", drift),
			Hint: "Nothing else should run on the machine that the demo runs on."})
	}
	for _, p := range s.plans {
		doc.Changes = append(doc.Changes, report.Rows(p.Changes)...)
	}
	if n := len(s.plans); n > 0 {
		doc.Refused = report.SkippedRows(s.plans[n-1])
	}
	for _, series := range doc.Series {
		for _, w := range series.Run.Warnings {
			doc.Warn(report.Warning{Code: w.Code, Text: series.Label + ": " + w.Text, Hint: w.Hint})
		}
	}
	differences := facts.Diff(h, s.hostAgain)
	doc.Rollback = &report.RollbackRow{Identical: len(differences) == 0, Compared: len(h.Readings), Seconds: s.rollbackSeconds, Differences: []string{}}
	for _, difference := range differences {
		doc.Rollback.Differences = append(doc.Rollback.Differences, fmt.Sprintf("%s: %s → %s", difference.Path, difference.Before, difference.After))
	}
	return doc
}
