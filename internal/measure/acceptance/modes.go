package acceptance

import (
	"math"
	"slices"
	"strings"
	"time"

	"mpps/internal/measure"
)

// Workloads of the campaign over modes: see 'mpps bench modes'.
const (
	streamIn  = "stream"     // into the guest
	streamOut = "stream-out" // out of the guest to the wire, as in the founding experiment
	exchanges = "rr"
)

var modes = &Experiment{
	Name:  "modes",
	Title: "NIC modes against native",
	Founding: "netperf through each NIC of a guest, three times 60 s from the guest to the wire, in percent of the " +
		"same machine without virtualization: e1000 27.26 % of the stream and 20.98 % of the transactions, " +
		"virtio and vhost near native for streams and under 50 % for transactions, virtio slightly ahead of vhost " +
		"there, a virtual function 99.63 % of the stream and under 80 % of the transactions; CPU within 5 %.",
	Takes: 60 * time.Minute,
	Wants: []string{
		"a guest for each mode that is to be measured (e1000, virtio, vhost, vf), each with 'mpps agent', and an " +
			"agent without virtualization on a NIC of the same kind (native); --make-guests makes those of " +
			"e1000, virtio and vhost",
		"a port that is cabled to the NIC under test (from=IFACE of each --mode), or the command itself on a second " +
			"host behind a switch",
		"for --engine netperf: netserver in each guest and beside the native agent",
	},
	Needs: []Need{NeedMadeGuests, NeedModes},
	Steps: func(in Inputs) []Step {
		workloads := []string{streamIn, streamOut, exchanges}
		if in.Engine == "iperf3" { // it makes no transactions
			workloads = workloads[:2]
		}
		argv := []string{"bench", "modes", "--workloads", strings.Join(workloads, ","), "--repeat", in.repeat(),
			"--name",
			"acceptance", "--keep=false"}
		argv = append(argv, "--duration", in.duration().String(), "--checkpoint", in.file("modes.jsonl"))
		argv = append(argv, flags("--engine", in.Engine, "--secret-file", in.SecretFile)...)
		for _, m := range in.Modes {
			argv = append(argv, "--mode", m)
		}
		campaign := Step{ID: "modes", Phase: Before,
			Does: "TCP streams both ways and transactions of every mode, in turns",
			Argv: argv, Gives: Campaign}
		campaign.Kept = in.file("modes.jsonl")
		campaign.Again = append([]string{"bench", "modes", "--resume", campaign.Kept, "--keep=false"},
			flags("--secret-file", in.SecretFile)...)
		return []Step{in.machine(), campaign}
	},
	Figures: func(in Inputs) []Figure {
		var figures []Figure
		for _, f := range []struct {
			mode, workload string
			percent        float64
			under, near    bool
		}{
			{"e1000", streamOut, 27.26, false, false}, {"e1000", exchanges, 20.98, false, false},
			{"virtio", streamOut, 100, false, true}, {"virtio", exchanges, 50, true, false},
			{"vhost", streamOut, 100, false, true}, {"vhost", exchanges, 50, true, false},
			{"vf", streamOut, 99.63, false, false}, {"vf", exchanges, 80, true, false},
		} {
			if !hasMode(in.Modes, f.mode) {
				continue
			}
			what := map[string]string{streamOut: "TCP stream out of the guest",
				exchanges: "TCP transactions"}[f.workload]
			figure := Figure{ID: "modes." + f.mode + "-" + f.workload, What: f.mode + ": " + what + " against native",
				Unit: "%", Founding: f.percent, Ratio: true, Tool: "netperf",
				Under: f.under, About: f.near, Read: percentOf(f.mode, f.workload),
				Look: []string{"mpps audit", "mpps explain domain.nic_model"}}
			if f.near {
				figure.Note = "no percentage was recorded, only that it was near native; within a tenth counts as that"
			}
			if f.mode == "vf" {
				figure.Look = []string{"mpps sriov check", "mpps audit --nic vf"}
			}
			figures = append(figures, figure)
			if f.workload == streamOut {
				figure.ID, figure.OtherWay = "modes."+f.mode+"-"+streamIn, true
				figure.What = f.mode + ": TCP stream into the guest against native"
				figure.Read = percentOf(f.mode, streamIn)
				figures = append(figures, figure)
			}
		}
		return append(figures, besides(in)...)
	},
}

