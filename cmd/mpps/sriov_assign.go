package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/lasting"
	"mpps/internal/plan"
	"mpps/internal/report"
	"mpps/internal/setting"
	"mpps/internal/sriov"
)

func (a *app) sriovAssignCommand() *cobra.Command {
	var w sriov.Wish
	var o againOptions
	var state string
	attributes := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "assign GUEST",
		Short: "give a guest a virtual function",
		Long: `Gives a guest a virtual function: takes one that nobody has, by default on the
guest's node, reserves it, sets back what stood on it, sets what is asked for,
and puts it into the guest's definition (--live: into the running guest too).

  --as interface  <interface type='hostdev'>: libvirt sets MAC and VLAN at start
  --as hostdev    <hostdev>: libvirt sets nothing, mpps sets MAC and VLAN
  --as network    <interface type='network'>: one of a pool, at each start

Refused, with the reason: a guest that is unknown, transient or on its way to
another host, a card without free functions, one that shares its IOMMU group,
a MAC address in use, a 33rd function, what the driver does not take, the guest
that is one more than a pool has functions, and a guest whose memory, all of
which is pinned when it starts with a function, does not fit its nodes. Two
assigns at once never take the same function: the later one looks anew.

  mpps sriov assign vm1 --pf ens1f0 --vlan 100 --rate 500
  mpps sriov assign vm1 --vf 0000:41:10.3 --as hostdev --mac 52:54:00:12:34:56
  mpps sriov assign vm1 --pf ens1f0 --as network --network fast --dry-run

Exit codes: 0 it has it · 1 refused, or failed and put back · 2 changes were
made, or with --dry-run would be (--detailed-exit-code) · 11 another mpps was at
work for longer than --wait.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			w.Guest = given[0]
			if !slices.Contains([]string{facts.ByInterface, facts.ByHostdev, facts.ByNetwork}, w.Form) {
				return usage(fmt.Errorf("--as: expected interface, hostdev or network, found %q", w.Form), "")
			}
			if w.Network != "" && w.Form != facts.ByNetwork {
				return usage(errors.New("--network goes with --as network"), "")
			}
			var words []string
			for _, name := range []string{"vlan", "qos", "rate", "min-rate", "spoofchk", "trust", "state"} {
				if *attributes[name] != "" {
					words = append(words, name, *attributes[name])
				}
			}
			if len(words) > 0 {
				var err error
				if w.Sets, err = sriov.ParseSets(words); err != nil {
					return usage(err, "")
				}
			}
			return a.assign(cmd.Context(), w, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.PF, "pf", "", "the card (default: one with a free function, on the guest's node)")
	flags.StringVar(&w.VF, "vf", "", "the function: its number, PF/N, or PCI address (default: a free one)")
	flags.StringVar(&w.Form, "as", facts.ByInterface, "interface, hostdev or network")
	flags.StringVar(&w.Network, "network", "", "the pool, made if it is not there (default: that of the card)")
	flags.StringVar(&w.MAC, "mac", "", "address of the guest's NIC (default: made up, the same again for this guest)")
	for name, what := range map[string]string{
		"vlan": "VLAN, 0 is none", "qos": "priority in the VLAN's tag, 0 to 7", "rate": "what it may send, in Mb/s; 0 is no limit",
		"min-rate": "what it is guaranteed, in Mb/s", "spoofchk": "drop what it sends from other addresses: on or off",
		"trust": "may change its address: on or off",
	} {
		attributes[name] = flags.String(name, "", what)
	}
	attributes["state"] = &state
	flags.StringVar(&state, "state", "", "the link that the guest sees: auto, enable or disable")
	flags.BoolVar(&w.Live, "live", false, "plug it into the running guest too")
	flags.BoolVar(&w.Bridge, "inside-bridge", false, "the guest is to bridge others' packets through it")
	flags.BoolVar(&w.Force, "force", false, "go on where the reason against it can be wrong (free memory, a driver)")
	o.flags(cmd)
	return cmd
}

// assigned is the answer of assign.
type assigned struct {
	sriov.Gift
	Transaction apply.Result `json:"transaction"`
}

func (a *app) assign(ctx context.Context, w sriov.Wish, o againOptions) error {
	var gift *sriov.Gift
	p, result, err := a.again(ctx, o, func(h *facts.Host, read func(...setting.Address)) ([]plan.Change, error) {
		var err error
		if gift, err = sriov.Choose(h, w); err != nil {
			return nil, err
		}
		read(gift.Addresses()...)
		kept, err := keptNow(h, forAll)
		if err != nil {
			return nil, err
		}
		return gift.Changes(h, func(at setting.Address) bool { return kept[at] })
	})
	var failure *apply.Failure
	if err != nil && !(errors.As(err, &failure) && a.json) {
		return err
	}
	answer := report.Answer{
		Verb: "sriov-assign", Host: p.Host, Result: assigned{*gift, result}, Warnings: append(notes(gift.Notes), afterwards(p, result)...),
		Text: func(t *report.Text) { report.Assigned(t, gift, result, o.dryRun, a.verbose) },
	}
	if err := errors.Join(err, a.out.Answer(answer)); err != nil {
		return err
	}
	return wrote(result, o.dryRun, o.detailed)
}

// notes are those of a verb as warnings of its answer.
func notes(all []sriov.Note) []report.Warning {
	var warnings []report.Warning
	for _, n := range all {
		warnings = append(warnings, report.Warning{Code: n.Code, Text: n.Text, Hint: n.Hint})
	}
	return warnings
}

// againOptions are the flags of verbs that look anew where somebody came in between.
type againOptions struct {
	dryRun, detailed bool
	wait             time.Duration
}

func (o *againOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "read everything, write nothing")
	cmd.Flags().BoolVar(&o.detailed, "detailed-exit-code", false, "exit with 2 where changes were made or would be")
	cmd.Flags().DurationVar(&o.wait, "wait", time.Minute, "how long to wait for another mpps that is at work")
}

// again carries a wish out, and looks at the host anew where somebody came in between.
func (a *app) again(ctx context.Context, o againOptions, wish sriovWish) (p *plan.Plan, result apply.Result, err error) {
	err = untilAlone(ctx, o.wait, func(who string, try int) { a.out.Progress("%s: looking anew, for the %d. time", who, try) }, func() error {
		p, result, err = a.once(ctx, o, wish)
		return err
	})
	return p, result, err
}

// untilAlone does something again where another mpps is at work, or has changed something since the host was looked at, until
// the time is over, or a plan is stale for the same reason as the last ones: that is nobody's work, and stays.
func untilAlone(ctx context.Context, wait time.Duration, progress func(who string, try int), once func() error) error {
	var last []plan.Difference
	same := 0
	for began, try := time.Now(), 1; ; try++ {
		err := once()
		var stale *plan.Stale
		var locked *journal.Locked
		who := "another mpps is at work"
		switch {
		case errors.As(err, &locked):
		case errors.As(err, &stale):
			who = "another mpps was at work in between"
			if same++; !slices.Equal(stale.Changed, last) {
				last, same = stale.Changed, 1
			}
		default:
			return err
		}
		if time.Since(began) > wait || same >= 3 {
			return err
		}
		progress(who, try)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20*time.Millisecond + rand.N(200*time.Millisecond)): // not in step with the others
		}
	}
}

// once looks at the host, and carries out what the wish comes to.
func (a *app) once(ctx context.Context, o againOptions, wish sriovWish) (*plan.Plan, apply.Result, error) {
	m, err := host.Open(a.root)
	if err != nil {
		return nil, apply.Result{}, failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	defer m.Close()
	newest, err := a.newest()
	if err != nil {
		return nil, apply.Result{}, err
	}
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
		return nil, apply.Result{}, err
	}
	g := goal.Goal{Consent: []goal.Risk{goal.Security}} // asked for by name
	p := plan.Of(h, g, changes)
	if err := lasting.Add(p, h); err != nil {
		return p, apply.Result{}, err
	}
	result, err := a.transact(ctx, p, &machine{facts: h, mechanisms: mechanisms}, apply.Options{DryRun: o.dryRun, Newest: &newest})
	return p, result, err
}

// newest is the last transaction in the journal; empty where there is none.
func (a *app) newest() (string, error) {
	j, err := journal.Open(a.root)
	if err != nil {
		return "", err
	}
	defer j.Close()
	ledger, err := j.Ledger()
	if err != nil {
		return "", err
	}
	return ledger.Newest(), nil
}

// keptNow are the values that are put back, those that count.
func keptNow(h *facts.Host, counts func(lasting.Value) bool) (map[setting.Address]bool, error) {
	kept := map[setting.Address]bool{}
	found := h.Readings.At(setting.Of(setting.File, lasting.DesiredFile))
	if found.State != setting.Known {
		return kept, nil
	}
	values, err := lasting.ParseDesired(found.Value)
	for _, v := range values {
		kept[v.Address] = counts(v)
	}
	return kept, err
}

// forAll tells whether a value is put back whoever has what it belongs to: it was not set for one guest.
func forAll(v lasting.Value) bool { return v.For == "" }
