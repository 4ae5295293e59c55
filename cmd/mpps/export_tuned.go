package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/audit"
	"mpps/internal/knob"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/setting"
	"mpps/internal/tuned/export"
)

func (a *app) exportTunedCommand() *cobra.Command {
	var flags goalFlags
	var snapshot, name, output string
	cmd := &cobra.Command{
		Use:   "tuned",
		Short: "a TuneD profile that extends TuneD's own for the goal",
		Long: `Makes a profile of TuneD of what a goal needs on this host. It includes
realtime-virtual-host for a latency, virtual-host for packets and
network-throughput for bulk data, gives the variables that these ask for, and
says only what they do not. What TuneD cannot hold (guests' pins, swap,
interrupts of one queue) is listed in the profile and in the answer, each with
the command that sets it. Nothing but the directory is written: 'tuned-adm
profile NAME' puts it in force, and kernel arguments need a reboot.

  mpps export tuned --latency 20us --cpus 2-3 --guest rt1
  mpps export tuned --latency 20us --cpus 2-3 -o /etc/tuned/profiles
  mpps export tuned --pps 1.8M --name fast --snapshot host.json -o profiles

TuneD up to 2.23 looks for profiles in /etc/tuned, later ones in
/etc/tuned/profiles.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := flags.goal()
			if err != nil {
				return err
			}
			if name == "" {
				name = "mpps-" + string(g.Tier())
				if g.Guest != "" && export.CheckName("mpps-"+g.Guest) == nil {
					name = "mpps-" + g.Guest
				}
			}
			if err := export.CheckName(name); err != nil {
				return usage(err, "--name takes another")
			}
			m, err := a.env().Gather(cmd.Context(), ops.Look{Snapshot: snapshot, Guest: g.Guest})
			if err != nil {
				return err
			}
			defer m.Close()
			if err := m.Has(g); err != nil {
				return err
			}
			request := export.Request{
				Name: name, Flags: flags.words(), Version: version, Host: m.Facts, Report: audit.RunWith(m.Facts, g, knob.Catalogue(), m.Site.Adjust),
			}
			if request.Flags == "" {
				request.Flags = "--pps 1.8M" // the goal where none is named
			}
			done, err := a.tunedHere(&request, snapshot)
			if err != nil {
				return err
			}
			defer done()
			p, err := export.Make(request)
			if errors.Is(err, export.ErrNoCPUs) {
				return outcome.Failed(err, "name them with --cpus, or the guest with --guest")
			}
			if err != nil {
				return err
			}
			if output != "" {
				if p.Written, err = writeProfile(filepath.Join(output, name), p.Files); err != nil {
					return outcome.Failed(fmt.Errorf("profile %s: %w", name, err), "-o takes a directory that you may write to, such as /etc/tuned/profiles")
				}
			}
			return a.out.Answer(report.Answer{
				Verb: "export-tuned", Host: m.Facts.Name, Result: p, Warnings: append(ops.Caveats(m.Facts, g), exportCaveats(p)...),
				Text: func(t *report.Text) { report.TunedExport(t, p, a.verbose) },
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	cmd.Flags().StringVar(&name, "name", "", "of the profile (default mpps- and the guest's name, or the tier)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the directory below which the profile's directory is made")
	return cmd
}

// tunedHere adds what the profiles of this machine's TuneD are read from, of a snapshot only its CPUs, and gives back what is to be
// closed behind it.
func (a *app) tunedHere(r *export.Request, snapshot string) (done func() error, err error) {
	r.Machine.Online = r.Host.Topology.Online
	for _, c := range r.Host.Topology.CPUs {
		r.Machine.Present = append(r.Machine.Present, c.ID)
	}
	if snapshot != "" {
		return func() error { return nil }, nil
	}
	m, err := a.env().Open()
	if err != nil {
		return nil, err
	}
	r.Files, r.Machine = m.TunedFiles()
	return m.Close, nil
}

// writtenBy stands in each file of a profile that mpps has made.
const writtenBy = "# Written by mpps"

// writeProfile writes a profile's directory. One that somebody else has made is left alone.
func writeProfile(folder string, files []export.File) (string, error) {
	if text, err := os.ReadFile(filepath.Join(folder, "tuned.conf")); err == nil && !strings.HasPrefix(string(text), writtenBy) {
		return "", errors.New(folder + " is there and was not written by mpps")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", ops.Cause(err)
	}
	for _, f := range slices.Backward(files) { // what is included comes first
		if err := ops.ReplaceFile(filepath.Join(folder, f.Name), []byte(f.Text)); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// exportCaveats are what must be known before the profile is put in force.
func exportCaveats(p *export.Profile) []outcome.Warning {
	var all []outcome.Warning
	if p.Assumed {
		all = append(all, outcome.Warning{
			Code: "tuned-not-seen", Text: "the profile " + p.Base + " of TuneD was not there to be read: what its versions 2.20 to 2.25 have in common was counted on",
			Hint: "make the profile on the host where it is to be used, with TuneD installed",
		})
	}
	if slices.ContainsFunc(p.Held, func(h export.Held) bool { return h.Address.Kind == setting.NICCoalesce }) {
		all = append(all, outcome.Warning{
			Code: "tuned-coalesce", Text: "TuneD 2.25, for one, sets no coalescing at all where 'ethtool -c' prints parameters that it does not know, such as tx-aggr-max-bytes",
			Hint: "'unknown coalesce parameter' in /var/log/tuned/tuned.log says so; then 'mpps plan' still has these values, and 'mpps apply' sets them and makes them last",
		})
	}
	if len(p.Twice) > 0 {
		all = append(all, outcome.Warning{
			Code: "twice-at-boot", Text: "the boot loader's own files give these kernel arguments already, and the kernel would get them twice: " + strings.Join(p.Twice, ", "),
			Hint: "'mpps rollback' takes out those that mpps has written; others are taken out of /etc/default/grub or by grubby",
		})
	}
	return all
}
