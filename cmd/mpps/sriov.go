package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/lasting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

func (a *app) sriovCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sriov",
		Short: "virtual functions: make, set, give to guests, take back",
		Long: `Carries virtual functions of a NIC (SR-IOV) through their life: checks whether
firmware and kernel are ready, makes them so that they come back at boot before
the guests start, sets what each may do, gives them to guests and takes them
back. Every change is a transaction like that of 'mpps apply': journaled, read
back, undone by 'mpps rollback'.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand( // in the order of a function's life
		a.sriovCheckCommand(), a.sriovListCommand(),
		a.sriovCreateCommand(),
		a.sriovDestroyCommand(),
		a.sriovSetCommand(),
		a.sriovAssignCommand(),
		a.sriovReleaseCommand(),
		a.sriovResetCommand(),
		a.sriovRecoverCommand(),
		a.sriovGuestCommand(),
		a.sriovMigratePlanCommand(),
	)
	return cmd
}

// sriovWish works out, on a host whose readings hold the addresses of lasting, the changes that a verb comes to. read adds
// readings to the host.
type sriovWish func(h *facts.Host, read func(...setting.Address)) ([]plan.Change, error)

// carryOut makes the changes of a verb on this host, with what makes them last, as a plan like any other.
func (a *app) carryOut(ctx context.Context, g goal.Goal, wish sriovWish, o apply.Options, detailed bool) error {
	return a.carryOutAnd(ctx, g, wish, o, detailed, nil)
}

// carryOutAnd is carryOut with an act behind the changes that is no value: what became of it stands in the answer.
func (a *app) carryOutAnd(ctx context.Context, g goal.Goal, wish sriovWish, o apply.Options, detailed bool, act func(context.Context, *host.Machine) ([]outcome.Warning, error)) error {
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	defer m.Close()
	m.Progress = a.out.Progress
	m.LookInside(host.NoGuest)
	h := m.Inventory(ctx)
	mechanisms := m.Mechanisms()
	read := func(addresses ...setting.Address) { host.Read(ctx, mechanisms, h, addresses) }
	read(lasting.Addresses()...)
	changes, err := wish(h, read)
	if err == nil {
		err = unread(changes)
	}
	if err != nil {
		return err
	}
	p := plan.Of(h, g, changes)
	if err := lasting.Add(p, h); err != nil {
		return err
	}
	if o.Confirm == confirmByRisk {
		o.Confirm = 0
		if risks(p, goal.Connectivity) {
			o.Confirm = defaultConfirm
		}
	}
	if o.Confirm > 0 && o.Arm == nil {
		o.Arm = a.guard(ctx, o.Confirm)
	}
	o.Beside = append(o.Beside, besides(p, h)...)
	for _, c := range p.Changes {
		if c.Address.Kind == setting.VFCount {
			o.Beside = append(o.Beside, attributes(h, c.Address.Path)...)
		}
	}
	in := &ops.Host{Facts: h, Mechanisms: mechanisms}
	if act != nil {
		a.act = func(ctx context.Context) ([]outcome.Warning, error) { return act(ctx, m) }
	}
	return a.apply(ctx, p, in, o, detailed)
}

// unread refuses changes of values that cannot be read: what stood there could not be put back.
func unread(changes []plan.Change) error {
	for _, c := range changes {
		if c.From.State == setting.Unknown {
			return outcome.Failed(fmt.Errorf("%s cannot be read: %s", c.Address, cmp.Or(c.From.Why, "no reason is known")),
				"what cannot be read could not be put back; a recorded tree (--root) holds neither attributes of functions nor what programs are attached")
		}
	}
	return nil
}

// confirmByRisk asks for a confirmation where a change can cut the path that the operator came by.
const confirmByRisk = -1
