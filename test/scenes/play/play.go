package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"mpps/internal/lab"
	"mpps/internal/owned"
	"mpps/test/scenes"
)

// places is how many packages play at the same time: as many as may have labs (internal/lab/labtest/queue.go).
const places = 2

func trim(pkg string) string { return strings.TrimPrefix(pkg, "./") }

// player plays sets of scenes until its time is over.
type player struct {
	until time.Time // zero: no limit
	run   func(ctx context.Context, s scenes.Set, out io.Writer) error
	out   io.Writer

	mu        sync.Mutex
	next      int
	played    int // scenes
	failed    bool
	notPlayed []string
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// play reports whether scenes were played and none of them failed. Each place begins with a set whatever is left of the
// time; a later one that does not fit is not begun. What still runs at the end is cut off. All that was not played is
// named.
func (p *player) play(ctx context.Context, sets []scenes.Set) bool {
	parent := ctx
	if !p.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, p.until)
		defer cancel()
	}
	var wg sync.WaitGroup
	for range places {
		wg.Go(func() {
			for set, ok := p.take(sets); ok; set, ok = p.take(sets) {
				p.one(ctx, set)
			}
		})
	}
	wg.Wait()
	for _, s := range p.notPlayed {
		fmt.Fprintln(p.out, "not played:", s)
	}
	if p.played == 0 && len(sets) > 0 {
		fmt.Fprintln(p.out, "nothing was played")
		return false
	}
	return !p.failed && parent.Err() == nil
}

// take returns the next set to begin.
func (p *player) take(sets []scenes.Set) (scenes.Set, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.next < len(sets); p.next++ {
		set := sets[p.next]
		left := time.Until(p.until).Seconds()
		if p.until.IsZero() || p.next < places || set.Seconds <= left {
			p.next++
			return set, true
		}
		p.notPlayed = append(p.notPlayed, fmt.Sprintf("%s %s: takes %.0f s, %.0f s are left", set.Package,
			strings.Join(set.Tests, " "), set.Seconds, max(left, 0)))
	}
	return scenes.Set{}, false
}

// one plays a set and prints how each scene ended, and all that a failing set printed.
func (p *player) one(ctx context.Context, set scenes.Set) {
	var raw, text bytes.Buffer
	began := time.Now()
	err := p.run(ctx, set, &raw)
	took := time.Since(began).Seconds()
	ended := map[string]event{} // the last word on each test: what a dead host failed may have been played again
	for line := range bytes.Lines(raw.Bytes()) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			text.Write(line) // go test's own, of a package that does not compile
			continue
		}
		text.WriteString(e.Output)
		if e.Test != "" && !strings.Contains(e.Test, "/") && (e.Action == "pass" || e.Action == "fail" ||
			e.Action == "skip") {
			ended[e.Test] = e
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := err != nil && ctx.Err() != nil
	failed := err != nil && !cut
	for _, test := range set.Tests {
		e, ok := ended[test]
		switch {
		case ok:
			p.played++
			fmt.Fprintf(p.out, "%s\t%s %s\t%.1fs\n", e.Action, set.Package, test, e.Elapsed)
			failed = failed || e.Action == "fail" && err != nil
		case cut:
			p.notPlayed = append(p.notPlayed, fmt.Sprintf("%s %s: cut off, its package ran for %.0f s", set.Package,
				test, took))
		default:
			p.notPlayed = append(p.notPlayed, set.Package+" "+test)
			failed = true
		}
	}
	if failed {
		p.failed = true
		fmt.Fprintf(p.out, "%s", text.Bytes())
		fmt.Fprintf(p.out, "FAIL\tmpps/%s\t%.3fs\n", set.Package, took)
	} else if !cut {
		fmt.Fprintf(p.out, "ok  \tmpps/%s\t%.3fs\n", set.Package, took)
	}
}

// goTest plays a set. Its time limit is for a scene that hangs. What it started ends with it.
func goTest(ctx context.Context, s scenes.Set, out io.Writer) error {
	limit := time.Duration(5*s.Seconds+600) * time.Second
	cmd := exec.Command("go", "test", "-tags", "lab", "-count=1", "-json", "-timeout", limit.String(), "-run",
		s.Pattern(), "./"+s.Package)
	cmd.Stdout, cmd.Stderr = out, out
	end, err := owned.StartAll(cmd)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, end)()
	err = cmd.Wait()
	end()
	if ctx.Err() != nil {
		if _, err := lab.Reap(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, "play:", err)
		}
	}
	return err
}
