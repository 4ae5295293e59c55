package wakeup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/must"
)

func recorded(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return string(text)
}

// TestCyclictestJSON: two threads with a histogram that ends at 100 µs. What is longer is in cycles and max alone.
func TestCyclictestJSON(t *testing.T) {
	text := recorded(t, "cyclictest-2.40-json.txt")
	out := must.Get(ParseCyclictest(text, 100, nil))(t)
	must.Need(t, out.Version == "2.40" && len(out.Threads) == 2 && !out.Exact,
		"found version %q, %d threads, exact %v", out.Version, len(out.Threads), out.Exact)
	for i, name := range []string{"min", "max", "cycles"} {
		for n, m := range regexp.MustCompile(`"`+name+`": ([0-9]+)`).FindAllStringSubmatch(text, -1) {
			want, _ := strconv.ParseUint(m[1], 10, 64)
			l := out.Threads[n].Latency
			must.Equal(t, []uint64{l.MinNs / 1000, l.MaxNs / 1000, l.Count}[i], want, "thread %d: %s", n, name)
		}
	}
	for n, thread := range out.Threads {
		l := thread.Latency
		last := l.Buckets[len(l.Buckets)-1]
		must.Hold(t, thread.CPU == n && thread.Beyond != 0 && last.FromNs == 100_000 && last.ToNs == l.MaxNs &&
			last.Count == thread.Beyond, "thread %d on CPU %d: %d beyond the histogram, last bucket %+v, max %d", n,
			thread.CPU, thread.Beyond, last, l.MaxNs)
		if p, told := l.Percentile(50); !told || p < 5000 || p > 99_000 {
			t.Errorf("median %d", p)
		}
		if _, told := l.Percentile(99.999); told {
			t.Errorf("99.999 %% of %d samples is told", l.Count)
		}
	}
}

// TestCyclictestKeys: with and without the stray colon.
func TestCyclictestKeys(t *testing.T) {
	text := recorded(t, "cyclictest-2.40-json.txt")
	mended := strings.ReplaceAll(strings.ReplaceAll(text, `"cmdline:"`, `"cmdline"`), `"rt_test_version:"`,
		`"rt_test_version"`)
	must.Need(t, mended != text, "the recorded text has no stray colon")
	out, err := ParseCyclictest(mended, 100, nil)
	must.Hold(t, err == nil && out.Version == "2.40", "found %+v, %v", out, err)
}

// TestCyclictestSpikes: when long wake-ups were, behind the JSON.
func TestCyclictestSpikes(t *testing.T) {
	text := recorded(t, "cyclictest-2.40-spike.txt")
	out, err := ParseCyclictest(text, 100_000, nil)
	must.Do(t, err)
	must.Need(t, out.Exact && len(out.Long) != 0 && len(out.Long) == strings.Count(text, "Spike:") && out.Lost == 0,
		"exact %v, %d long, %d lost", out.Exact, len(out.Long), out.Lost)
	var most uint64
	for i, l := range out.Long {
		most = max(most, l.Ns)
		if l.CPU != 1 || l.Ns <= 150_000 || i > 0 && l.When < out.Long[i-1].When {
			t.Errorf("%+v", l)
		}
	}
	must.Hold(t, most == out.Threads[0].Latency.MaxNs, "longest told %d, max %d", most, out.Threads[0].Latency.MaxNs)
	out, err = ParseCyclictest(regexp.MustCompile(`spikes = \d+`).ReplaceAllString(text, "spikes = 100000"), 100_000,
		nil)
	must.Hold(t, err == nil && out.Lost == 100_000-uint64(len(out.Long)),
		"of 100000 spikes %d are lost: %v", out.Lost, err)
}

func TestCyclictestText(t *testing.T) {
	out := must.Get(ParseCyclictest(recorded(t, "cyclictest-2.40-text.txt"), 50, []int{0, 1}))(t)
	var found []string
	for _, thread := range out.Threads {
		l := thread.Latency
		found = append(found, fmt.Sprint(thread.CPU, l.Count, l.MinNs, uint64(l.MeanNs), l.MaxNs, thread.Beyond))
	}
	want := "0 9886 8000 23000 1144000 270|1 9981 8000 28000 2350000 731"
	if got := strings.Join(found, "|"); got != want {
		t.Errorf("found %s\nexpected %s", got, want)
	}
}

func TestOslat(t *testing.T) {
	text := recorded(t, "oslat-2.40.txt")
	out := must.Get(ParseOslat(text))(t)
	must.Need(t, len(out.Threads) == 1 && out.Threads[0].CPU == 1 && out.Version == "2.40", "%+v", out)
	d := out.Threads[0]
	most := regexp.MustCompile(`"max": ([0-9]+)`).FindStringSubmatch(text)[1]
	must.Hold(t, fmt.Sprint(d.Latency.MaxNs/1000) == most && d.Beyond != 0 && d.Latency.Buckets[0].FromNs == 1000,
		"max %d, expected %s µs; %d beyond; %+v", d.Latency.MaxNs, most, d.Beyond, d.Latency.Buckets[0])
}

