package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"mpps/internal/measure"
)

// percentiles are the latency columns. One without enough samples above it stays empty.
var percentiles = []float64{50, 90, 99, 99.9, 99.99, 99.999}

var header = []string{
	"run", "side", "kind", "host", "from", "to", "frame", "ways", "flows", "connections", "started", "emulated",
	"limited_by", "trial", "value", "unit", "seconds",
	"offered_pps", "sent", "received", "lost", "duplicated", "reordered", "transactions", "bytes", "retransmits",
	"cpu_ns_per_unit", "latency_min_ns", "latency_mean_ns",
	"latency_p50_ns", "latency_p90_ns", "latency_p99_ns", "latency_p99_9_ns", "latency_p99_99_ns", "latency_p99_999_ns",
	"latency_max_ns",
	"vhost_ns_per_unit", "vcpu_ns_per_unit", "emulator_ns_per_unit",
}

// rows writes RFC 4180: a header, then a row per sample, lines ending in CR LF. Columns that do not apply to a run's
// kind are empty.
func rows(w io.Writer, s *Set) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(header); err != nil {
		return err
	}
	for _, l := range s.Runs {
		for i, sample := range l.Run.Samples {
			if err := out.Write(row(l, i, sample)); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func row(l Labeled, i int, s measure.Sample) []string {
	r := l.Run
	integer := func(of bool, v uint64) string {
		if !of {
			return ""
		}
		return strconv.FormatUint(v, 10)
	}
	pps, trips, stream := r.Kind == measure.PPS, transactional(r.Kind), r.Kind == measure.Stream
	counted, offered := pps || trips && s.Sent > 0, "" // requests over UDP, and those on a schedule
	if pps || s.OfferedPPS > 0 {
		offered = decimal(s.OfferedPPS)
	}
	cells := []string{
		l.Label, l.Side, string(r.Kind), r.Host, place(r.From), place(r.To),
		frames(r), integer(pps, uint64(r.Load.Ways())), integer(pps, uint64(max(r.Load.Flows, 1))),
		integer(!pps, uint64(max(r.Load.Connections, 1))),
		r.Started.UTC().Format(time.RFC3339Nano), strconv.FormatBool(r.Environment.Emulated),
		string(r.LimitedBy), strconv.Itoa(i + 1), decimal(s.Value(r.Kind)), r.Kind.Unit(), decimal(s.Seconds),
		offered, integer(counted, s.Sent), integer(counted, s.Received), integer(counted, s.Lost),
		integer(pps, s.Duplicated), integer(pps, s.Reordered),
		integer(trips, s.Transactions), integer(stream, s.Bytes), integer(stream, s.Retransmits),
		decimal(s.CPUNsPerUnit),
	}
	d := s.Latency
	if d == nil {
		cells = append(cells, make([]string, len(header)-len(threadColumns)-len(cells))...)
		return append(cells, threads(s)...)
	}
	cells = append(cells, integer(true, d.MinNs), decimal(d.MeanNs))
	for _, p := range percentiles {
		value, ok := d.Percentile(p)
		cells = append(cells, integer(ok, value))
	}
	cells = append(cells, integer(true, d.MaxNs))
	return append(cells, threads(s)...)
}

// threadColumns are the roles with a column, the last ones of a row. All guests count together.
var threadColumns = []measure.Role{measure.Vhost, measure.VCPU, measure.Emulator}

func threads(s measure.Sample) []string {
	cells := make([]string, len(threadColumns))
	for i, role := range threadColumns {
		sum, known := 0.0, false
		for _, u := range s.Threads {
			if u.Role == role {
				sum, known = sum+u.NsPerUnit, true
			}
		}
		if known {
			cells[i] = decimal(sum)
		}
	}
	return cells
}
