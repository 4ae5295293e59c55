package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/report"
)

// formatAllowed is the annotation of --format that lists a command's formats.
const formatAllowed = "mpps-forms"

// formatFlag adds --format: the command's own formats, of which the first is the default, and those of other programs.
func formatFlag(cmd *cobra.Command, own ...string) {
	allowed := slices.Concat(own, export.Formats())
	cmd.Flags().String("format", own[0], "output format: "+strings.Join(allowed[:len(allowed)-1], ", ")+" or "+
		allowed[len(allowed)-1])
	cmd.Flags().Lookup("format").Annotations = map[string][]string{formatAllowed: allowed}
}

// chooseFormat sets the format of a command's answer from --format and --json.
func (a *app) chooseFormat(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("format")
	if flag == nil || flag.Annotations[formatAllowed] == nil {
		return nil
	}
	a.format = flag.Value.String()
	switch allowed := flag.Annotations[formatAllowed]; {
	case !slices.Contains(allowed, a.format):
		return usage(fmt.Errorf("--format %q: expected %s", a.format, strings.Join(allowed, ", ")), "")
	case a.json && flag.Changed && a.format != "json":
		return usage(fmt.Errorf("--json and --format %s: expected one of them", a.format), "--json is --format json")
	case a.json:
		a.format = "json"
	}
	a.json = a.format == "json"
	return nil
}

// foreign reports whether the answer is printed in another program's format.
func (a *app) foreign() bool { return export.Named(a.format) }

// checkFormat refuses a format that has no place for what is about to be measured.
func (a *app) checkFormat(kind measure.Kind, load measure.Load) error {
	if !a.foreign() {
		return nil
	}
	return formatError(export.Format(a.format).Fits(kind, load.Latency || kind.Unit() == measure.RR.Unit()))
}

func formatError(err error) error {
	if !errors.Is(err, export.ErrNoPlace) {
		return err
	}
	hint := "--format json and csv hold every run"
	if errors.Is(err, export.ErrNoLatency) {
		hint = "transactions have latency, and packets with --latency or --rate where both ends read one clock"
	}
	return usage(err, hint)
}

// answer prints an answer, or in another program's format the runs that it is about.
func (a *app) answer(ans report.Answer, runs func(*export.Set)) error {
	return a.answerOn(a.out, ans, runs)
}

func (a *app) answerOn(out *report.Printer, ans report.Answer, runs func(*export.Set)) error {
	if !a.foreign() {
		return out.Answer(ans)
	}
	set := &export.Set{Version: version}
	runs(set)
	var text bytes.Buffer
	if err := export.Write(&text, export.Format(a.format), set); err != nil {
		return formatError(err)
	}
	return out.Raw(text.Bytes(), ans.Warnings)
}
