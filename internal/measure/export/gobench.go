package export

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"unicode"

	"mpps/internal/measure"
)

// gobench writes Go's benchmark format (golang.org/design/14313-benchmark-format): configuration lines whenever a value
// changes, and a line per sample, which gives benchstat the spread. An iteration is a trial. Names distinguish runs
// side by side, 'benchstat -col /run', and the sides of an interleaved comparison, 'benchstat -col side'.
func gobench(w io.Writer, s *Set) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "goos: linux\ngoarch: %s\npkg: mpps\nmpps: %s\n", runtime.GOARCH, configValue(s.Version))
	for _, unit := range []struct{ name, better string }{
		{"pkt/s", "higher"}, {"bit/s", "higher"}, {"tran/s", "higher"}, {"loss-%", "lower"},
	} {
		fmt.Fprintf(b, "Unit %s better=%s\n", unit.name, unit.better)
	}
	config := map[string]string{}
	for _, l := range s.Runs {
		r := l.Run
		for _, c := range [][2]string{
			{"host", r.Host}, {"kernel", r.Environment.Kernel}, {"cpu", r.Environment.CPU},
			{"emulated", yes(r.Environment.Emulated)},
			{"generator", r.Environment.Generator}, {"sink", r.Environment.Sink}, {"limited-by", string(r.LimitedBy)},
			{"side", l.Side},
		} {
			if value := configValue(c[1]); config[c[0]] != value {
				fmt.Fprintln(b, strings.TrimSpace(c[0]+": "+value)) // an empty value cancels the previous one
				config[c[0]] = value
			}
		}
		name := benchName(l)
		for _, sample := range r.Samples {
			fmt.Fprintf(b, "%s\t1", name)
			for _, v := range benchValues(r, sample) {
				fmt.Fprintf(b, "\t%s %s", number(v.value), v.unit)
			}
			fmt.Fprintln(b)
		}
	}
	return b.Flush()
}

func yes(v bool) string {
	if v {
		return "yes"
	}
	return ""
}

func configValue(text string) string { return strings.Join(strings.Fields(text), " ") }

// benchName returns the benchmark's name, with what was measured as sub-names. The last one must not end in a dash and
// digits, which would be read as GOMAXPROCS.
func benchName(l Labeled) string {
	r := l.Run
	name := "Benchmark" + map[measure.Kind]string{measure.PPS: "PPS", measure.Stream: "Stream", measure.RR: "RR",
		measure.CRR: "CRR"}[r.Kind]
	if name == "Benchmark" {
		name += strings.ToUpper(string(r.Kind))
	}
	add := func(key, value string) {
		if value != "" {
			name += "/" + key + "=" + benchWord(value)
		}
	}
	if l.Side == "" { // sides have the same name, so that benchstat compares them
		add("run", l.Label)
	}
	add("from", place(r.From))
	add("to", place(r.To))
	switch {
	case r.Kind == measure.PPS:
		if r.Load.Rate > 0 {
			add("rate", decimal(r.Load.Rate))
		}
		if r.Load.TwoWay {
			add("ways", "2")
		}
		add("flows", strconv.Itoa(max(r.Load.Flows, 1)))
		add("frame", frames(r))
	case transactional(r.Kind):
		add("protocol", strings.ToLower(protocol(r)))
		if r.Load.Rate > 0 {
			add("rate", decimal(r.Load.Rate))
		}
		add("request", strconv.Itoa(r.Load.Request))
		add("response", strconv.Itoa(r.Load.Response))
		add("connections", strconv.Itoa(max(r.Load.Connections, 1)))
	default:
		if r.Load.Sendfile {
			add("sendfile", "yes")
		}
		add("connections", strconv.Itoa(max(r.Load.Connections, 1)))
	}
	return name
}

// benchWord makes a value fit into a name: without white space, and without slashes and equals signs, which are
// separators.
func benchWord(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c) || !unicode.IsPrint(c):
			return '_'
		case c == '/' || c == '=':
			return ':'
		}
		return c
	}, text)
}

type benchValue struct {
	value float64
	unit  string
}

// benchValues returns the values of a sample. Times are in nanoseconds, which benchstat converts to seconds.
func benchValues(r *measure.Run, s measure.Sample) []benchValue {
	rate, each := "pkt/s", "ns/pkt-cpu"
	switch {
	case transactional(r.Kind):
		rate, each = "tran/s", "ns/tran-cpu"
	case r.Kind == measure.Stream:
		rate, each = "bit/s", "ns/B-cpu"
	}
	values := []benchValue{{s.Value(r.Kind), rate}, {s.CPUNsPerUnit, each}}
	if r.Kind == measure.PPS || s.Lost > 0 {
		values = append(values, benchValue{s.LossRatio() * 100, "loss-%"})
	}
	if s.Latency != nil {
		for _, p := range s.Latency.Percentiles {
			values = append(values, benchValue{float64(p.ValueNs), fmt.Sprintf("p%g-ns", p.P)})
		}
	}
	return values
}
