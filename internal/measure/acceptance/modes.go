package acceptance

import (
	"slices"
	"strings"
	"time"
)

var modes = &Experiment{
	Name:  "modes",
	Title: "NIC modes against native",
	Founding: "netperf through each NIC of a guest, in percent of the same machine without virtualization: e1000 " +
		"27.26 % of the stream and 20.98 % of the transactions, " +
		"virtio and vhost near native for streams and under 50 % for transactions, a virtual function 99.63 % of the " +
		"stream and under 80 % of the transactions.",
	Takes: 40 * time.Minute,
	Wants: []string{
		"a guest for each mode that is to be measured (e1000, virtio, vhost, vf), each with 'mpps agent', and an " +
			"agent without virtualization on a NIC of the same kind (native)",
		"a port that is cabled to the NIC under test (from=IFACE of each --mode)",
	},
	Needs: []Need{NeedModes},
	Steps: func(in Inputs) []Step {
		argv := []string{"bench", "modes", "--workloads", "stream,rr", "--repeat", in.either("12", "3"), "--name",
			"acceptance", "--keep=false"}
		argv = append(argv, "--duration", in.either("10s", "1s"), "--checkpoint", in.file("modes.jsonl"))
		argv = append(argv, flags("--secret-file", in.SecretFile)...)
		for _, m := range in.Modes {
			argv = append(argv, "--mode", m)
		}
		campaign := Step{ID: "modes", Phase: Before, Does: "TCP stream and transactions of every mode, in turns",
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
			{"e1000", "stream", 27.26, false, false}, {"e1000", "rr", 20.98, false, false},
			{"virtio", "stream", 100, false, true}, {"virtio", "rr", 50, true, false},
			{"vhost", "stream", 100, false, true}, {"vhost", "rr", 50, true, false},
			{"vf", "stream", 99.63, false, false}, {"vf", "rr", 80, true, false},
		} {
			if !hasMode(in.Modes, f.mode) {
				continue
			}
			what := map[string]string{"stream": "TCP stream", "rr": "TCP transactions"}[f.workload]
			figure := Figure{ID: "modes." + f.mode + "-" + f.workload, What: f.mode + ": " + what + " against native",
				Unit: "%", Founding: f.percent, Ratio: true,
				Under: f.under, About: f.near, Read: percentOf(f.mode, f.workload),
				Look: []string{"mpps audit", "mpps explain domain.nic_model"}}
			if f.near {
				figure.Note = "no percentage was recorded, only that it was near native; within a tenth counts as that"
			}
			if f.mode == "vf" {
				figure.Look = []string{"mpps sriov check", "mpps audit --nic vf"}
			}
			figures = append(figures, figure)
		}
		return figures
	},
}

func hasMode(all []string, name string) bool {
	return slices.ContainsFunc(all, func(mode string) bool { return strings.HasPrefix(mode+"=", name+"=") })
}
