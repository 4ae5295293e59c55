package export

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"

	"mpps/internal/measure"
)

// netperf writes what 'netperf -- -k' would, with the names of its omni output selectors (doc/omni_output_list.txt of
// netperf 2.7; units and digits from print_omni_init_list in src/nettest_omni.c): latencies in microseconds, CPU
// utilisation in percent of all CPUs, THROUGHPUT_CONFID as the whole width of the interval in percent of the value.
//
// Differences in meaning: THROUGHPUT is the median of the trials, where netperf has the mean; a pps run counts packets,
// for which netperf has no unit; CONFIDENCE_LEVEL is the interval's actual confidence, rounded down.
// CONFIDENCE_INTERVAL, the width requested with -I, is not written, because none is requested.
func netperf(w io.Writer, s *Set) error {
	b := bufio.NewWriter(w)
	for i, l := range s.Runs {
		if i > 0 {
			fmt.Fprintln(b)
		}
		netperfRun(func(key, format string, value any) {
			text := strings.Join(strings.Fields(fmt.Sprintf(format, value)), " ") // one line, whatever a name contains
			fmt.Fprintf(b, "%s=%s\n", key, text)
		}, l)
	}
	return b.Flush()
}

type put func(key, format string, value any)

func netperfRun(put put, l Labeled) {
	r := l.Run
	if brand := strings.TrimSpace(l.Label + " " + l.Side); brand != "" {
		put("RESULT_BRAND", "%s", brand)
	}
	direction := "Send"
	switch {
	case r.Kind == measure.CRR:
		direction = "Connect|Send|Recv"
	case transactional(r.Kind) || r.Load.TwoWay:
		direction = "Send|Recv"
	case strings.HasPrefix(r.From.Where, "agent"):
		direction = "Receive"
	}
	put("PROTOCOL", "%s", protocol(r))
	put("DIRECTION", "%s", direction)
	put("ELAPSED_TIME", "%.2f", trafficSeconds(r))
	value, unit := r.Median.Value, "Packets/s"
	switch {
	case transactional(r.Kind):
		unit = "Trans/s"
	case r.Kind == measure.Stream:
		value, unit = value/1e6, "10^6bits/s"
	}
	put("THROUGHPUT", "%.2f", value)
	put("THROUGHPUT_UNITS", "%s", unit)
	if transactional(r.Kind) {
		put("REQUEST_SIZE", "%d", r.Load.Request)
		put("RESPONSE_SIZE", "%d", r.Load.Response)
		put("TRANSACTION_RATE", "%.3f", r.Median.Value)
		// netperf also derives it from the rate, and only a closed loop has one request per connection in flight.
		if r.Median.Value > 0 && r.Load.Rate == 0 {
			put("RT_LATENCY", "%.3f", float64(max(r.Load.Connections, 1))*1e6/r.Median.Value)
		}
	}
	if r.Kind == measure.Stream {
		put("LOCAL_TRANSPORT_RETRANS", "%d", retransmits(r))
	}
	netperfLatency(put, r.Latency)
	netperfCPU(put, r)
	if r.Median.N > 1 {
		put("CONFIDENCE_LEVEL", "%d", int(math.Floor(r.Median.Level*100)))
		put("CONFIDENCE_ITERATION", "%d", r.Median.N)
		if r.Median.Value > 0 {
			put("THROUGHPUT_CONFID", "%.3f", (r.Median.Hi-r.Median.Lo)/r.Median.Value*100)
		}
	}
	if a := host(r.From.Address); a != "" {
		put("SOURCE_ADDR", "%s", a)
	}
	if a := host(r.To.Address); a != "" {
		put("DEST_ADDR", "%s", a)
	}
}

// netperfLatency writes the selectors of netperf -j, without percentiles that have too few samples above them.
func netperfLatency(put put, l *measure.Latency) {
	if l == nil {
		return
	}
	put("MIN_LATENCY", "%.3f", float64(l.MinNs)/1e3)
	put("MAX_LATENCY", "%.3f", float64(l.MaxNs)/1e3)
	for _, p := range l.Percentiles {
		if p.P == math.Trunc(p.P) { // netperf has P50, P90 and P99
			put(fmt.Sprintf("P%g_LATENCY", p.P), "%.3f", float64(p.ValueNs)/1e3)
		}
	}
	put("MEAN_LATENCY", "%.3f", l.MeanNs/1e3)
	put("STDDEV_LATENCY", "%.3f", deviation(l)/1e3)
}

func netperfCPU(put put, r *measure.Run) {
	for i, side := range []string{"LOCAL", "REMOTE"} {
		m := use(r, i)
		if m == nil || len(m.CPUs) == 0 {
			continue
		}
		put(side+"_CPU_UTIL", "%.2f", share(m.Total()))
		put(side+"_CPU_METHOD", "%s", "S") // netperf's letter for /proc/stat
		peak := m.CPUs[0]
		for _, u := range m.CPUs {
			if share(u) > share(peak) {
				peak = u
			}
		}
		put(side+"_CPU_COUNT", "%d", len(m.CPUs))
		put(side+"_CPU_PEAK_UTIL", "%.2f", share(peak))
		put(side+"_CPU_PEAK_ID", "%d", peak.CPU)
	}
	// Service demand: CPU time of the near machine, in microseconds per transaction or per 1024 bytes.
	switch {
	case r.CPUNsPerUnit <= 0:
	case transactional(r.Kind):
		put("LOCAL_SD", "%.3f", r.CPUNsPerUnit/1e3)
		put("SD_UNITS", "%s", "usec/Tran")
	case r.Kind == measure.Stream:
		put("LOCAL_SD", "%.3f", r.CPUNsPerUnit*1024/1e3)
		put("SD_UNITS", "%s", "usec/KB")
	}
}

func protocol(r *measure.Run) string {
	switch {
	case r.Load.Protocol != "":
		return strings.ToUpper(r.Load.Protocol)
	case r.Kind == measure.PPS:
		return "UDP"
	}
	return "TCP"
}
