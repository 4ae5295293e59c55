package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// StreamConfig describes a stream.
type StreamConfig struct {
	Seconds  int
	Omit     int // leading seconds that are not counted; iperf3 only
	Reverse  bool
	Sendfile bool // iperf3 only
}

// Stream runs a stream.
func (p Program) Stream(ctx context.Context, t Target, c StreamConfig) (Stream, error) {
	if p.Name == Netperf {
		return p.netperfStream(ctx, t, c)
	}
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return Stream{}, err
	}
	argv := []string{p.client, "-c", host, "-p", port, "-J", "-t", strconv.Itoa(c.Seconds), "-P", strconv.Itoa(t.Conns)}
	if c.Omit > 0 {
		argv = append(argv, "-O", strconv.Itoa(c.Omit))
	}
	if c.Reverse {
		argv = append(argv, "-R")
	}
	if c.Sendfile {
		argv = append(argv, "-Z")
	}
	out, failed := run(ctx, command{netns: t.Netns, argv: argv,
		within: time.Duration(c.Seconds+c.Omit)*time.Second + grace})
	if ctx.Err() != nil {
		return Stream{}, context.Cause(ctx)
	}
	// The JSON also says what went wrong.
	s, err := parseIperf3(out)
	if err == nil || failed != nil && errors.Is(err, ErrOld) {
		return s, failed
	}
	return s, fmt.Errorf("%s: %w", p.Version, err)
}

// iperf3Output is the part of iperf3's JSON that is used (iperf_api.c, iperf_json_finish and iperf_print_results).
type iperf3Output struct {
	Start json.RawMessage `json:"start"`
	Error string          `json:"error"`
	Parts []struct {
		Sum struct {
			Bytes   float64 `json:"bytes"`
			Omitted bool    `json:"omitted"`
		} `json:"sum"`
	} `json:"intervals"`
	End struct {
		Sent     iperf3Sum `json:"sum_sent"`
		Received iperf3Sum `json:"sum_received"`
	} `json:"end"`
}

type iperf3Sum struct {
	Seconds     float64 `json:"seconds"`
	Bytes       float64 `json:"bytes"`
	BitsPerS    float64 `json:"bits_per_second"`
	Retransmits float64 `json:"retransmits"` // of the sender, if its kernel counts them
}

func parseIperf3(out []byte) (Stream, error) {
	var o iperf3Output
	if err := json.Unmarshal(out, &o); err != nil || o.Start == nil {
		return Stream{}, fmt.Errorf("found %q, expected JSON: %w", firstLine(out), ErrOld)
	}
	switch {
	case strings.Contains(o.Error, "unable to connect"):
		return Stream{}, fmt.Errorf("%w: %s", ErrUnreachable, o.Error)
	case o.Error != "":
		return Stream{}, errors.New(o.Error)
	}
	r := o.End.Received
	if r.Seconds <= 0 || r.Bytes < 0 || r.BitsPerS < 0 || r.Seconds > 1e6 || r.Bytes > 1e18 ||
		o.End.Sent.Retransmits < 0 {
		return Stream{}, fmt.Errorf("%g bytes received in %g seconds: %w", r.Bytes, r.Seconds, ErrOld)
	}
	s := Stream{
		Bytes: uint64(r.Bytes), Elapsed: time.Duration(math.Round(r.Seconds * 1e9)), BitsPerS: r.BitsPerS,
		Retransmits: uint64(o.End.Sent.Retransmits),
	}
	for _, part := range o.Parts {
		if part.Sum.Omitted && part.Sum.Bytes > 0 && part.Sum.Bytes < 1e18 {
			s.Omitted += uint64(part.Sum.Bytes)
		}
	}
	return s, nil
}
