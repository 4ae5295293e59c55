package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/model/domain"
	"mpps/internal/model/goal"
	"mpps/internal/ops/definition"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) domainCommand() *cobra.Command {
	return verbs("domain", "show, tune or write a guest's libvirt definition",
		slices.Concat(withManner(onlyReads, a.domainShowCommand(), a.domainRenderCommand()),
			withManner(sequential, a.domainTuneCommand()))...)
}

// domainFlags are the flags for values of a definition.
type domainFlags struct {
	definition.Request
	values map[string]*onceFlag // by the flag's name
}

func (f *domainFlags) add(cmd *cobra.Command) {
	f.values = map[string]*onceFlag{}
	flags := cmd.Flags()
	for _, n := range definition.Names() {
		f.values[n.Name] = &onceFlag{}
		flags.Var(f.values[n.Name], n.Name, n.Usage)
	}
	flags.StringSliceVar(&f.NICs, "nic", nil, "MAC address or index of the NICs to change (default: all that support "+
		"the setting)")
	flags.StringArrayVar(&f.Sets, "set", nil, "set any other value: PATH=VALUE ('mpps domain show -v' lists paths); "+
		"repeatable")
	flags.StringArrayVar(&f.Unsets, "unset", nil, "remove the value at PATH; repeatable")
}

// request returns the changes that the flags ask for.
func (f *domainFlags) request() *definition.Request {
	f.Values = map[string]string{}
	for name, value := range f.values {
		f.Values[name] = value.text
	}
	return &f.Request
}

// onceFlag is a flag that may be given only once: of two values neither is clearly meant.
type onceFlag struct {
	text  string
	given bool
}

func (o *onceFlag) String() string { return o.text }
func (*onceFlag) Type() string     { return "string" }

func (o *onceFlag) Set(text string) error {
	if o.given && o.text != text {
		return fmt.Errorf("given before as %s, expected one value", quote(o.text))
	}
	o.text, o.given = text, true
	return nil
}

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

func (a *app) domainShowCommand() *cobra.Command {
	return verb("show NAME|FILE", "show a definition's CPUs, memory, NICs and devices", cobra.ExactArgs(1),
		func(cmd *cobra.Command, given []string) error {
			shown, err := definition.Show(cmd.Context(), a.env(), given[0], a.stdin)
			if err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "domain-show", Host: shown.Host, Result: shown, Warnings: shown.Warnings,
				Text: func(t *report.Text) {
					report.Domain(t, shown.State, shown.Guest, shown.Pending)
					if a.verbose {
						report.DomainValues(t, shown.Values)
					}
				},
			})
		})
}

func (a *app) domainRenderCommand() *cobra.Command {
	var g definition.Description
	var nics []string
	var output string
	cmd := verb("render [FILE]", "write a complete, tuned definition from a short description", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) error {
			described := &g
			if len(given) > 0 {
				if name := describingFlag(cmd); name != "" {
					return usage(fmt.Errorf("%s is a file of a description, and --%s is given too: expected one of "+
						"them", given[0], name), "--name names the guest; a file has the whole description")
				}
				var err error
				if described, err = definition.Read(given[0], a.stdin); err != nil {
					return err
				}
			} else if err := g.AddNICs(nics); err != nil {
				return err
			}
			d, err := described.Render()
			switch {
			case err == nil:
			case len(given) == 0:
				return usage(withFlag(cmd, err), outcome.HintOf(err, ""))
			default:
				return outcome.Failed(fmt.Errorf("%s: %w", given[0], err), outcome.HintOf(err, ""))
			}
			return a.writeRendered(d, output)
		})
	f := cmd.Flags()
	f.StringVar(&g.Name, "name", "", "name of the guest")
	f.StringVar(&g.UUID, "uuid", "", "UUID of the guest (default: libvirt generates one)")
	cli.IntVar(f, &g.VCPUs, "vcpus", 1, 1, 1<<16, "number of vCPUs")
	f.StringVar(&g.Memory, "memory", "", "memory size, such as 8GiB")
	f.StringArrayVar(&nics, "nic", nil, "NIC, such as br0 or vf=0000:01:10.0,vlan=7; repeatable")
	f.StringArrayVar(&g.Disks, "disk", nil, "disk: a file or a block device; repeatable")
	f.StringArrayVar(&g.HostDevs, "hostdev", nil, "PCI device to pass through, such as 0000:02:00.0; repeatable")
	cli.TextVar(f, &g.Node, "node", "", "host NUMA nodes of the memory; several give the guest one cell each",
		parseCPUs)
	cli.TextVar(f, &g.CPUs, "cpus", "", "host CPUs, one per vCPU, such as 2-5", parseCPUs)
	cli.TextVar(f, &g.Emulator, "emulator-cpus", "", "host CPUs of the emulator threads", parseCPUs)
	f.StringVar(&g.HugePages, "hugepages", "", "huge page size: 1G, 2M, or on (the host's default)")
	f.StringVar(&g.Machine, "machine", "", "machine type (default: q35)")
	f.BoolVar(&g.UEFI, "uefi", false, "boot with UEFI instead of BIOS")
	f.BoolVar(&g.Realtime, "realtime", false, "tune for a realtime guest")
	f.BoolVar(&g.Windows, "windows", false, "tune for a Windows guest")
	cli.OutputVar(f, &output, "output,o", "", "write the definition to this file; - is standard output")
	return cmd
}

