package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"mpps/internal/domain"
	"mpps/internal/ops/definition"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// domainTuned is the answer of mpps domain tune to a file.
type domainTuned struct {
	Source  string        `json:"source"`            // "guest vm1", or the file
	Changes []domain.Edit `json:"changes"`           // in the order in which they were made; from and to are equal where it was so already
	Written string        `json:"written,omitempty"` // the file that was written
	XML     string        `json:"xml,omitempty"`     // the definition, where it was written to no file
}

func (a *app) domainTuneCommand() *cobra.Command {
	var flags domainFlags
	var goals domainGoal
	var output string
	var apply, config, dryRun, detailed bool
	cmd := &cobra.Command{
		Use:   "tune NAME|FILE",
		Short: "change values of a definition in place, and nothing else",
		Long: `Changes the values that the flags name and no other byte. The definition is
written to standard output, or to the file behind -o; with --apply that of a
guest is changed on this host like everything else: journaled, read back, undone
by 'mpps rollback'. Pins move a running guest's threads at once, unless --config
is given; everything else it has after its next start.

Flags of NICs mean every NIC that can have the value, or those of --nic. What
libvirt or QEMU would refuse, ignore or cut down is refused with the reason, and
so is what the host's versions cannot do, and CPUs and nodes that it lacks (this
host, or that of --snapshot).

With --pps, --bulk or --latency the catalogue decides what is good for the host,
and flags that name a value go before it.

  mpps domain tune vm1.xml --queues 4 --rx-queue-size 1024 -o tuned.xml
  mpps domain tune vm1 --vcpupin 2-5 --emulatorpin 0-1 --apply
  mpps domain tune vm1.xml --pps 1.8M --snapshot host.json -o tuned.xml

Exit codes: 0 done · 1 refused, nothing was written · 2 changes were made or
would be (--detailed-exit-code) · 64 a flag is wrong, or two contradict.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if apply && output != "" {
				return usage(errors.New("--apply and -o: expected one of them"), "--apply changes the guest, -o writes a file")
			}
			if dryRun && output != "" {
				return usage(errors.New("--dry-run and -o: expected one of them"), "--dry-run writes nothing")
			}
			goal, err := goals.goal()
			if err != nil {
				return err
			}
			d, err := definition.Of(cmd.Context(), a.env(), given[0], a.stdin)
			if err != nil {
				return err
			}
			if apply && d.Guest == nil {
				return usage(fmt.Errorf("--apply: %s is not a guest of this host", d.Name), "-o FILE writes the tuned definition; 'virsh define FILE' takes it")
			}
			if config && !apply {
				return usage(errors.New("--config: expected --apply beside it"), "without --apply no guest is touched")
			}
			if apply && goals.snapshot != "" {
				return usage(errors.New("--apply and --snapshot: expected one of them"), "a snapshot is of another host")
			}
			wishes, err := flags.asked().Wishes(d.Doc)
			if err != nil {
				return err
			}
			advice := d.Unadvised()
			if goal != nil || goals.snapshot != "" {
				if advice, err = definition.Advise(cmd.Context(), a.env(), d, goals.snapshot, goal); err != nil {
					return err
				}
				wishes = advice.Override(d.Doc, wishes, flags.NICs)
			}
			edits, err := d.Doc.Carry(wishes, flags.NICs, advice.On)
			if err != nil {
				return refusal(d, err)
			}
			if apply {
				done, err := definition.Apply(cmd.Context(), a.env(), d, edits, !config, dryRun)
				return a.applied(done, err, detailed)
			}
			if err := a.writeTuned(d, edits, output, dryRun, advice.Notes); err != nil {
				return err
			}
			if detailed && slices.ContainsFunc(edits, definition.Changed) {
				return outcome.Exit(outcome.CodeChanges)
			}
			return nil
		},
	}
	flags.add(cmd)
	goals.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the definition to this file; - is standard output")
	cmd.Flags().BoolVar(&apply, "apply", false, "change the guest's definition on this host")
	cmd.Flags().BoolVar(&config, "config", false, "with --apply: the definition alone, whatever the guest runs with")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be changed, write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit with 2 where changes were made or would be")
	return cmd
}

// refusal is the error of a wish that the document or the host refuses; two wishes that contradict are the user's.
func refusal(d *definition.Definition, err error) error {
	var conflict *domain.ConflictError
	if errors.As(err, &conflict) {
		return usage(err, conflict.Hint())
	}
	return outcome.Failed(fmt.Errorf("%s: %w", d.Name, err), outcome.HintOf(err, ""))
}

// writeTuned writes the definition where it is wanted, and says what was changed.
func (a *app) writeTuned(d *definition.Definition, edits []domain.Edit, output string, dryRun bool, notes []outcome.Warning) error {
	text := d.Doc.Bytes()
	tuned := domainTuned{Source: d.Name, Changes: edits}
	toFile := output != "" && output != "-"
	switch {
	case dryRun:
	case toFile:
		if err := a.writeFile(output, text); err != nil {
			return err
		}
		tuned.Written = output
	case !a.json || output == "-":
		for _, n := range notes {
			a.out.Step("%s", n.Text)
		}
		return a.writeFile("-", text)
	default:
		tuned.XML = string(text)
	}
	return a.out.Answer(report.Answer{
		Verb: "domain-tune", Host: d.HostName(), Result: tuned, Warnings: notes,
		Text: func(t *report.Text) {
			report.DomainEdits(t, edits, a.verbose)
			if toFile {
				t.Line("wrote %s", output)
			}
		},
	})
}
