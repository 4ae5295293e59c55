package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/model/goal"
)

// domainGoal holds the goal flags of mpps domain tune, where --nic and --guest mean something else.
type domainGoal struct{ goalFlags }

func (f *domainGoal) add(cmd *cobra.Command) {
	own := &cobra.Command{}
	f.goalFlags.add(own, nil)
	f.set = own.Flags()
	own.Flags().VisitAll(func(flag *pflag.Flag) {
		if slices.Contains([]string{"pps", "frame", "loss", "bulk", "latency", "cpus"}, flag.Name) {
			cmd.Flags().AddFlag(flag)
		}
	})
	cmd.Flags().Lookup("pps").Usage = "let the catalogue choose for this packet rate, such as 1.8M"
}

// goal returns the target that the flags name; nil if they name none.
func (f *domainGoal) goal() (*goal.Goal, error) {
	if !slices.ContainsFunc([]string{"pps", "bulk", "latency", "frame", "loss", "cpus"}, f.set.Changed) {
		return nil, nil
	}
	g, err := f.namedGoal("domain tune")
	return &g, err
}