// besides returns the figures that compare modes with each other.
func besides(in Inputs) []Figure {
	var figures []Figure
	if hasMode(in.Modes, "virtio") && hasMode(in.Modes, "vhost") {
		figures = append(figures, Figure{ID: "modes.rr-order", What: "TCP transactions: virtio over vhost", Unit: "×",
			Founding: 1, About: true, Ratio: true, Tool: "netperf", Read: overOf("virtio", "vhost", exchanges),
			Note: "virtio was slightly ahead, and nobody wrote down by how much: no less than a tenth behind counts " +
				"as that",
			Look: []string{"mpps explain domain.backend", "mpps explain vhost.threads"}})
	}
	if len(in.Modes) > 2 {
		figures = append(figures, Figure{ID: "modes.cpu",
			What: "CPU time of the host while guests stream out: widest gap between two modes",
			Unit: "points", Founding: 5, Lower: true, Ratio: true, Tool: "netperf",
			Read: cpuGapOf(streamOut),
			Note: "the text says within 5 % and names no pair: here of all modes but native, in points of the CPUs " +
				"of the host that runs this command",
			Look: []string{"mpps diagnose", "mpps explain domain.backend"}})
	}
	return figures
}

func hasMode(all []string, name string) bool {
	return slices.ContainsFunc(all, func(mode string) bool { return strings.HasPrefix(mode+"=", name+"=") })
}

// rowsOf returns the rows of a campaign under one workload, by mode, and the program that made the load.
func rowsOf(o *Outcomes, workload string) (rows map[string]measure.ModeRow, tool string) {
	rows = map[string]measure.ModeRow{}
	for _, m := range o.Modes {
		for _, r := range m.Rows {
			if r.Workload == workload {
				rows[r.Mode] = r
			}
		}
		for _, w := range m.Workloads {
			if tool = "mpps"; w.Name == workload && w.Engine != "" {
				return rows, w.Engine
			}
		}
	}
	return rows, tool
}

// percentOf returns a function that reads a mode's percentage of native.
func percentOf(mode, workload string) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		rows, tool := rowsOf(o, workload)
		r := rows[mode]
		if r.Percent == nil || r.Percent.N == 0 {
			return Measured{}, false
		}
		limited := r.LimitedBy == measure.ByGenerator || r.LimitedBy == measure.ByReceiver
		return Measured{Value: r.Percent.Value, Lo: r.Percent.Lo, Hi: r.Percent.Hi, N: len(r.Samples), Unit: "%",
			AtLeast: limited, LimitedBy: string(r.LimitedBy), Tool: tool}, true
	}
}

// overOf returns a function that reads a mode's result as a multiple of another's.
func overOf(mode, other, workload string) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		rows, tool := rowsOf(o, workload)
		a, b := rows[other].Samples, rows[mode].Samples
		e := measure.Compare(a, b).Ratio
		return Measured{Value: e.Value, Lo: e.Lo, Hi: e.Hi, N: min(len(a), len(b)), Unit: "×", Tool: tool}, e.N > 0
	}
}

// cpuGapOf returns a function that reads by how many points the idle CPU time of the modes differs, native left out.
func cpuGapOf(workload string) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		rows, tool := rowsOf(o, workload)
		least, most, n := math.Inf(1), math.Inf(-1), 0
		for mode, r := range rows {
			if mode == "native" || r.CPUIdle.N == 0 {
				continue
			}
			least, most, n = min(least, r.CPUIdle.Value), max(most, r.CPUIdle.Value), n+1
		}
		if n < 2 {
			return Measured{}, false
		}
		return Measured{Value: most - least, Lo: most - least, Hi: most - least, N: n, Unit: "points", Tool: tool}, true
	}
}
