package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/search"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/facts"
	"mpps/internal/ops/bench"
	"mpps/internal/report"
	draw "mpps/internal/report/bench"
)

// searchFlags are the flags of search.
type searchFlags struct {
	trialFlags
	path       trafficFlags // where our own generator sends
	minPPS     float64
	pdr, width float64
	compliant  bool
	budget     time.Duration
	final      time.Duration
	sizes      []int
	lineRate   float64 // of the link, bit/s; 0: not known
	name       string
	keep       bench.Keep
}

func (a *app) searchCommand() *cobra.Command {
	var f searchFlags
	cmd := verb("search", "find the highest rate without loss (NDR) and within a loss (PDR)", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error { return a.runSearch(cmd.Context(), &f) })
	f.add(cmd)
	return cmd
}

func (f *searchFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.path.add(flags, "cpus")
	f.path.addPackets(flags)
	f.trialFlags.add(flags)
	cli.ValueVar(flags, &f.minPPS, "min-pps", "", "lowest load in packets per second (default: 1/10000 of the highest)",
		parsePositiveRate)
	cli.ValueVar(flags, &f.sizes, "sizes", "", "search at each of these frame sizes in turn, such as 64,512,1518; "+
		"rfc2544 has its seven, 64 to 1518", parseSizes)
	cli.ValueVar(flags, &f.lineRate, "line-rate", "", "speed of the link in bits per second, such as 10G: the highest "+
		"load fills it", parsePositiveRate)
	cli.NumberVar(flags, &f.pdr, "pdr", 0.005, 0.000001, 0.999999, "loss ratio of the PDR")
	cli.NumberVar(flags, &f.width, "width", 0.005, 0.001, 0.5, "target width between the bounds, as a fraction of the "+
		"result")
	flags.BoolVar(&f.compliant, "compliant", false, "prove lower bounds with 60 s trials without loss (RFC 2544)")
	flags.DurationVar(&f.final, "final", 60*time.Second, "with --compliant: duration of a final trial")
	cli.DurationVar(flags, &f.budget, "budget", 0, 1, 0, "limit on traffic time (default: 1m, with --compliant 20m)")
	flags.StringVar(&f.name, "name", "", "label of the result")
	addKeep(flags, &f.keep, "result")
}

// parseSizes reads frame sizes in bytes, with the FCS.
func parseSizes(text string) ([]int, error) {
	if text == "rfc2544" {
		return measure.EthernetSizes(), nil
	}
	var sizes []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || slices.Contains(sizes, n) || len(sizes) == maxSizes {
			return nil, fmt.Errorf(" %q: expected up to %d different sizes in bytes, or rfc2544", text, maxSizes)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// maxSizes is the most frame sizes of one run.
const maxSizes = 16

// options returns the search options that the flags give.
func (f *searchFlags) options() (search.Options, error) {
	o := search.Options{Mode: search.Fast, PDR: f.pdr, Width: f.width, Budget: f.budget, Final: f.final}
	if f.compliant {
		o.Mode = search.Compliant
	}
	size, err := f.path.size()
	if err != nil {
		return o, err
	}
	o.FrameBytes, o.MaxPPS, o.MinPPS = size.bytes, f.highest(size.bytes), f.minPPS
	switch {
	case f.sizes != nil && (f.path.imix || f.path.set.Changed("frame")):
		return o, usage(errors.New("--sizes and --frame or --imix: expected one of them"), "")
	case !f.compliant && f.path.set.Changed("final"):
		return o, usage(errors.New("--final belongs to --compliant"), "")
	case f.budget == 0 && f.compliant:
		o.Budget = max(20*time.Minute, 20*f.final)
	case f.budget == 0:
		o.Budget = time.Minute
	}
	if err := f.check(f.path.set, "cpus", o.MaxPPS); err != nil {
		return o, err
	}
	if o.MinPPS == 0 {
		o.MinPPS = max(1, o.MaxPPS/10000)
		if o.MaxPPS > 0 {
			o.MinPPS = min(o.MinPPS, o.MaxPPS/2)
		}
	}
	check := o
	if check.MaxPPS == 0 {
		check.MaxPPS = 2 * o.MinPPS // measured later
	}
	if err := check.Check(); err != nil {
		return o, usage(err, "")
	}
	// Other generators may have larger frames than ours.
	most := traffic.MaxFrame
	if f.command != "" {
		most = 16 << 10
	}
	for _, size := range append(f.sizes, o.FrameBytes) {
		if size < traffic.MinFrame || size > most {
			return o, usage(fmt.Errorf("frames of %d bytes: expected %d to %d", size, traffic.MinFrame, most),
				"sizes count the FCS, as in RFC 2544")
		}
	}
	return o, nil
}

// highest returns the highest load at a frame size, in packets per second; 0 if it is to be measured.
func (f *searchFlags) highest(frameBytes int) float64 {
	if f.lineRate == 0 {
		return f.maxPPS
	}
	full := f.lineRate / measure.WireBits(1, frameBytes)
	return min(full, cmp.Or(f.maxPPS, full))
}

// load returns the load common to all trials of our own generator.
func (f *searchFlags) load() (measure.Load, error) {
	if f.command != "" {
		return measure.Load{}, nil
	}
	load, err := f.path.load(false)
	load.Duration, load.Repeat = time.Second, 1
	return load, cmp.Or(err, rig.CheckLoad(load))
}

func (a *app) runSearch(ctx context.Context, f *searchFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	load, err := f.load()
	if err != nil {
		return err
	}
	search := bench.Search{Options: o, Name: f.name, Command: f.command, Grace: f.grace, Path: &f.path.Path,
		Load: load, Keep: f.keep}
	if f.sizes != nil {
		return a.runSizes(ctx, &bench.Sizes{Search: search, Frames: f.sizes, LineRate: f.lineRate, Highest: f.highest})
	}
	s, saved, failure := search.Run(ctx, a.env())
	if s == nil {
		return failure
	}
	return joinFailure(failure, a.out.Answer(report.Answer{
		Verb: "search", Host: s.Host, Result: facts.NonNil(s), Warnings: s.Warnings,
		Text: func(t *report.Text) { draw.SearchText(t, s, saved) },
	}))
}

func (a *app) runSizes(ctx context.Context, sizes *bench.Sizes) error {
	s, saved, failure := sizes.Run(ctx, a.env())
	if s == nil {
		return failure
	}
	return joinFailure(failure, a.out.Answer(report.Answer{
		Verb: "search-sizes", Host: s.Searches[0].Host, Result: facts.NonNil(s), Warnings: s.Warnings,
		Text: func(t *report.Text) { draw.SizesText(t, s, saved) },
	}))
}