// timerlatText is put together after the example of rtla-timerlat-hist(1) and timerlat_hist.c, not recorded: with sums
// of all CPUs, as later versions print them.
const timerlatText = `# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:01:00
Index   IRQ-000   Thr-000   IRQ-002   Thr-002
0         58572         0     59373         0
1          1422     57021       628     57241
5             0         2         0         5
over:         0         1         0         0
count:    59994     57024     60001     57246
min:          0         1         0         1
avg:          0         1         0         1
max:          3       412         1         5
ALL:        IRQ       Thr
count:   119995    114270
min:          0         1
avg:          0         1
max:          3       412
`

func TestTimerlat(t *testing.T) {
	out, err := ParseTimerlat(timerlatText, 256)
	must.Do(t, err)
	must.Need(t, len(out.Threads) == 2 && out.Threads[1].CPU == 2, "%+v", out.Threads)
	l := out.Threads[0].Latency
	must.Hold(t, l.Count == 57024 && l.MaxNs == 412_000 && out.Threads[0].Beyond == 1 &&
		l.Buckets[len(l.Buckets)-1].FromNs == 256_000, "%+v", l)
	// With programs in user space, what counts is when they had the CPU.
	user := "Index   IRQ-001   Thr-001   Usr-001\n3 0 7 0\n9 7 0 6\nover: 0 0 0\ncount: 7 7 6\nmin: 9 3 9\navg: 9 3 " +
		"9\nmax: 9 3 9\n"
	if out, err = ParseTimerlat(user, 256); err != nil || out.Threads[0].Latency.Count != 6 ||
		out.Threads[0].Latency.MaxNs != 9000 {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestBroken: text that is cut, empty or another's is an error and not a result.
func TestBroken(t *testing.T) {
	parsers := map[string]func(string) (*Output, error){
		"cyclictest": func(s string) (*Output, error) { return ParseCyclictest(s, 100, nil) },
		"oslat":      ParseOslat,
		"timerlat":   func(s string) (*Output, error) { return ParseTimerlat(s, 256) },
		"own":        ParseOwn,
	}
	texts := []string{"", "\n", "{", "{}", "null", "Unable to change scheduling policy!\nProbably missing " +
		"capabilities\n", "# Histogram\n", "Index IRQ-000 Thr-000\n", `{"thread": {"7": {}}}`,
		`{"thread": {"0": {"histogram": {"-1": 5}, "cycles": 5}}}`, recorded(t, "cyclictest-2.40-json.txt")[:800]}
	for name, parse := range parsers {
		for _, text := range texts {
			out, err := parse(text)
			must.Hold(t, err != nil && out == nil && errors.Is(err, ErrNoOutput),
				"%s of %.30q: %v, %v", name, text, out, err)
		}
	}
}

// TestOwnIsBounded: a guest's loop has as many threads as a machine can have, and says what it lacks in a line.
func TestOwnIsBounded(t *testing.T) {
	of := func(n int) (*Output, error) {
		thread := `{"cpu":1,"problem":"` + strings.Repeat("x", 1000) + `"},`
		return ParseOwn(`{"schema":"` + OwnSchema + `","threads":[` + strings.TrimSuffix(strings.Repeat(thread, n), ",") +
			`]}`)
	}
	out := must.Get(of(maxThreads))(t)
	must.Hold(t, len(out.Problems[0]) <= 400, "a problem of %d bytes", len(out.Problems[0]))
	must.Is(t, must.Err(of(maxThreads+1)), ErrNoOutput, "one thread more")
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"cyclictest-2.40-spike.txt", "cyclictest-2.40-text.txt"} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(string(text))
	}
	f.Add(timerlatText)
	f.Add(`{"schema":"mpps.latency-loop/1","threads":[{"cpu":1,"count":3,"max_ns":5,"buckets":[{"from_ns":9,"to_ns":5,"count":3}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (*Output, error){
			func(s string) (*Output, error) { return ParseCyclictest(s, 100, []int{1}) }, ParseOslat,
			func(s string) (*Output, error) { return ParseTimerlat(s, 256) }, ParseOwn,
		} {
			out, err := parse(text)
			if err != nil {
				continue
			}
			for _, thread := range out.Threads {
				l := thread.Latency
				if l == nil {
					continue
				}
				for _, p := range l.Percentiles {
					must.Hold(t, p.ValueNs <= l.MaxNs, "%.60q: %+v", text, l)
				}
			}
		}
	})
}
