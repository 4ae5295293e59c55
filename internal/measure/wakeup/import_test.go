package wakeup

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestImport: what tools printed is recognised, with the figures that they give themselves.
func TestImport(t *testing.T) {
	read := func(file string) string {
		text := must.Get(os.ReadFile("testdata/" + file))(t)
		return string(text)
	}
	oslat, _, _ := strings.Cut(read("oslat-2.40.txt"), "{")
	const top = "                                     Timer Latency\n" +
		"  0 00:00:%s   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)      |    Ret user" +
		" Timer Latency (us)\nCPU COUNT      |      cur       min       avg       max |      cur       min       avg  " +
		"     max |      cur       min       avg       max\n" +
		"  2 #60003     |        1         1         6        41 |       11         7        18       367 |       14" +
		"        10        22       372\n" +
		"---------------|----------------------------------------|---------------------------------------\n" +
		"ALL #60003  e0 |                  1         6        41 |                  7        18       367 |" +
		"                 10        22       372\n"
	for name, c := range map[string]struct {
		text, tool string
		threads    int
		longest    uint64 // µs
		summary    bool
	}{
		"JSON":         {read("cyclictest-2.40-json.txt"), "cyclictest", 2, 711, false},
		"text":         {read("cyclictest-2.40-text.txt"), "cyclictest", 2, 2350, false},
		"oslat":        {read("oslat-2.40.txt"), "oslat", 1, 13636, false},
		"oslat's text": {oslat, "oslat", 1, 13636, false},
		"oslat's text of two cores": {"        Core:\t 2 3\nCounter Freq:\t 2095 2095 (Mhz)\n    001 (us):\t 70 80\n" +
			"    002 (us):\t 0 3 (including overflows)\n     Minimum:\t 1 1 (us)\n     Average:\t 1.000 1.100 (us)\n" +
			"     Maximum:\t 1 14 (us)\n     Max-Min:\t 0 13 (us)\n", "oslat", 2, 14, false},
		"summary with -N": {"T: 0 ( 1234) P:95 I:200 C:3000000 Min:   2134 Act:    4310 Avg:    3909 Max:   23123\n",
			"cyclictest", 1, 23, true},
		"JSON with -N": {`{"cmdline:": "cyclictest -N", "resolution_in_ns": 1, "thread": {"0": {"histogram": {"1510": 4, ` +
			`"23973": 1}, "cycles": 5, "min": 1510, "avg": 9664.0, "max": 23973, "cpu": 2}}}`, "cyclictest", 1, 23, false},
		"text with -H": {"# Histogram\n000002 000004\t000005\t000009\n000003 000001\t000000\t000001\n" +
			"# Total: 000000005 000000005 000000010\n# Min Latencies: 00002 00002\n# Avg Latencies: 00002 00002\n# Max Latencies: 00003 00002 00003\n" +
			"# Histogram Overflows: 00000 00000 00000\n", "cyclictest", 2, 3, false},
		"rtla top, of a program": {top + strings.ReplaceAll(top, "372", "391"), "timerlat", 1, 391, true},
		"rtla top, ns":           {strings.ReplaceAll(top, "(us)", "(ns)"), "timerlat", 1, 0, true},
		"rtla in ns": {"# RTLA timerlat histogram\n# Time unit is nanoseconds (ns)\nIndex   IRQ-000   Thr-000\n" +
			"3000        10         9\nover:       0         1\ncount:     10        10\nmin:      2900      3000\n" +
			"avg:      2950      4000\nmax:      3100     14000\n", "timerlat", 1, 14, false},
		"summary": {"T: 0 ( 1234) P:95 I:200 C:3000000 Min:      5 Act:    7 Avg:    7 Max:      12\n", "cyclictest", 1, 12, true},
		"summary of two, printed over and over": {"T: 0 (  9) P:95 I:200 C: 10 Min: 5 Act: 7 Avg: 7 Max: 9\n" +
			"T: 1 ( 10) P:95 I:700 C: 10 Min: 5 Act: 7 Avg: 7 Max: 8\n" +
			"\x1b[2AT: 0 (  9) P:95 I:200 C: 20 Min: 5 Act: 7 Avg: 7 Max: 30\n", "cyclictest", 2, 30, true},
		"rtla": {"# RTLA timerlat histogram\n# Time unit is microseconds (us)\nIndex   IRQ-000   Thr-000\n" +
			"0           8         0\n3           2         9\n14          0         1\nover:       0         0\n" +
			"count:     10        10\nmin:        0         3\navg:        1         4\nmax:        3        14\n",
			"timerlat", 1, 14, false},
		"osnoise":      {osnoiseText, "osnoise", 2, 31, false},
		"text with -N": {cyclicNsText, "cyclictest", 1, 23, false},
	} {
		got, err := Import("", c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var longest uint64
		for _, thread := range got.Threads {
			longest = max(longest, thread.Latency.MaxNs/1000)
		}
		must.Hold(t, got.Tool == c.tool && len(got.Threads) == c.threads && longest == c.longest &&
			got.Summary == c.summary,
			"%s: %s, %d threads, longest %d µs, summary %v", name, got.Tool, len(got.Threads), longest, got.Summary)
	}
}

// cyclicNsText has, with -N but without -q, summary lines above the histogram, which alone show the unit.
const cyclicNsText = "T: 0 ( 1234) P:95 I:200 C:      5 Min:   1510 Act:    1510 Avg:    6002 Max:   23973\n" +
	"# Histogram\n001510 000004\n\n# Total: 000000004\n# Min Latencies: 01510\n# Avg Latencies: 06002\n" +
	"# Max Latencies: 23973\n# Histogram Overflows: 00001\n"

// osnoiseText is put together after osnoise_hist.c and the example of rtla-osnoise-hist(1), not recorded: the averages
// have decimals, and CPU 1, without noise, no column.
const osnoiseText = `# RTLA osnoise histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:20
Index   CPU-000   CPU-002
1            44       127
2            18        16
31            1         0
over:         1         0
count:       64       143
min:          1         1
avg:       1.98      1.11
max:         31         2
`

// TestImportUnits: the figures of a histogram are in the unit and of the width that its tool used.
func TestImportUnits(t *testing.T) {
	const wide = "# RTLA timerlat histogram\nIndex   IRQ-000   Thr-000\n0 9 0\n10 1 90\n20 0 9\nover: 0 1\ncount: 10 100\n" +
		"min: 0 11\navg: 0 15\nmax: 13 77\n"
	for name, c := range map[string]struct {
		text    string
		buckets string
		median  uint64
	}{
		"-N": {cyclicNsText, "[{1510 1510 4} {1511 23973 1}]", 1510},
		"a bucket size": {wide,
			"[{10000 19000 90} {20000 29000 9} {29001 77000 1}]", 19_000},
		"without": {strings.ReplaceAll(wide, "min: 0 11", "min: 0 10"),
			"[{10000 10000 90} {20000 20000 9} {21000 77000 1}]", 10_000},
		"osnoise": {osnoiseText, "[{1000 1000 44} {2000 2000 18} {31000 31000 1} {32000 32000 1}]", 1000},
	} {
		l := must.Get(Import("", c.text))(t).Threads[0].Latency
		p, _ := l.Percentile(50)
		must.Hold(t, fmt.Sprint(l.Buckets) == c.buckets && p == c.median, "%s: %v, median %d", name, l.Buckets, p)
	}
}

// TestImportCut: an output of which anything is missing is refused, not read as a shorter measurement; so are two in
// one file, and counts that overflowed.
func TestImportCut(t *testing.T) {
	cyclic, _, _ := strings.Cut(recorded(t, "cyclictest-2.40-text.txt"), "# Histogram Overflow at")
	threads := regexp.MustCompile(`(?m)^((?:Index|\d+|[a-z]+:) +)\S+( +\S+ +)\S+( +\S+)$`) // --no-irq
	timerlat, _, _ := strings.Cut(threads.ReplaceAllString(timerlatText, "$1$2$3"), "ALL:")
	for name, whole := range map[string]string{"cyclictest": cyclic, "timerlat": timerlat, "osnoise": osnoiseText} {
		must.Get(Import(name, whole))(t)
		lines := strings.SplitAfter(strings.TrimSpace(whole), "\n")
		for i, line := range lines {
			cut := strings.Join(lines[:i], "")
			must.Is(t, must.Err(Import(name, cut)), ErrNoOutput, "%s of %d lines", name, i)
			must.Is(t, must.Err(Import(name, cut+line[:len(line)/3])), ErrNoOutput, "%s of %d lines and a part", name, i)
			if without := cut + strings.Join(lines[i+1:], ""); counts(line) {
				must.Is(t, must.Err(Import(name, without)), ErrNoOutput, "%s without %q", name, line)
			}
		}
		must.Is(t, must.Err(Import(name, whole+whole)), ErrNoOutput, "%s twice", name)
		must.Is(t, must.Err(Import(name, whole+"ALL: x\n"+whole)), ErrNoOutput, "%s twice, after sums", name)
		for _, n := range []string{"-5", "1e3", "99999999999999999999", "0x10", "٣"} {
			for _, row := range regexp.MustCompile(`(?m)^(?:# )?[A-Za-z0-9 ]+:?\s+0*([1-9][0-9]*)`).
				FindAllStringSubmatchIndex(whole, -1) {
				hostile := whole[:row[2]] + n + whole[row[3]:]
				if got, err := Import(name, hostile); err == nil {
					t.Errorf("%s with %s in %q: %+v", name, n, whole[row[0]:row[1]], got.Threads)
				}
			}
		}
	}
}

// counts reports whether a row holds more than one wake-up.
func counts(line string) bool {
	numbers, ok := integers(line)
	if !ok {
		return false
	}
	return slices.ContainsFunc(numbers[1:], func(n uint64) bool { return n > 1 })
}

// hostile are texts that no tool printed.
var hostile = map[string]string{
	"nothing":            "",
	"other text":         "hello\n",
	"huge count":         "T: 0 ( 1) P:95 I:200 C:9007199254740991 Min: 5 Act: 7 Avg: 7 Max: 9\n",
	"max below min":      "T: 0 ( 1) P:95 I:200 C:10 Min: 50 Act: 7 Avg: 7 Max: 9\n",
	"no wake-up":         "T: 0 ( 1) P:95 I:200 C:0 Min: 5 Act: 7 Avg: 7 Max: 9\n",
	"JSON without":       `{"cmdline": "oslat", "thread": {}}`,
	"JSON of one row":    `{"thread": {"0": {"histogram": {"1": 18446744073709551615}, "cycles": 1, "min": 1, "max": 1}}}`,
	"negative mean":      `{"thread": {"0": {"histogram": {"1": 2}, "cycles": 2, "min": 1, "max": 1, "avg": 1e300}}}`,
	"a CPU that is none": `{"thread": {"0": {"histogram": {"1": 2}, "cycles": 2, "min": 1, "max": 1, "cpu": -2}}}`,
	"a CPU far away":     `{"thread": {"0": {"histogram": {"1": 2}, "cycles": 2, "min": 1, "max": 1, "cpu": 16384}}}`,
	"a wide header":      "Index " + strings.Repeat("Thr-1 Thr-2 ", maxThreads) + "\n1 1\ncount: 1\nmax: 1\n",
	"many columns":       "0 " + strings.Repeat("1 ", 5000) + "\n# Max Latencies: " + strings.Repeat("1 ", 5000),
}

// TestImportRefuses: such texts are refused, whichever tool they are said to be of.
func TestImportRefuses(t *testing.T) {
	for name, text := range hostile {
		for _, tool := range []string{"", "cyclictest", "oslat", "timerlat", "osnoise", "own", "nope"} {
			if got, err := Import(tool, text); err == nil {
				t.Errorf("%s as %q: %+v", name, tool, got.Threads)
			}
		}
	}
	must.Fail(Import("", strings.Repeat("0", maxText+1)))(t, "a text beyond the bound was read")
}

// FuzzImport: whatever a file holds, what is read of it can be added up.
func FuzzImport(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tool := range []string{"", "oslat", "timerlat", "osnoise"} {
			if got, err := Import(tool, text); err == nil {
				var r Run
				r.Add(1, &got.Output, r.Started, r.Started, 0, Clock{})
			}
		}
	})
}
