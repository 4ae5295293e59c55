package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"mpps/internal/measure/search"
	"mpps/internal/measure/search/simulated"
)

// All searches get the same cases: hidden capacities, log-uniform, each with several seeds.
const (
	capacities = 20
	lowest     = 0.1e6
	highest    = 14e6
)

// repeats is the number of searches per capacity: compliant ones take long and are conclusive.
var repeats = map[search.Mode]int{search.Fast: 10, search.Compliant: 2}

// modes are ours, and the names of their MLRsearch counterparts in the results file.
var modes = []struct {
	mode        search.Mode
	counterpart string
}{{search.Fast, "csit"}, {search.Compliant, "rfc2544"}}

// capacity returns the hidden capacity of a case, in equal steps of the logarithm.
func capacity(n int) float64 {
	return lowest * math.Pow(highest/lowest, (float64(n%capacities)+0.5)/capacities)
}

// result is one search.
type result struct {
	seconds    float64
	trials     int
	ndr, pdr   float64 // relative errors of the lower bounds
	found, hit bool    // there are bounds; they contain the truth
	irregular  bool
	remark     string
}

// ours runs our search on one case.
func ours(mode search.Mode, kind string, n int) (result, error) {
	truth := capacity(n)
	device, err := simulated.New(kind, truth, uint64(n+1))
	if err != nil {
		return result{}, err
	}
	o := search.Options{Mode: mode, MinPPS: 9001, MaxPPS: simulated.LineRate, FrameBytes: 64, PDR: 0.005, Width: 0.005,
		Budget: time.Minute, Final: time.Minute}
	if mode == search.Compliant {
		o.Budget = 20 * time.Minute
	}
	r, err := search.Run(context.Background(), arithmetic{device}, o)
	if err != nil {
		return result{}, fmt.Errorf("%s %s %d: %w", mode, kind, n, err)
	}
	out := result{seconds: r.Seconds, trials: r.Trials, irregular: r.Irregular, remark: r.NDR.None}
	if r.NDR.LowerPPS != nil && r.NDR.UpperPPS != nil {
		out.found, out.ndr = true, *r.NDR.LowerPPS/truth-1
		out.hit = *r.NDR.LowerPPS <= truth && truth <= *r.NDR.UpperPPS
	}
	if r.PDR.LowerPPS != nil {
		out.pdr = *r.PDR.LowerPPS/(truth/0.995) - 1
	}
	return out, nil
}

type arithmetic struct{ *simulated.Device }

func (d arithmetic) Trial(_ context.Context, t search.Trial) (search.Outcome, error) {
	sent, received := d.Device.Trial(t.PPS, t.Seconds)
	return search.Outcome{Sent: sent, Received: received, Seconds: t.Seconds}, nil
}

// all searches every case of a kind on all processors. The results are in order of the cases.
func all(mode search.Mode, kind string) ([]result, error) {
	results := make([]result, capacities*repeats[mode])
	errs := make([]error, len(results))
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for n := range results {
		slots <- struct{}{}
		wait.Go(func() {
			results[n], errs[n] = ours(mode, kind, n)
			<-slots
		})
	}
	wait.Wait()
	return results, errors.Join(errs...)
}

// compare prints our results next to MLRsearch's.
func compare(w io.Writer, file string) error {
	others, err := read(file)
	if err != nil {
		return err
	}
	for _, m := range modes {
		fmt.Fprintf(w, "\n%s: %d hidden capacities of %g to %g Mpps, %d searches each; "+
			"errors of the lower bounds in %% of the truth\n",
			m.mode, capacities, lowest/1e6, highest/1e6, repeats[m.mode])
		fmt.Fprintf(w, "%-14s %-12s %7s %15s %8s %8s %8s %8s %8s %7s\n", "device", "search", "trials", "seconds (most)",
			"NDR mean", "worst", "spread", "PDR mean", "worst", "covers")
		for _, kind := range simulated.Kinds() {
			results, err := all(m.mode, kind)
			if err != nil {
				return err
			}
			line(w, kind, "mpps", results)
			if theirs := others[m.counterpart+" "+kind]; len(theirs) > 0 {
				line(w, "", "MLRsearch", theirs)
			}
		}
	}
	return nil
}

// line prints the figures of one search on one kind of device.
func line(w io.Writer, kind, name string, results []result) {
	var trials, seconds, ndr, pdr []float64
	var hits, found int
	none := ""
	for _, r := range results {
		trials, seconds = append(trials, float64(r.trials)), append(seconds, r.seconds)
		if r.pdr != 0 {
			pdr = append(pdr, r.pdr*100)
		}
		if !r.found {
			none = r.remark
			continue
		}
		found++
		ndr = append(ndr, r.ndr*100)
		if r.hit {
			hits++
		}
	}
	fmt.Fprintf(w, "%-14s %-12s %7.1f %8.1f %6.0f ", kind, name, mean(trials), mean(seconds), slices.Max(seconds))
	if found > 0 {
		fmt.Fprintf(w, "%+8.2f %+8.2f %8.3f ", mean(ndr), worst(ndr), spread(ndr))
	} else {
		fmt.Fprintf(w, "%26s ", "none")
	}
	if len(pdr) > 0 {
		fmt.Fprintf(w, "%+8.2f %+8.2f ", mean(pdr), worst(pdr))
	} else {
		fmt.Fprintf(w, "%17s ", "none")
	}
	if found > 0 {
		fmt.Fprintf(w, "%5.1f %%", 100*float64(hits)/float64(found))
	}
	if none != "" {
		fmt.Fprintf(w, "  %d of %d: %s", len(results)-found, len(results), none)
	}
	fmt.Fprintln(w)
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func worst(values []float64) float64 {
	return slices.MaxFunc(values, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
}

func spread(values []float64) float64 {
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(values)))
}

// read reads the results of scripts/mlrsearch.py: goals, kind, case, trials, seconds, lower and upper bound of the NDR
// and lower bound of the PDR, empty if there is none.
func read(file string) (map[string][]result, error) {
	all := map[string][]result{}
	if file == "" {
		return all, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if len(row) != 8 {
			return nil, fmt.Errorf("%s: line %d: found %d fields, expected 8", file, i+1, len(row))
		}
		n, err := strconv.Atoi(row[2])
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, i+1, err)
		}
		truth := capacity(n)
		var v [5]float64
		for j := range v {
			if row[3+j] == "" {
				continue
			}
			if v[j], err = strconv.ParseFloat(row[3+j], 64); err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", file, i+1, err)
			}
		}
		r := result{trials: int(v[0]), seconds: v[1], found: v[2] > 0, ndr: v[2]/truth - 1,
			hit: v[2] <= truth && truth <= v[3], remark: "failed"}
		if v[4] > 0 {
			r.pdr = v[4]/(truth/0.995) - 1
		}
		key := row[0] + " " + row[1]
		all[key] = append(all[key], r)
	}
	return all, nil
}
