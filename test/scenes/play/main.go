// The program play has three uses:
//
//	play [-turn N] [-until UNIX] [-list]   plays or lists the long scenes of a turn, by default of this commit's
//	play -order                            lists the packages of the emulated host, the longest first
//	play -summary FILE...                  adds up outputs of go test and files of MPPS_LAB_STATS
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"mpps/test/scenes"
)

func main() {
	turn := flag.Int("turn", -1, "the turn to play, 0 to 3")
	until := flag.Int64("until", 0, "when all has to be over, in seconds since 1970; 0: no limit")
	list := flag.Bool("list", false, "list the turn's scenes as commands")
	order := flag.Bool("order", false, "list the packages with the build tag lab, the longest first")
	summary := flag.Bool("summary", false, "add up the files that are named")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var ok bool
	var err error
	switch {
	case *order:
		ok, err = true, inOrder(os.Stdout, flag.Args())
	case *summary:
		ok, err = true, summarise(os.Stdout, flag.Args(), os.Getenv("MPPS_LAB_STATS"))
	default:
		ok, err = theTurn(ctx, *turn, *until, *list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "play:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// inOrder lists packages, those that take longest first, so that what runs at the end is short.
func inOrder(w io.Writer, packages []string) error {
	seconds, err := scenes.Packages()
	if err != nil {
		return err
	}
	slices.SortStableFunc(packages, func(a, b string) int {
		return cmp.Or(cmp.Compare(seconds[trim(b)], seconds[trim(a)]), cmp.Compare(a, b))
	})
	for _, p := range packages {
		fmt.Fprintln(w, p)
	}
	return nil
}

func theTurn(ctx context.Context, turn int, until int64, list bool) (bool, error) {
	visit := 0
	if turn < 0 {
		var why string
		var err error
		if turn, visit, why, err = scenes.OfCommit("."); err != nil {
			return false, err
		}
		fmt.Println(why)
	}
	if turn >= scenes.Turns {
		return false, fmt.Errorf("turn %d: expected 0 to %d", turn, scenes.Turns-1)
	}
	all, err := scenes.All(".")
	if err != nil {
		return false, err
	}
	sets := scenes.Turn(all, turn, visit)
	if list {
		for _, s := range sets {
			fmt.Printf("CGO_ENABLED=0 go test -tags lab -count=1 -run '%s' ./%s # %.0f s\n", s.Pattern(), s.Package,
				s.Seconds)
		}
		return true, nil
	}
	p := player{run: goTest, out: os.Stdout}
	if until > 0 {
		p.until = time.Unix(until, 0)
	}
	ok := p.play(ctx, sets)
	return ok, hosts(os.Stdout, os.Getenv("MPPS_LAB_STATS"))
}
