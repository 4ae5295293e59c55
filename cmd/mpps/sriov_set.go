package main

import (
	"mpps/internal/ops/change"
	"mpps/internal/ops/vf"

	"github.com/spf13/cobra"
)

func (a *app) sriovSetCommand() *cobra.Command {
	var dryRun, detailed bool
	cmd := &cobra.Command{
		Use:   "set VF ATTRIBUTE VALUE...",
		Short: "set a virtual function's MAC, VLAN, rate and trust",
		Long: `Sets attributes of a virtual function through its physical one, all or none, and
keeps them: they are put back after a reboot, when the functions are made anew,
when the link's speed changes, and when the guest that has the function is
started. The function is named as PF/N, PF vf N, by its PCI address, or by its
interface's name.

  mac ADDRESS       its address; the guest cannot change it then, unless trusted
  vlan 0-4094       0 is none; the guest sees no tag
  qos 0-7           the priority in the tag
  rate MBITS        what it may send, in Mb/s; 0 is no limit
  min-rate MBITS    what it is guaranteed
  spoofchk on|off   drop what it sends from other addresses
  trust on|off      may change its address, may see the port's other packets
  state auto|enable|disable   the link that the guest sees

What the driver does not take is refused before anything is written, with the
reason: rates that an X520 or X710 would refuse or silently change, an
attribute that the driver has no function for. So are an address that another
device of this host has, and what libvirt would overwrite at the guest's next
start. What a function receives cannot be limited by any card.

  mpps sriov set ens1f0/3 mac 52:54:00:12:34:56 vlan 100 rate 500
  mpps sriov set ens1f0 vf 3 trust on spoofchk off
  mpps sriov set 0000:41:10.3 rate 0

Exit codes: 0 all is as asked · 1 refused or failed, and put back · 2 changes
were made, or with --dry-run would be (--detailed-exit-code) · 11 another mpps
is at work.`,
		Args: args(cobra.MinimumNArgs(3)),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := vf.Set(cmd.Context(), a.env(), given, change.Options{DryRun: dryRun})
			return a.answerApply(d, err, detailed)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "read everything, write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit with 2 where changes were made or would be")
	return cmd
}
