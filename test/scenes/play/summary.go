package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/lab"
)

// packageLine is how go test closes a package that was run now.
var packageLine = regexp.MustCompile(`^(ok  |FAIL)\t(\S+)\t([0-9.]+)s`)

type packageTime struct {
	stage, name string
	seconds     float64
	failed      bool
}

// summarise prints the time of every package in outputs of go test, the longest first, and what the emulated hosts went
// through.
func summarise(w io.Writer, files []string, stats string) error {
	var times []packageTime
	var errs []error
	for _, name := range files {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a stage that was not reached
		}
		errs = append(errs, err)
		for line := range strings.Lines(string(text)) {
			m := packageLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			seconds, err := strconv.ParseFloat(m[3], 64)
			errs = append(errs, err)
			times = append(times, packageTime{stageOf(name), m[2], seconds, m[1] == "FAIL"})
		}
	}
	slices.SortStableFunc(times, func(a, b packageTime) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range times {
		mark := ""
		if t.failed {
			mark = "  FAIL"
		}
		fmt.Fprintf(w, "%8.1f s  %-6s %s%s\n", t.seconds, t.stage, t.name, mark)
	}
	errs = append(errs, hosts(w, stats))
	return errors.Join(errs...)
}

// stageOf is a file's name without folder and extension.
func stageOf(name string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return strings.TrimSuffix(base, ".log")
}

// hosts counts the lines of MPPS_LAB_STATS.
func hosts(w io.Writer, stats string) error {
	f, err := os.Open(stats)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer f.Close()
	count := map[string]int{}
	seconds, slowest := map[string]float64{}, map[string]float64{}
	var causes []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for err == nil && lines.Scan() {
		var s lab.Stat
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return fmt.Errorf("%s: %w", stats, err)
		}
		count[s.Event]++
		seconds[s.Event] += s.Seconds
		slowest[s.Event] = max(slowest[s.Event], s.Seconds)
		if s.Cause != "" {
			first, _, _ := strings.Cut(s.Cause, "\n")
			causes = append(causes, s.Event+": "+first)
		}
	}
	fmt.Fprintf(w, "emulated hosts: %d boots (%.0f s), %d restores (%.0f s, the slowest %.1f s), %d deaths, "+
		"%d retries\n",
		count[lab.StatBoot], seconds[lab.StatBoot], count[lab.StatRestore], seconds[lab.StatRestore],
		slowest[lab.StatRestore], count[lab.StatDeath], count[lab.StatRetry])
	for _, c := range causes {
		fmt.Fprintln(w, "  "+c)
	}
	return lines.Err()
}
