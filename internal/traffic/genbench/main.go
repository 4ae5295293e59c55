// Command genbench compares packet generators: all of them on one CPU, over the
// same veth pair, into the same XDP program that counts and drops, in turn, for
// several rounds. What is counted is what arrives.
//
//	genbench [-rounds 5] [-seconds 1] [-only WORDS] [-tree DIR] [-json]
//
// Packages on Debian 12: netsniff-ng iperf3 dpdk-dev; xdp-tools from Debian 13,
// for example out of the root tree of the lab (-tree): Debian 12's does not load
// on newer kernels. A generator that is missing or does not run is named with
// the reason.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"mpps/internal/traffic"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("genbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 5, "rounds, each generator once in each")
	seconds := flags.Float64("seconds", 1, "counted time of each turn")
	tree := flags.String("tree", "", "root tree of a newer Debian with xdp-tools (default: the lab's, if it was built)")
	only := flags.String("only", "", "words: only generators with one of them in their names, and ours, to compare with")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	if *rounds < 1 || *seconds < 0.1 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "genbench: error: want at least 1 round, 0.1 seconds and no arguments")
		return 64
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := bench(ctx, *rounds, time.Duration(*seconds*float64(time.Second)), *tree, strings.Fields(*only), stderr)
	if err != nil {
		fmt.Fprintf(stderr, "genbench: error: %v\n", err)
		return 1
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = e.Encode(report)
	} else {
		err = report.print(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "genbench: error: %v\n", err)
		return 1
	}
	return 0
}

// A Report is the comparison.
type Report struct {
	Kernel  string    `json:"kernel"`
	CPU     string    `json:"cpu"`
	Rounds  int       `json:"rounds"`
	Seconds float64   `json:"seconds"` // counted in each turn
	Rows    []Row     `json:"rows"`
	Taken   time.Time `json:"taken"`
}

// A Row is one generator.
type Row struct {
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"`
	PPS     []float64 `json:"pps"`             // of each round, at the receiver, on one core
	Median  float64   `json:"median"`          // of PPS
	Ratio   float64   `json:"ratio,omitempty"` // median over the rounds of this generator to the first row
	Package string    `json:"package,omitempty"`
	Failed  string    `json:"failed,omitempty"` // why there is no figure
}

func bench(ctx context.Context, rounds int, each time.Duration, tree string, only []string, progress io.Writer) (*Report, error) {
	r := &Report{Rounds: rounds, Seconds: each.Seconds(), Taken: time.Now().UTC().Truncate(time.Second)}
	r.Kernel, r.CPU = machine()
	link, err := newLink()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := link.remove(); err != nil {
			fmt.Fprintf(progress, "genbench: warning: %v\n", err)
		}
	}()
	gens := slices.DeleteFunc(generators(tree), func(g generator) bool {
		return len(only) > 0 && g.name != "mpps xdp" &&
			!slices.ContainsFunc(only, func(w string) bool { return strings.Contains(g.name, w) })
	})
	for _, g := range gens {
		r.Rows = append(r.Rows, Row{Name: g.name, Package: g.apt, Version: g.version, Failed: g.missing})
	}
	for round := range rounds {
		for n := range gens {
			i := (n + round) % len(gens) // nobody is always the one after the heaviest
			row := &r.Rows[i]
			if row.Failed != "" {
				continue
			}
			pps, err := turn(ctx, gens[i], link, each)
			if ctx.Err() != nil {
				return nil, errors.New("interrupted")
			}
			if err != nil {
				row.Failed = err.Error()
				row.PPS = nil
				continue
			}
			row.PPS = append(row.PPS, pps)
			fmt.Fprintf(progress, "round %d of %d: %-28s %8.3f Mpps\n", round+1, rounds, row.Name, pps/1e6)
		}
	}
	r.summarise()
	return r, nil
}

// turn runs one generator and counts what arrives once it is warm.
func turn(ctx context.Context, g generator, l *link, each time.Duration) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sink traffic.Sink
	attach := func() (err error) {
		// Streams that nobody sends: every generator's frames take the same way.
		sink, err = traffic.NewSink(traffic.SinkConfig{In: l.far, Method: traffic.XDP, Stream: 65535, DropOther: true})
		return err
	}
	if !g.lateSink {
		if err := attach(); err != nil {
			return 0, err
		}
	}
	stop, ended, err := g.start(ctx, l)
	if err != nil {
		if sink != nil {
			err = errors.Join(err, sink.Close())
		}
		return 0, err
	}
	pps, err := func() (float64, error) {
		if g.lateSink {
			if err := wait(ctx, ended, 1500*time.Millisecond); err != nil {
				return 0, err
			}
			if err := attach(); err != nil {
				return 0, err
			}
		}
		// Warm: traffic has been seen, and for a while.
		begin := time.Now()
		for {
			n, err := arrived(sink)
			if err != nil {
				return 0, err
			}
			if n > 5000 {
				break
			}
			if time.Since(begin) > 15*time.Second {
				return 0, fmt.Errorf("nothing arrived in 15 s")
			}
			if err := wait(ctx, ended, 20*time.Millisecond); err != nil {
				return 0, err
			}
		}
		if err := wait(ctx, ended, 300*time.Millisecond); err != nil {
			return 0, err
		}
		first, err := arrived(sink)
		if err != nil {
			return 0, err
		}
		from := time.Now()
		if err := wait(ctx, ended, each); err != nil {
			return 0, err
		}
		last, err := arrived(sink)
		return float64(last-first) / time.Since(from).Seconds(), err
	}()
	stop()
	if sink != nil {
		err = errors.Join(err, sink.Close())
	}
	return pps, err
}

func arrived(s traffic.Sink) (uint64, error) {
	c, err := s.Counts()
	return c.Received + c.Other + c.Foreign, err
}

// wait waits, unless the generator ends first, which it should not.
func wait(ctx context.Context, ended <-chan error, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-ended:
		if err == nil {
			err = errors.New("ended early")
		}
		return err
	case <-time.After(d):
		return nil
	}
}

// summarise takes medians; ratios are of the same round, so that slow drift of
// the machine does not enter.
func (r *Report) summarise() {
	for i := range r.Rows {
		row := &r.Rows[i]
		if len(row.PPS) == 0 {
			continue
		}
		row.Median = median(row.PPS)
		if base := r.Rows[0].PPS; len(base) == len(row.PPS) {
			ratios := make([]float64, len(base))
			for n := range base {
				ratios[n] = row.PPS[n] / base[n]
			}
			row.Ratio = median(ratios)
		}
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

func (r *Report) print(w io.Writer) error {
	fmt.Fprintf(w, "packet generators on one core, 64 byte frames, veth pair into an XDP drop, counted at the receiver\n")
	fmt.Fprintf(w, "%s, kernel %s, %d interleaved rounds of %g s\n\n", r.CPU, r.Kernel, r.Rounds, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "generator\tMpps\tmin–max\tratio\tours is\tpackage")
	for _, row := range r.Rows {
		if row.Failed != "" {
			fmt.Fprintf(t, "%s %s\t–\t\t\t\t%s\t%s\n", row.Name, row.Version, row.Package, row.Failed)
			continue
		}
		fmt.Fprintf(t, "%s %s\t%.3f\t%.3f–%.3f\t%.3f\t%.1f×\t%s\t\n", row.Name, row.Version, row.Median/1e6,
			slices.Min(row.PPS)/1e6, slices.Max(row.PPS)/1e6, row.Ratio, 1/row.Ratio, row.Package)
	}
	return t.Flush()
}
