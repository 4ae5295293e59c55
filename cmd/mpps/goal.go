package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// goalFlags are the flags of the target.
type goalFlags struct {
	pps, bulk, loss string
	frame           int
	latency         time.Duration
	cpus            string
	guest, nic      string
	dataNICs        []string
	consent         []string
	watch           bool // not part of the goal: also plan the watching service

	set *pflag.FlagSet // knows which flags were given
}

func (f *goalFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.set = flags
	flags.StringVar(&f.pps, "pps", "", "target: packets per second to one guest, such as 1.8M")
	flags.IntVar(&f.frame, "frame", 64, "frame size in bytes, including FCS")
	flags.StringVar(&f.loss, "loss", "0", "tolerated packet loss, such as 0.005 or 0.5%")
	flags.StringVar(&f.bulk, "bulk", "", "target: bulk throughput in bits per second, such as 25G")
	flags.DurationVar(&f.latency, "latency", 0, "target: wake-up latency in the guest, such as 20us")
	flags.StringVar(&f.cpus, "cpus", "", "host CPUs for the guest, such as 20-23")
	flags.StringVar(&f.guest, "guest", "", "guest to tune (default: all running guests)")
	flags.StringVar(&f.nic, "nic", "", "NIC type of the guest: virtio or vf")
	flags.StringSliceVar(&f.dataNICs, "data-nic", nil, "guests' NICs that carry the target, by MAC, tap, bridge or "+
		"network (default: recognised)")
	flags.StringSliceVar(&f.consent, "consent", nil, "risks to accept: security, data, connectivity, platform")
}

// addWatch adds the flag of commands that plan what makes values last.
func (f *goalFlags) addWatch(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.watch, "watch", false, "also install mpps-watch.service, which reports drift")
}

// isGiven reports whether any goal flag is on the command line.
func (f *goalFlags) isGiven(cmd *cobra.Command) bool {
	return slices.ContainsFunc(append([]string{"watch"}, goalNames...), cmd.Flags().Changed)
}

// namesTarget reports whether the flags name a target. How many bytes, which guest and which CPUs are none by
// themselves.
func (f *goalFlags) namesTarget() bool {
	return f.set.Changed("pps") || f.bulk != "" || f.latency != 0 || f.nic == "vf"
}

// namedGoal is goal for verbs that write: it refuses flags that name no target.
func (f *goalFlags) namedGoal(verb string) (goal.Goal, error) {
	g, err := f.goal()
	if err == nil && g.Unnamed {
		err = usage(fmt.Errorf("%s: no goal named", verb), "name one with --pps, --bulk, --latency or --nic vf; "+
			"'mpps audit --pps 500k' shows what it would mean")
	}
	return g, err
}

// goal returns the target that the flags name, goal.Gentlest if they name none.
func (f *goalFlags) goal() (goal.Goal, error) {
	const hint = "see 'mpps plan --help' for the goal flags"
	g := goal.Goal{Frame: f.frame, Latency: f.latency, Guest: f.guest, NIC: f.nic, DataNICs: f.dataNICs}
	var err error
	for name, rate := range map[string]*float64{"pps": &g.PPS, "bulk": &g.Bulk} {
		if !f.set.Changed(name) {
			continue
		}
		if *rate, err = goal.ParseRate(f.set.Lookup(name).Value.String()); err == nil && *rate == 0 {
			err = errors.New("expected more than nothing")
		}
		if err != nil {
			return g, usage(fmt.Errorf("--%s: %w", name, err), hint)
		}
	}
	if g.Loss, err = parseShare(f.loss); err != nil {
		return g, usage(fmt.Errorf("--loss: %w", err), hint)
	}
	if g.CPUs, err = setting.ParseCPUs(f.cpus); err != nil {
		return g, usage(fmt.Errorf("--cpus: %w", err), hint)
	}
	for _, name := range f.consent {
		if !slices.Contains(goal.Risks(), goal.Risk(name)) {
			return g, usage(fmt.Errorf("--consent: unknown risk %q", name), "risks to consent to are security, data, "+
				"connectivity and platform")
		}
		g.Consent = append(g.Consent, goal.Risk(name))
	}
	if f.set.Changed("frame") && f.frame == 0 {
		return g, usage(errors.New("--frame 0: expected 64 to 9018 bytes"), hint)
	}
	if !f.namesTarget() {
		g.PPS, g.Unnamed = goal.Gentlest().PPS, true
	}
	if err := g.Check(); err != nil {
		return g, usage(err, "") // err has its own hint
	}
	return g, nil
}

// parseShare reads a share such as 0.005 or 0.5%.
func parseShare(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("expected a share such as 0.005 or 0.5%%, found %q", text)
	}
	if isPercent {
		v /= 100
	}
	return v, nil
}

// goalNames are the goal flags, in the order in which commandLine prints them.
var goalNames = []string{"pps", "bulk", "latency", "frame", "loss", "cpus", "guest", "nic", "data-nic", "consent"}

// commandLine returns the goal flags as they were given, for use with another command.
func (f *goalFlags) commandLine() string {
	var all []string
	for _, name := range goalNames {
		if flag := f.set.Lookup(name); flag != nil && flag.Changed {
			value := strings.Trim(flag.Value.String(), "[]")
			if d, err := time.ParseDuration(value); err == nil && name == "latency" {
				value = shortDuration(d)
			}
			all = append(all, "--"+name+" "+value)
		}
	}
	return strings.Join(all, " ")
}

// shortDuration writes a duration with ASCII units: 20us.
func shortDuration(d time.Duration) string { return strings.Replace(d.String(), "µ", "u", 1) }
