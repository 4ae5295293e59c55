//go:build lab

package modes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/measure"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// TestModes has one command boot a lab with a guest for each mode, measure them and answer with all rows. Order,
// percentages and resuming are tested without a lab, in internal/measure and cmd/mpps.
func TestModes(t *testing.T) {
	labtest.Long(t)
	labtest.Place(t)
	samples := filepath.Join(t.TempDir(), "campaign.jsonl")
	m := campaign(t, "modes", "--search-budget", "3s", "--seed", "11", "--checkpoint", samples)
	must.Hold(t, !m.Partial && m.Samples == 30 && m.Seed == 11 && m.Blocks == 1 && m.Native == "native" &&
		len(m.Rows) == 30 && len(m.Notes) != 0, "partial %v, %d samples, %d blocks, %d rows; failures %+v", m.Partial,
		m.Samples, m.Blocks, len(m.Rows), m.Failures)
	emulated := slices.ContainsFunc(m.Warnings, func(w measure.Warning) bool { return w.Code == "emulated" })
	must.Hold(t, emulated == m.Environment.Emulated, "emulated %v, warnings %+v", m.Environment.Emulated, m.Warnings)
	for i, r := range m.Rows {
		run := &m.Runs[i]
		if r.Search != nil {
			searched(t, r)
			continue
		}
		if len(r.Samples) != 1 || r.Median.Value <= 0 || (r.Percent == nil) != (r.Mode == "native") ||
			r.CPUIdle.N != 1 || r.CPUNs.Value <= 0 {
			t.Errorf("row %+v", r)
		}
		switch r.Kind {
		case measure.RR:
			must.Hold(t, len(r.Percentiles) != 0, "%s: no delays", r.Mode)
		case measure.PPS:
			for _, s := range run.Samples {
				must.Hold(t, s.Sent == s.Received-s.Duplicated+s.Lost && s.Sent != 0,
					"%s: sent %d, received %d, duplicated %d, lost %d", r.Mode, s.Sent, s.Received, s.Duplicated,
					s.Lost)
			}
			must.Hold(t, run.Baseline.Generator != nil && run.Baseline.Generator.PPS != 0,
				"%s: the generator alone: %+v", r.Mode, run.Baseline.Generator)
		}
		t.Logf("%-8s %-6s %8.4g %s, %3.0f %% of native, CPU idle %.0f %%, limited by %s", r.Mode, r.Workload,
			r.Median.Value, r.Unit, percent(r), r.CPUIdle.Value, r.LimitedBy)
	}
	// An agent in a namespace of the lab host, and five guests.
	hosts := map[string]bool{}
	for i := range m.Runs {
		hosts[m.Runs[i].Environment.FarHost] = true
	}
	must.Equal(t, len(hosts), 6, "agents on %v", hosts)
	text, err := os.ReadFile(samples)
	if err != nil || bytes.Count(text, []byte("\n")) < 31 {
		t.Errorf("the campaign's file has %d lines: %v", bytes.Count(text, []byte("\n")), err)
	}
}

// campaign has mpps-lab measure once of everything, and requires that no lab is left.
func campaign(t *testing.T, verb string, argv ...string) *measure.Modes {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), labtest.Command(t), append([]string{"--json", verb, "--mpps",
		labtest.Binary(t), "--repeat", "1", "--duration", "1s", "--warm-up", "100ms", "--keep=false"}, argv...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	must.Need(t, err == nil, "mpps-lab %s: %v after %.0f s:\n%s", verb, err, time.Since(began).Seconds(), &said)
	t.Logf("%.0f s: %s", time.Since(began).Seconds(), strings.ReplaceAll(strings.TrimSpace(said.String()), "\n", "; "))
	m := must.Get(measure.DecodeModes(&out))(t)
	labs, err := lab.List()
	if err != nil || slices.ContainsFunc(labs, func(i lab.Info) bool { return strings.HasPrefix(i.Name, verb+"-") }) {
		t.Errorf("a lab was left: %+v, %v", labs, err)
	}
	return m
}

// TestPaths measures each way to a guest as found and under a plan. How many packets an emulator carries on which is
// judged by nobody, but some come through everywhere, the plan was applied for each sample of its own, and mpps-lab
// found what the plan changes as before in the end.
func TestPaths(t *testing.T) {
	labtest.Long(t)
	labtest.Place(t)
	m := campaign(t, "paths", "--workloads", "pps,rr", "--seed", "3")
	must.Hold(t, !m.Partial && m.Samples == 36 && len(m.Rows) == 36 && m.Native == "bridge" && len(m.Failures) <= 0,
		"partial %v, %d samples, %d rows, of %s; failures %+v; notes %q", m.Partial, m.Samples, len(m.Rows), m.Native,
		m.Failures, m.Notes)
	for _, path := range []string{"bridge", "ovs", "ovs-ct", "geneve-ct", "nat", "nat-flowtable", "macvtap", "passt",
		"vhost-user"} {
		rows := slices.DeleteFunc(slices.Clone(m.Rows), func(r measure.ModeRow) bool {
			return strings.TrimSuffix(r.Mode, "+plan") != path
		})
		must.Equal(t, len(rows), 4, "rows of %s, two workloads with and without the plan", path)
	}
	for i, r := range m.Rows {
		if len(r.Samples) != 1 || r.Median.Value <= 0 {
			t.Errorf("row %+v", r)
		}
		if run := &m.Runs[i]; r.Kind == measure.PPS {
			for _, s := range run.Samples {
				must.Hold(t, s.Sent == s.Received-s.Duplicated+s.Lost && s.Received != 0,
					"%s: sent %d, received %d, duplicated %d, lost %d", r.Mode, s.Sent, s.Received, s.Duplicated,
					s.Lost)
			}
		}
		t.Logf("%-18s %-3s %8.4g %s", r.Mode, r.Workload, r.Median.Value, r.Unit)
	}
}

// searched requires a rate without loss, or the reason why there is none.
func searched(t *testing.T, r measure.ModeRow) {
	t.Helper()
	if len(r.Samples) != 1 || r.Search.Seconds <= 0 || (r.Median.Value == 0) != (r.Search.None != "") {
		t.Errorf("row %+v, %+v", r, r.Search)
	}
	t.Logf("%-8s %-6s %8.4g %s without loss %s, %3.0f %% of native, %.1f s of traffic, limited by %s", r.Mode,
		r.Workload, r.Median.Value, r.Unit, r.Search.None, percent(r),
		r.Search.Seconds, r.LimitedBy)
}

func percent(r measure.ModeRow) float64 {
	if r.Percent == nil {
		return 100
	}
	return r.Percent.Value
}
