package export

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/HdrHistogram/hdrhistogram-go"

	"mpps/internal/measure"
)

const (
	hdrLowest  = 1                 // ns
	hdrHighest = 3_600_000_000_000 // ns: an hour, the same for every line so that readers can add them
	hdrFigures = 3
)

// hdr writes an HdrHistogram log of nanoseconds, an interval per sample, tagged with the run's label. It starts with
// the first run; the times of a run's intervals are those of its traffic, without pauses. Values of a bucket count as
// its upper edge, as in our percentiles, or as the highest value seen if that is lower.
func hdr(w io.Writer, s *Set) error {
	var b bytes.Buffer
	log := hdrhistogram.NewHistogramLogWriter(&b)
	begin := s.Runs[0].Run.Started.UnixMilli()
	for _, l := range s.Runs {
		begin = min(begin, l.Run.Started.UnixMilli())
	}
	err := firstOf(
		func() error { return log.OutputComment(fmt.Sprintf("[Logged with mpps %s]", configValue(s.Version))) },
		func() error { return log.OutputLogFormatVersion() },
		func() error { return log.OutputStartTime(begin) },
		func() error { return log.OutputBaseTime(begin) },
		func() error { return log.OutputLegend() },
	)
	if err != nil {
		return err
	}
	log.SetBaseTime(begin / 1000 * 1000) // as the line says
	for _, l := range s.Runs {
		at := float64(l.Run.Started.UnixMilli())
		for _, sample := range l.Run.Samples {
			from := at
			at += sample.Seconds * 1000
			err := firstOf(
				func() error { return interval(log, tag(l), sample.Latency, from, at) },
				// An open loop has a second distribution, which is not corrected for coordinated omission.
				func() error {
					return interval(log, strings.TrimPrefix(tag(l)+"_sent", "_"), sample.LatencyRaw, from, at)
				},
			)
			if err != nil {
				return err
			}
		}
	}
	_, err = b.WriteTo(w)
	return err
}

func firstOf(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// interval writes one line, or none without latency. Times are in milliseconds since the epoch.
func interval(log *hdrhistogram.HistogramLogWriter, tag string, l *measure.Latency, from, to float64) error {
	if l == nil {
		return nil
	}
	h, err := histogram(l)
	if err != nil {
		return err
	}
	h.SetTag(tag)
	h.SetStartTimeMs(int64(from))
	h.SetEndTimeMs(int64(to))
	if err := log.OutputIntervalHistogram(h); err != nil {
		return fmt.Errorf("encode the histogram: %w", err)
	}
	return nil
}

func histogram(l *measure.Latency) (*hdrhistogram.Histogram, error) {
	h := hdrhistogram.New(hdrLowest, hdrHighest, hdrFigures)
	for _, b := range l.Buckets {
		value := b.ToNs
		if l.MaxNs >= b.FromNs {
			value = min(value, l.MaxNs)
		}
		if err := h.RecordValues(int64(min(value, hdrHighest)), int64(b.Count)); err != nil {
			return nil, fmt.Errorf("delays up to %d ns: %w", b.ToNs, err)
		}
	}
	return h, nil
}

// tag identifies a run in the log. It must not contain commas or white space.
func tag(l Labeled) string {
	return strings.Map(func(c rune) rune {
		if c == ',' || unicode.IsSpace(c) || !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, strings.TrimSpace(l.Label+" "+l.Side))
}
