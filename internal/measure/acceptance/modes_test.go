package acceptance

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/must"
)

// recorded is a campaign of which e1000 streams better into the guest than out of it.
func recorded(engine string) *Outcomes {
	m := &measure.Modes{Native: "native"}
	for _, name := range []string{streamIn, streamOut, exchanges} {
		m.Workloads = append(m.Workloads, measure.Workload{Name: name, Engine: engine})
	}
	row := func(mode, workload string, percent, idle float64, samples ...float64) {
		m.Rows = append(m.Rows, measure.ModeRow{Mode: mode, Workload: workload, Samples: samples,
			Percent: &measure.Estimate{Value: percent, Lo: percent - 1, Hi: percent + 1, N: len(samples)},
			CPUIdle: measure.Estimate{Value: idle, N: len(samples)}})
	}
	row("e1000", streamIn, 60, 70, 6, 6, 6)
	row("e1000", streamOut, 27.5, 60, 3, 3, 3)
	row("virtio", streamOut, 97, 63, 9, 9, 9)
	row("vhost", streamOut, 98, 64, 9, 9, 9)
	row("virtio", exchanges, 45, 80, 4.4, 4.5, 4.6)
	row("vhost", exchanges, 43, 80, 4.2, 4.3, 4.4)
	m.Rows = append(m.Rows, measure.ModeRow{Mode: "native", Workload: streamOut, CPUIdle: measure.Estimate{Value: 10,
		N: 3}})
	return &Outcomes{Modes: map[string]*measure.Modes{"modes": m}}
}

// TestModesFigures: the founding figure of a stream is that of the direction out of the guest, and modes are compared
// with each other.
func TestModesFigures(t *testing.T) {
	in := Inputs{Modes: []string{"native=a:1", "e1000=b:1", "virtio=c:1", "vhost=d:1"}}
	judged := map[string]Judged{}
	for _, f := range modes.Figures(in) {
		judged[f.ID] = Judge(f, recorded("netperf"), &Machine{}, in)
	}
	for id, c := range map[string]struct {
		state  State
		value  float64
		reason string
	}{
		"modes.e1000-stream-out": {Reached, 27.5, ""}, "modes.e1000-stream": {NotComparable, 60, "other-direction"},
		"modes.virtio-stream-out": {Reached, 97, "about"}, "modes.virtio-rr": {NotComparable, 45, "no-figure"},
		"modes.e1000-rr": {NotMeasured, 0, "not-measured"}, "modes.rr-order": {Reached, 4.5 / 4.3, ""},
		"modes.cpu": {Reached, 4, ""},
	} {
		j, known := judged[id]
		value := 0.0
		if j.Measured != nil {
			value = j.Measured.Value
		}
		has := func(r Reason) bool { return r.Code == c.reason }
		if !known || j.State != c.state || math.Abs(value-c.value) > 0.01 || c.reason != "" &&
			!slices.ContainsFunc(j.Reasons, has) || c.reason == "" && len(j.Reasons) > 0 {
			t.Errorf("%s: %s, %g, %+v; expected %+v", id, j.State, value, j.Reasons, c)
		}
	}
	ours := recorded("")
	ours.Modes["modes"].Rows[2].CPUIdle.Value = 50
	for _, f := range modes.Figures(in) {
		if j := Judge(f, ours, &Machine{}, in); f.ID == "modes.cpu" && (j.State != Short || j.Measured.Value != 14 ||
			j.Reasons[0].Code != "other-tool") {
			t.Errorf("by mpps, with more CPU time: %+v", j)
		}
	}
}

func TestParseTrials(t *testing.T) {
	for text, want := range map[string]int{"3x60s": 3, "12x10s": 12, "": 0, "3": 0, "x60s": 0, "0x1s": 0, "3x1500ms": 0,
		"3x60": 0, "3x2h": 0} {
		n, each, err := ParseTrials(text)
		if n != want || (err == nil) != (want > 0) || want == 3 && each != time.Minute {
			t.Errorf("%q: %d × %v, %v", text, n, each, err)
		}
	}
	for _, c := range []struct {
		in   Inputs
		n    int
		each time.Duration
	}{{Inputs{}, 12, 10 * time.Second}, {Inputs{Short: true}, 3, time.Second}, {Inputs{Short: true, Trials: "2x5s"}, 2,
		5 * time.Second}} {
		if n, each := c.in.trials(); n != c.n || each != c.each {
			t.Errorf("%+v: %d × %v", c.in, n, each)
		}
	}
}

// TestHostTrials: each way in which a host forwards by itself has a search and its figures, of one card or of either.
func TestHostTrials(t *testing.T) {
	in := Inputs{Guest: "vm1", Trial: "trex.py", HostTrials: []string{"l2=trex.py --ports 2,3", "dpdk=a=b"}}
	var commands []string
	for _, s := range throughput.Steps(in) {
		if strings.HasPrefix(s.ID, "host-") {
			commands = append(commands, s.ID+" "+s.Argv[slices.Index(s.Argv, "--trial-command")+1])
		}
	}
	if want := []string{"host-l2 trex.py --ports 2,3", "host-dpdk a=b"}; !slices.Equal(commands, want) {
		t.Errorf("steps %v, expected %v", commands, want)
	}
	founding := map[string]float64{}
	for _, f := range throughput.Figures(in)[4:] {
		founding[f.ID] = f.Founding
	}
	must.Hold(t, len(founding) == 3 && founding["throughput.l2-x520"] == 7.3e6 &&
		founding["throughput.l2-x710"] == 7.8e6 && founding["throughput.dpdk"] == 14.8e6, "figures %v", founding)
	for _, text := range []string{"", "l4=x", "l3=", "l3"} {
		if _, _, err := ParseHostTrial(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestModeAgents: an agent is asked from the namespace that its mode names, by the interface named; a guest that stands
// still cannot answer and is not asked.
func TestModeAgents(t *testing.T) {
	got := Inputs{Modes: []string{"native=a:1,from=netns:far/eth1,guest-nic=eth0", "vhost=b:1,via=br0",
		"vf=c:1,from=eth1,frozen=/run/vf.pid"}}.Agents()
	want := []Agent{{At: "a:1", NIC: "eth0", Netns: "far"}, {At: "b:1"}}
	must.Hold(t, slices.Equal(got, want), "%+v, expected %+v", got, want)
}