// withFlag names the flag in an error about a description that flags gave.
func withFlag(cmd *cobra.Command, err error) error {
	var bad *domain.DescriptionError
	if !errors.As(err, &bad) {
		return err
	}
	name := strings.ReplaceAll(bad.What, "_", "-")
	if cmd.Flags().Lookup(name) == nil {
		return err
	}
	return fmt.Errorf("--%s: %s", name, bad.Problem)
}

// describingFlag returns a flag on the command line that describes the guest; empty if there is none.
func describingFlag(cmd *cobra.Command) (name string) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "output" {
			name = f.Name
		}
	})
	return name
}

func (a *app) writeRendered(d *domain.Doc, output string) error {
	text := d.Bytes()
	rendered := definition.RenderResult{Name: d.Guest().Name, Guest: d.Guest()}
	switch {
	case output != "" && output != "-":
		if err := a.writeFile(output, text); err != nil {
			return err
		}
		rendered.Written = output
	case !a.json || output == "-":
		return a.writeFile("-", text)
	default:
		rendered.XML = string(text)
	}
	return a.out.Answer(report.Answer{
		Verb: "domain-render", Result: rendered,
		Text: func(t *report.Text) {
			report.Domain(t, "", rendered.Guest, nil)
			t.Line("wrote %s", output)
		},
	})
}

func (a *app) domainTuneCommand() *cobra.Command {
	var flags domainFlags
	var goals domainGoal
	var output string
	var ask definition.TuneOptions
	var detailed bool
	cmd := verb("tune NAME|FILE", "edit a guest's XML; change only what you name", cobra.ExactArgs(1),
		func(cmd *cobra.Command, given []string) (err error) {
			if ask.Apply && output != "" {
				return usage(errors.New("--apply and -o: expected one of them"),
					"--apply changes the guest, -o writes a file")
			}
			if ask.DryRun && output != "" {
				return usage(errors.New("--dry-run and -o: expected one of them"), "--dry-run writes nothing")
			}
			a.reads.Store(!ask.Apply)
			ask.Word, ask.Stdin, ask.Asked = given[0], a.stdin, flags.request()
			if ask.Goal, err = goals.goal(); err != nil {
				return err
			}
			tuned, done, err := definition.Tune(cmd.Context(), a.env(), ask)
			if err != nil || done != nil {
				return a.answerApply(done, err, detailed)
			}
			if err := a.writeTuned(tuned, output, ask.DryRun); err != nil {
				return err
			}
			return exitIf(detailed && tuned.Changed(), outcome.CodeChanges)
		})
	flags.add(cmd)
	goals.add(cmd)
	cmd.Flags().StringVar(&ask.Snapshot, "snapshot", "", "check against the host of this 'mpps snapshot' file")
	cli.OutputVar(cmd.Flags(), &output, "output,o", "", "write the definition to this file; - is standard output")
	cmd.Flags().BoolVar(&ask.Apply, "apply", false, "change the guest on this host")
	cmd.Flags().BoolVar(&ask.Config, "config", false, "with --apply: change only the definition, not the running guest")
	cmd.Flags().BoolVar(&ask.DryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	return cmd
}

// writeTuned writes the definition unless dryRun, and prints the changes.
func (a *app) writeTuned(tuned *definition.TuneResult, output string, dryRun bool) (err error) {
	switch toFile := output != "" && output != "-"; {
	case dryRun:
	case toFile:
		err, tuned.Written = a.writeFile(output, tuned.Text), output
	case !a.json || output == "-":
		for _, n := range tuned.Warnings {
			a.out.Step("%s", n.Text)
		}
		return a.writeFile("-", tuned.Text)
	default:
		tuned.XML = string(tuned.Text)
	}
	if err != nil {
		return err
	}
	return a.out.Answer(report.Answer{
		Verb: "domain-tune", Host: tuned.Host, Result: tuned, Warnings: tuned.Warnings,
		Text: func(t *report.Text) {
			report.DomainEdits(t, tuned.Changes, a.verbose)
			if tuned.Written != "" {
				t.Line("wrote %s", output)
			}
		},
	})
}
