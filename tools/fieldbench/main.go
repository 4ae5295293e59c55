// Command fieldbench compares mpps's measurements with other tools' in one run, in which each contestant has one turn
// per round: packet generators on one CPU over a veth pair into the same counting program; the latency of transactions
// over the same pair; and the CPU time of a run as seen by mpps, mpstat and perf.
//
//	fieldbench [-parts generators,rr,cpu] [-rounds 6] [-seconds 1] [-only WORDS] [-mpps bin/mpps] [-tree DIR] [-json]
//
// Packages on Debian 12: netsniff-ng iperf3 dpdk-dev sockperf sysstat linux-perf. netperf and xdp-tools come from
// Debian 13, for example from the lab's root tree (-tree): Debian 12 has no netperf in main, and its xdp-tools do not
// load on newer kernels. A contestant that is missing or fails is listed with the reason.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the options of a comparison.
type options struct {
	rounds   int
	each     time.Duration // measured time of each turn
	tree     string        // root of a newer Debian, "" for none
	only     []string      // words of names, empty for all
	mpps     string
	progress io.Writer
}

// parts are the parts of a comparison, in the order in which they run.
var parts = []part{{"generators", benchGenerators}, {"rr", benchRR}, {"cpu", benchCPU}}

type part struct {
	name string
	run  func(context.Context, *link, options) ([]Part, error)
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fieldbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 6, "rounds, each contestant once in each")
	seconds := flags.Float64("seconds", 1, "counted time of each turn")
	tree := flags.String("tree", "", "root tree of a newer Debian with netperf and xdp-tools "+
		"(default: the lab's, if it was built)")
	only := flags.String("only", "",
		"words: only contestants with one of them in their names, and those to compare with")
	names := flags.String("parts", "generators,rr,cpu", "what to compare")
	mpps := flags.String("mpps", "bin/mpps", "the program")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	wanted := strings.Split(*names, ",")
	for _, w := range wanted {
		known := slices.ContainsFunc(parts, func(p part) bool { return p.name == w })
		if !known {
			fmt.Fprintf(stderr, "fieldbench: error: part %q: expected generators, rr or cpu\n", w)
			return 64
		}
	}
	if *rounds < 1 || *seconds < 0.1 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "fieldbench: error: want at least 1 round, 0.1 seconds and no arguments")
		return 64
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{
		rounds: *rounds, each: time.Duration(*seconds * float64(time.Second)), only: strings.Fields(*only),
		progress: stderr, tree: treeOf(*tree),
	}
	report, err := bench(ctx, wanted, *mpps, o)
	if err == nil {
		if *asJSON {
			e := json.NewEncoder(stdout)
			e.SetIndent("", "  ")
			err = e.Encode(report)
		} else {
			err = report.print(stdout)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "fieldbench: error: %v\n", err)
		return 1
	}
	return 0
}

// treeOf finds the lab's root tree if none was named.
func treeOf(tree string) string {
	if tree != "" {
		return tree
	}
	if found, _ := filepath.Glob("/var/cache/mpps-lab/tree-*/root"); len(found) > 0 {
		return found[len(found)-1]
	}
	return ""
}

func bench(ctx context.Context, wanted []string, mpps string, o options) (*Report, error) {
	var err error
	if o.mpps, err = filepath.Abs(mpps); err != nil {
		return nil, err
	}
	r := &Report{Rounds: o.rounds, Seconds: o.each.Seconds(), Taken: time.Now().UTC().Truncate(time.Second)}
	r.Kernel, r.CPU = machine()
	link, err := newLink()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := link.remove(); err != nil {
			fmt.Fprintf(o.progress, "fieldbench: warning: %v\n", err)
		}
	}()
	for _, p := range parts {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		results, err := p.run(ctx, link, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		r.Parts = append(r.Parts, results...)
	}
	return r, nil
}
