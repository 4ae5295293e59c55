package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/lasting"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/setting"
	"mpps/internal/sriov"
)

// changeFlags are those of every verb that changes what functions there are.
type changeFlags struct {
	confirm          time.Duration
	dryRun, detailed bool
	force            bool
}

func (f *changeFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.confirm, "confirm", confirmByRisk, "undo unless 'mpps confirm' follows within this time, such as 60s (on where the NIC is your way in; 0: never)")
	cmd.Flags().Lookup("confirm").DefValue = "0s"
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "read everything, write nothing")
	cmd.Flags().BoolVar(&f.detailed, "detailed-exit-code", false, "exit with 2 where changes were made or would be")
	cmd.Flags().BoolVar(&f.force, "force", false, "also take functions away that are only reserved, or have an address on the host")
}

func (f *changeFlags) options() (apply.Options, error) {
	if f.confirm != 0 && f.confirm != confirmByRisk && (f.confirm < time.Second || f.confirm > 24*time.Hour) {
		return apply.Options{}, usage(fmt.Errorf("--confirm %v: expected 1s to 24h, or 0 for never", f.confirm), "")
	}
	return apply.Options{DryRun: f.dryRun, Confirm: f.confirm}, nil
}

func (a *app) sriovCreateCommand() *cobra.Command {
	var flags changeFlags
	var ask sriov.CreateAsk
	var persist string
	cmd := &cobra.Command{
		Use:   "create PF -n N",
		Short: "make virtual functions",
		Long: `Gives a NIC N virtual functions, whatever number it has. The kernel takes all
functions away before it makes another number, so this is refused while a
running guest, a process or a device of the host has one, which is named. Then
it waits until all are there and named. They come back at boot before libvirt
starts guests (--persist unit), or when udev meets the card (link).

  mpps sriov create ens1f0 -n 8 --dry-run
  mpps sriov create ens1f0 -n 8 --no-host-driver
  mpps sriov create ens1f0 -n 8 --persist link --blacklist

Exit codes: 0 done · 1 failed, and put back · 2 changes were made, or with
--dry-run would be (--detailed-exit-code) · 11 another mpps is at work.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			ask.PF, ask.Persist, ask.Force = given[0], sriov.Persist(persist), flags.force
			if !slices.Contains([]sriov.Persist{sriov.ByUnit, sriov.ByLink, sriov.ByNoOne}, ask.Persist) {
				return usage(fmt.Errorf("--persist %q: expected unit, link or none", persist), "")
			}
			if !cmd.Flags().Changed("number") {
				return usage(fmt.Errorf("how many virtual functions: expected -n N"), "'mpps sriov destroy' takes all of them away")
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			if ask.Persist == sriov.ByLink {
				if ask.Link, err = a.linkOf(ask.PF); err != nil {
					return err
				}
			}
			return a.carryOut(cmd.Context(), goal.Goal{}, func(h *facts.Host, read func(...setting.Address)) ([]plan.Change, error) {
				read(sriov.CreateReads(h, ask.PF)...)
				changes, notes, err := sriov.Create(h, ask)
				return changes, a.noted(notes, err)
			}, o, flags.detailed)
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVarP(&ask.Count, "number", "n", 0, "how many virtual functions the NIC is to have")
	cmd.Flags().BoolVar(&ask.NoHostDriver, "no-host-driver", false, "drivers of the host do not look for the functions: they are for guests")
	cmd.Flags().BoolVar(&ask.Blacklist, "blacklist", false, "the host does not load the functions' driver by itself any more (modprobe.d)")
	cmd.Flags().BoolVar(&ask.LeaveDown, "leave-down", false, "do not bring the physical function up")
	cmd.Flags().StringVar(&persist, "persist", string(sriov.ByUnit), "what makes them at boot: unit, link or none")
	return cmd
}

func (a *app) sriovDestroyCommand() *cobra.Command {
	var flags changeFlags
	cmd := &cobra.Command{
		Use:   "destroy PF",
		Short: "take all virtual functions away",
		Long: `Takes all virtual functions of a NIC away, and what would make them again at
boot. It is refused while a running guest, a process or a device of the host has
one, which is named.

  mpps sriov destroy ens1f0

Exit codes: 0 done · 1 failed, and put back · 2 changes were made, or with
--dry-run would be (--detailed-exit-code) · 11 another mpps is at work.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			o, err := flags.options()
			if err != nil {
				return err
			}
			return a.carryOut(cmd.Context(), goal.Goal{}, func(h *facts.Host, read func(...setting.Address)) ([]plan.Change, error) {
				read(sriov.CreateReads(h, given[0])...)
				changes, notes, err := sriov.Destroy(h, given[0], flags.force)
				return changes, a.noted(notes, err)
			}, o, flags.detailed)
		},
	}
	flags.add(cmd)
	return cmd
}

// noted has what is to be known beside the changes stand with their outcome.
func (a *app) noted(notes []sriov.Note, err error) error {
	for _, n := range notes {
		a.notes = append(a.notes, outcome.Warning{Code: n.Code, Text: n.Text, Hint: n.Hint})
	}
	return err
}

// attributes are those of the functions of a physical one that mpps keeps: another number of functions resets them.
func attributes(h *facts.Host, pf string) []setting.Address {
	text := h.Readings.At(setting.Of(setting.File, lasting.DesiredFile))
	if text.State != setting.Known {
		return nil
	}
	values, err := lasting.ParseDesired(text.Value)
	if err != nil {
		return nil
	}
	var all []setting.Address
	for _, v := range values {
		if v.Address.Kind == setting.VFAttr && v.Address.Object() == pf {
			all = append(all, v.Address)
		}
	}
	return all
}

// linkOf is what udev does with a device of this host.
func (a *app) linkOf(device string) (sriov.LinkFile, error) {
	m, err := a.env().Open()
	if err != nil {
		return sriov.LinkFile{}, err
	}
	defer m.Close()
	var l sriov.LinkFile
	l.Systemd, l.Path, l.File, l.Text = m.Link(device)
	return l, nil
}
