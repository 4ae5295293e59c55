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
		Long: `Sends UDP frames as fast as possible, or at --rate, and counts those that
arrive: received, lost, duplicated, out of order. Generator and receiver are
measured alone first; a result that they limited exits with 5.

Between two interfaces of this machine, in whichever namespaces:
  mpps bench pps --from netns:A/veth0 --to netns:B/veth1
Into a guest, through a temporary port of its bridge:
  mpps bench pps --via br0 --agent 10.50.0.2:7878 --repeat 6 -o before.json
Out of a guest, at a rate:
  mpps bench pps --via br0 --agent 10.50.0.2:7878 --reverse --rate 100k
Through a guest that routes or bridges, between two bridges or interfaces:
  mpps bench pps --forward --via br0 --out br1 --gateway 198.18.0.254
To another host:
  mpps bench pps --from eth1 --agent 192.0.2.7:7878 --secret-file secret
Both ways at once, at a rate in each, with sizes as on the Internet:
  mpps bench pps --from eth1 --agent 192.0.2.7:7878 --two-way --imix --rate 100k

Test frames carry addresses of 198.18.0.0/15 (RFC 2544) and go to the far end's
MAC address; sizes count the FCS. --imix is CSIT's mix: of 48 frames 28 have 64
bytes, 16 have 570 and 4 have 1518. CPU cost is that of the whole machine, with
softirq and guest time, the generator included.`,
		Args: args(cobra.NoArgs),
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
	cli.ValueVar(flags, &f.rate, "rate", "", "packets per second, such as 100k; 0 is as fast as possible", parseRate)
	flags.BoolVar(&f.latency, "latency", false, "stamp frames and tell their one-way delays; costs the generator "+
		"speed (default: with --rate)")
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
