// Searchbench judges searches by what they should have found: ours and MLRsearch on simulated devices, side by side
// with fixed seeds. "searchbench device KIND CAPACITY SEED" is such a device for 'mpps search --trial-command';
// "searchbench kinds" lists the kinds. See 'make bench-search'.
package main

import (
	"fmt"
	"os"
	"strings"

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
