package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/site"
	"mpps/internal/cli"
	"mpps/internal/model/goal"
	"mpps/internal/outcome"
)

// goalFlags are the flags of the target.
type goalFlags struct {
	watch bool // not part of the goal: also plan the watching service

	set  *pflag.FlagSet // knows which flags were given
	host *app           // whose goal file counts where no goal flag is given; nil: none does
	from string         // the file that the flags come from; empty: the command line
}

// add adds the flags. The host's goal file counts where none of them but --leave is given and the command has no
// --snapshot.
func (f *goalFlags) add(cmd *cobra.Command, host *app) {
	flags := cmd.Flags()
	f.set, f.host = flags, host
	flags.String("pps", "", "target: packets per second to one guest, such as 1.8M")
	flags.Int("frame", 64, "frame size in bytes, including FCS")
	flags.String("loss", "0", "tolerated packet loss, such as 0.005 or 0.5%")
	flags.String("bulk", "", "target: bulk throughput in bits per second, such as 25G")
	flags.Duration("latency", 0, "target: wake-up latency in the guest, such as 20us")
	flags.String("cpus", "", "host CPUs for the guest, such as 20-23")
	flags.String("guest", "", "guest to tune (default: all running guests)")
	flags.String("nic", "", "NIC type of the guest: virtio or vf")
	flags.StringSlice("data-nic", nil, "guests' NICs that carry the target, by MAC, tap, bridge or "+
		"network (default: recognised)")
	flags.StringSlice("leave", nil, "settings to leave alone, by ID or family, such as domain.*")
	flags.StringSlice("consent", nil, "risks to accept: security, data, connectivity, platform")
	cli.Check(flags, "leave", checkKnobs)
	for _, name := range []string{"pps", "bulk", "latency", "frame", "loss", "cpus", "nic", "consent"} {
		cli.Check(flags, name, func(text string) error {
			var alone goal.Goal
			err := alone.Set(name, strings.Split(text, ",")...)
			if err == nil {
				err = alone.Check()
			}
			return cli.Colon(err)
		})
	}
}

// checkKnobs refuses an ID or a family of knobs that the catalogue does not have.
func checkKnobs(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if !slices.ContainsFunc(knob.Catalogue(), func(k *knob.Knob) bool {
			return goal.Includes([]string{name}, k.ID)
		}) {
			return cli.Colon(unknownKnob(name))
		}
	}
	return nil
}

// addWatch adds the flag of commands that plan what makes values last.
func (f *goalFlags) addWatch(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.watch, "watch", false, "also install mpps-watch.service, which reports drift")
}

// isGiven reports whether any goal flag is on the command line.
func (f *goalFlags) isGiven(cmd *cobra.Command) bool {
	return slices.ContainsFunc(append([]string{"watch"}, goal.Names()...), cmd.Flags().Changed)
}

// namedGoal is goal for verbs that write: it refuses flags that name no target.
func (f *goalFlags) namedGoal(verb string) (goal.Goal, error) {
	g, err := f.goal()
	if err == nil && g.Unnamed {
		err = usage(fmt.Errorf("%s: no goal named", verb), "name one with --pps, --bulk, --latency or --nic vf, or "+
			"in /etc/mpps/goal.yaml; "+
			"'mpps audit --pps 500k' shows what it would mean")
	}
	return g, err
}

// goal returns the target that the flags name, else that of the goal file, else goal.Gentlest.
func (f *goalFlags) goal() (goal.Goal, error) {
	if err := f.load(); err != nil {
		return goal.Goal{}, err
	}
	g := goal.Goal{Frame: 64, From: f.from}
	for _, name := range goal.Names() {
		if values := f.given(name); values != nil {
			if err := g.Set(name, values...); err != nil {
				return g, usage(fmt.Errorf("--%s: %w", name, err), "see 'mpps plan --help' for the goal flags")
			}
		}
	}
	if err := g.Complete(); err != nil {
		return g, usage(err, "") // err has its own hint
	}
	return g, nil
}

// load gives the flags the values of the goal file, if none was given but for what is left alone.
func (f *goalFlags) load() error {
	given := func(name string) bool { return name != "leave" && f.set.Changed(name) }
	if f.host == nil || slices.ContainsFunc(append([]string{"snapshot"}, goal.Names()...), given) {
		return nil
	}
	file, err := site.LoadGoal(f.host.root)
	if file == nil || err != nil {
		return err
	}
	for _, part := range file.Parts {
		if f.set.Changed(part.Name) {
			continue
		}
		if err := setAgain(f.set, part.Name, part.Values); err != nil {
			return outcome.Failed(fmt.Errorf("goal file: %s: %w", part.Name, err), "")
		}
	}
	f.from = file.Goal.From
	f.host.out.Step("goal from %s: %s", f.from, f.commandLine())
	return nil
}

// given returns the values of a flag; nil if it was not given.
func (f *goalFlags) given(name string) []string {
	flag := f.set.Lookup(name)
	if flag == nil || !flag.Changed {
		return nil
	}
	if many, is := flag.Value.(pflag.SliceValue); is {
		return many.GetSlice()
	}
	return []string{flag.Value.String()}
}

// commandLine returns the goal flags as they were given, for use with another command.
func (f *goalFlags) commandLine() string {
	var all []string
	for _, name := range goal.Names() {
		if values := f.given(name); values != nil {
			value := strings.Join(values, ",")
			if name == "latency" {
				value = strings.Replace(value, "µ", "u", 1)
			}
			all = append(all, "--"+name+" "+value)
		}
	}
	return strings.Join(all, " ")
}
