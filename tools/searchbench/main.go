// Searchbench judges searches by what they should have found: ours and MLRsearch on simulated devices, side by side
// with fixed seeds. "searchbench device KIND CAPACITY SEED" is such a device for 'mpps search --trial-command';
// "searchbench kinds" lists the kinds. See 'make bench-search'.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"mpps/internal/measure/search"
	"mpps/internal/measure/search/simulated"
)

const usage = `usage: searchbench device KIND CAPACITY SEED   a simulated device, a line of JSON per trial
       searchbench kinds                       the kinds there are
       searchbench compare [MLRSEARCH.csv]     ours on all kinds, beside results of mlrsearch.py`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "device":
		return serve(os.Stdin, os.Stdout, args[1], args[2], args[3])
	case len(args) == 1 && args[0] == "kinds":
		for _, kind := range simulated.Kinds() {
			fmt.Printf("%-14s %s\n", kind, simulated.About(kind))
		}
		return nil
	case len(args) >= 1 && len(args) <= 2 && args[0] == "compare":
		return compare(os.Stdout, strings.Join(args[1:], ""))
	}
	return fmt.Errorf("%s", usage)
}

// serve answers trials from 'mpps search --trial-command' with a simulated device. Its time is simulated too.
func serve(in io.Reader, out io.Writer, kind, capacity, seed string) error {
	c, err := strconv.ParseFloat(capacity, 64)
	if err != nil || c <= 0 {
		return fmt.Errorf("a capacity of %q: expected packets per second", capacity)
	}
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return fmt.Errorf("a seed of %q: expected a number", seed)
	}
	device, err := simulated.New(kind, c, n)
	if err != nil {
		return err
	}
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var t search.Trial
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return fmt.Errorf("found %q, expected a trial: %w", lines.Text(), err)
		}
		sent, received := device.Trial(t.PPS, t.Seconds)
		if err := answers.Encode(search.Outcome{Sent: sent, Received: received, Seconds: t.Seconds}); err != nil {
			return err
		}
	}
	return lines.Err()
}
