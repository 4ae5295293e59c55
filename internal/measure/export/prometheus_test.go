package export

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/must"
)

var (
	metricLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)`)
)

// parsed reads the text exposition format strictly, as the server's own parser would and promtool's linter: HELP and
// TYPE once and before the first series of a metric, its series in one group, no series twice, label names and escapes
// as the format has them, units and suffixes as names end. The module with the server's parser would bring protocol
// buffers along for one test.
func parsed(text string) (map[string]float64, error) {
	series, kinds, done := map[string]float64{}, map[string]string{}, map[string]bool{}
	current, helped := "", ""
	if !strings.HasSuffix(text, "\n") {
		return nil, errors.New("no line feed at the end")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP ") && len(words) == 4:
			helped = words[2]
		case strings.HasPrefix(line, "# TYPE ") && len(words) == 4:
			if words[2] != helped || kinds[words[2]] != "" {
				return nil, fmt.Errorf("%q: out of order", line)
			}
			done[current] = true
			current, kinds[words[2]] = words[2], words[3]
		default:
			name, value, err := seriesOf(line)
			if err != nil {
				return nil, err
			}
			base, _, _ := strings.Cut(name, "{")
			if kinds[current] == "summary" {
				base = strings.TrimSuffix(strings.TrimSuffix(base, "_sum"), "_count")
			}
			if base != current || done[base] {
				return nil, fmt.Errorf("%q: stands among those of %s", line, current)
			}
			if kinds[current] == "gauge" && (strings.HasSuffix(base, "_total") || strings.HasSuffix(base, "_count") ||
				strings.HasSuffix(base, "_sum")) {
				return nil, fmt.Errorf("%q: a gauge with the suffix of another type", line)
			}
			if _, twice := series[name]; twice {
				return nil, fmt.Errorf("%q: twice", line)
			}
			series[name] = value
		}
	}
	return series, nil
}

func seriesOf(line string) (string, float64, error) {
	match := metricLine.FindStringSubmatch(line)
	if match == nil {
		return "", 0, fmt.Errorf("%q: no series", line)
	}
	seen := map[string]bool{}
	for rest := match[2]; rest != ""; {
		pair := labelPair.FindStringSubmatch(rest)
		if pair == nil || seen[pair[1]] {
			return "", 0, fmt.Errorf("%q: labels at %q", line, rest)
		}
		seen[pair[1]] = true
		rest = rest[len(pair[0]):]
	}
	value, err := strconv.ParseFloat(match[3], 64)
	return line[:len(line)-len(match[3])-1], value, err
}

func TestPrometheusParses(t *testing.T) {
	s := set(t, Prometheus)
	s.Runs[0].Label = "back\\slash, \"quote\" and\nline"
	series := must.Get(parsed(written(t, Prometheus, s)))(t)
	find := func(name string, labels ...string) float64 {
		t.Helper()
		found := math.NaN()
		n := 0
		for key, value := range series {
			ok := strings.HasPrefix(key, name+"{")
			for _, l := range labels {
				ok = ok && strings.Contains(key, l)
			}
			if ok {
				found = value
				n++
			}
		}
		must.Need(t, n == 1, "%d series are %s with %q", n, name, labels)
		return found
	}
	rr := recorded(t, "rr")
	p99, _ := rr.Latency.Percentile(99)
	near := func(have, want float64) {
		t.Helper()
		if math.Abs(have-want) > 1e-9*math.Abs(want) {
			t.Errorf("found %v, expected %v", have, want)
		}
	}
	near(find("mpps_bench_transactions_per_second"), rr.Median.Value)
	near(find("mpps_bench_latency_seconds", `kind="rr"`, `quantile="0.99"`), float64(p99)/1e9)
	near(find("mpps_bench_latency_seconds_count", `kind="rr"`), float64(rr.Latency.Count))
	near(find("mpps_bench_packets_per_second_upper", `side="before"`), recorded(t, "pps").Median.Hi)
	near(find("mpps_bench_bytes_per_second"), recorded(t, "stream").Median.Value/8)
	near(find("mpps_bench_ratio"), compared(t).Ratio.Value)
	near(find("mpps_bench_lost_packets", `side="after"`), float64(recorded(t, "pps").Lost))
	find("mpps_bench_packets_per_second", `run="back\\slash, \"quote\" and\nline"`)
}

// TestParserCanFail: what no server would take is refused.
func TestParserCanFail(t *testing.T) {
	const head = "# HELP a_ratio x\n# TYPE a_ratio gauge\n"
	for text, ok := range map[string]bool{
		head + "a_ratio{b=\"c\"} 1\n":                     true,
		head + "a_ratio{b=\"c\"} 1":                       false,
		head + "a_ratio{b=\"c\"} 1\na_ratio{b=\"c\"} 2\n": false,
		head + "a_ratio{b=\"c\"d\"} 1\n":                  false,
		head + "a_ratio{b=\"c\",b=\"d\"} 1\n":             false,
		head + "a_ratio{b-c=\"d\"} 1\n":                   false,
		head + "b_ratio 1\n":                              false,
		head + head:                                       false,
		"a_ratio 1\n":                                     false,
		head + "a_ratio one\n":                            false,
	} {
		if _, err := parsed(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
