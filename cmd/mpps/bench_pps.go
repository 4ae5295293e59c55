package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
)

// ppsFlags are the flags of bench pps.
type ppsFlags struct {
	runFlags
	path    trafficFlags
	rate    float64
	latency bool
}

func (a *app) benchPPS() *cobra.Command {
	var f ppsFlags
	cmd := &cobra.Command{
		Use:   "pps",
		Short: "measure packets per second, and where they are lost",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			load, err := f.load()
			if err != nil {
				return err
			}
			return a.measure(cmd.Context(), measure.PPS, &f.runFlags, load, &f.path.Path)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *ppsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.runFlags.add(cmd)
	f.path.add(flags, "cpus")
	f.path.addPackets(flags)
	cli.ValueVar(flags, &f.rate, "rate", "", "send rate in packets per second, such "+
		"as 100k; 0 is as fast as possible", parseRate)
	flags.BoolVar(&f.latency, "latency", false, "measure one-way delay with timestamps; slows the generator "+
		"(default: with --rate)")
}

// load checks the flags against each other and returns the load.
func (f *ppsFlags) load() (measure.Load, error) {
	if err := cmp.Or(checkEnds(&f.path.Ends, f.path.Forward), f.check()); err != nil {
		return measure.Load{}, err
	}
	load, err := f.path.load(f.latency)
	if err != nil {
		return load, err
	}
	f.setTimes(&load)
	load.Rate = f.rate
	// One-way delays need one clock; stamping frames would lower the highest rate.
	pktgen := f.path.Options.Generator == traffic.Pktgen
	load.Latency = f.path.Agent == "" && !pktgen && (f.latency || f.rate > 0)
	return load, rig.CheckLoad(load)
}
