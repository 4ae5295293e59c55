package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/fleet"
	"mpps/internal/cli"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/sheet"
	"mpps/internal/words"
)

func (a *app) snapshotCommand() *cobra.Command {
	var output string
	var scrub bool
	var interval time.Duration
	cmd := verb("snapshot -o FILE", "save this host to a file, to audit and plan elsewhere", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			m, err := a.env().Gather(cmd.Context(), ops.Look{Interval: interval})
			if err != nil {
				return err
			}
			defer m.Close()
			h := m.Facts
			if scrub {
				h = facts.Scrub(h)
			}
			if isPage(output) {
				return a.writeSheet(output, sheet.Sheet{Host: h, Warnings: ops.UnseenWarnings(h), Data: h})
			}
			err = a.writeJSON(output, func(w io.Writer) error { return facts.Write(w, h, version) })
			if err != nil {
				return err
			}
			if output != "-" {
				a.out.Step("wrote %s: %s read, %s not seen", output, words.Count(len(h.Readings), "setting"),
					words.Count(len(h.Unseen), "part"))
			}
			return nil
		})
	cli.OutputVar(cmd.Flags(), &output, "output,o", "-", "output file, a page if it ends in .html; - is standard "+
		"output")
	addInterval(cmd.Flags(), &interval)
	cmd.Flags().BoolVar(&scrub, "scrub", false, "replace MAC addresses, serial numbers, UUIDs and names")
	cmd.AddCommand(a.snapshotDiffCommand())
	return cmd
}

// snapshotDiff is the answer of snapshot diff.
type snapshotDiff struct {
	Identical   bool               `json:"identical"`
	Siblings    bool               `json:"siblings"` // of two hosts: names, addresses and guests were left out
	Compared    int                `json:"settings_compared"`
	Differences []facts.Difference `json:"differences"`
}

func (a *app) snapshotDiffCommand() *cobra.Command {
	return verb("diff BEFORE AFTER", "list the differences between two snapshots (exit code 4)", cobra.ExactArgs(2),
		func(_ *cobra.Command, files []string) error {
			before, err := ops.ReadSnapshot(files[0])
			if err != nil {
				return err
			}
			after, err := ops.ReadSnapshot(files[1])
			if err != nil {
				return err
			}
			result, err := diffOf(before, after)
			if err != nil {
				return outcome.Failed(fmt.Errorf("compare %s with %s: %w", files[0], files[1], err), "")
			}
			err = a.out.Answer(report.Answer{
				Verb: "snapshot-diff", Host: after.Name, Result: result,
				Text: func(t *report.Text) {
					report.SnapshotDiff(t, result.Compared, result.Differences, result.Siblings,
						a.verbose)
				},
			})
			return cmp.Or(err, exitIf(!result.Identical, outcome.CodeDrifted))
		})
}

// diffOf compares two snapshots of one host, or two hosts in terms that both share.
func diffOf(before, after *facts.Host) (snapshotDiff, error) {
	d := snapshotDiff{Siblings: before.Name != after.Name, Compared: len(before.Readings)}
	var err error
	if d.Siblings {
		d.Differences, d.Compared, err = fleet.Differences(before, after)
	} else {
		d.Differences = facts.Diff(before, after)
	}
	d.Identical = len(d.Differences) == 0
	return d, err
}

// writeEncoded writes what encode writes to a file.
func (a *app) writeEncoded(name string, encode func(io.Writer) error) error {
	var text bytes.Buffer
	if err := encode(&text); err != nil {
		return err
	}
	return a.writeFile(name, text.Bytes())
}

// writeJSON writes the JSON that encode writes to a file, without characters that steer the terminal it is shown on.
func (a *app) writeJSON(name string, encode func(io.Writer) error) error {
	var text bytes.Buffer
	if err := encode(&text); err != nil {
		return err
	}
	return a.writeFile(name, report.TameJSON(text.Bytes()))
}

// writeFile writes a whole file, or standard output if the name is "-".
func (a *app) writeFile(name string, text []byte) error {
	if name == "-" {
		_, err := a.stdout.Write(text)
		return err
	}
	if err := ops.ReplaceFile(name, text); err != nil {
		return outcome.Failed(fmt.Errorf("write %s: %w", name, err),
			"-o takes a file in a directory that you may write to")
	}
	return nil
}
