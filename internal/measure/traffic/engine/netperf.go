package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Target is an engine's server and the way to reach it.
type Target struct {
	Netns string // the client's network namespace
	Addr  string // host:port, the host an IP address
	Conns int    // concurrent connections, at least 1
}

// Transactions is the result of requests and responses.
type Transactions struct {
	PerSecond   float64
	Elapsed     time.Duration
	Retransmits uint64 // 0 if the program does not report it
	// Delays of whole transactions, in whole microseconds as the program reports them; nil with several connections,
	// whose distributions cannot be merged.
	Delays *Delays
}

// Delays are a summary of a distribution.
type Delays struct {
	Min, Mean, Max time.Duration
	P50, P90, P99  time.Duration
}

// Stream is the result of a stream.
type Stream struct {
	Bytes       uint64 // received
	Omitted     uint64 // bytes before the measurement, as seen by the client
	Elapsed     time.Duration
	BitsPerS    float64
	Retransmits uint64
}

// Output selectors of netperf's omni tests (-k), since 2.5.
var (
	netperfRR = []string{"THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME", "LOCAL_TRANSPORT_RETRANS", "MIN_LATENCY",
		"MEAN_LATENCY", "P50_LATENCY", "P90_LATENCY", "P99_LATENCY", "MAX_LATENCY"}
	netperfStream = []string{"THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME", "LOCAL_TRANSPORT_RETRANS",
		"LOCAL_BYTES_RECVD", "REMOTE_BYTES_RECVD"}
)

// grace is how long a client may run beyond its duration.
const grace = 20 * time.Second

// netperf runs a test, once per connection at the same time, and passes each output to add.
func (p Program) netperf(ctx context.Context, t Target, test string, seconds int, options, keys []string,
	add func(map[string]string) error) error {
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return err
	}
	argv := append([]string{p.client, "-H", host, "-p", port, "-t", test, "-l", strconv.Itoa(seconds), "-P", "0", "--"},
		options...)
	argv = append(argv, "-k", strings.Join(keys, ","))
	outs, errs := make([][]byte, t.Conns), make([]error, t.Conns)
	var wait sync.WaitGroup
	for i := range t.Conns {
		wait.Go(func() {
			outs[i], errs[i] = run(ctx, command{netns: t.Netns, argv: argv,
				within: time.Duration(seconds)*time.Second + grace})
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		// netperf reports a missing server on standard output.
		if bytes.Contains(bytes.Join(outs, nil), []byte("establish control")) {
			err = fmt.Errorf("%w: %w", ErrUnreachable, errs[0])
		}
		return err
	}
	for _, out := range outs {
		values, err := parseNetperf(out, keys)
		if err == nil {
			err = add(values)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Version, err)
		}
	}
	return nil
}

// parseNetperf reads lines of KEY=VALUE. Every key must be present.
func parseNetperf(out []byte, keys []string) (map[string]string, error) {
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
			values[key] = value
		}
	}
	for _, key := range keys {
		if _, found := values[key]; !found {
			return nil, fmt.Errorf("found %q, expected %s=: %w", firstLine(out), key, ErrOld)
		}
	}
	return values, nil
}

// parseNumbers parses the values of keys. netperf writes −1 for what it does not know, which becomes 0.
func parseNumbers(values map[string]string, into map[string]*float64) error {
	for key, to := range into {
		n, err := strconv.ParseFloat(values[key], 64)
		if err != nil || math.IsNaN(n) || n > 1e15 || key == "ELAPSED_TIME" && n > 1e6 {
			return fmt.Errorf("%s=%s: expected a number", key, values[key])
		}
		*to = max(n, 0)
	}
	return nil
}

func (t *Transactions) add(values map[string]string) error {
	if unit := values["THROUGHPUT_UNITS"]; unit != "Trans/s" {
		return fmt.Errorf("THROUGHPUT_UNITS=%s: expected Trans/s", unit)
	}
	var rate, elapsed, retransmits, shortest, mean, p50, p90, p99, longest float64
	err := parseNumbers(values, map[string]*float64{
		"THROUGHPUT": &rate, "ELAPSED_TIME": &elapsed, "LOCAL_TRANSPORT_RETRANS": &retransmits,
		"MIN_LATENCY": &shortest, "MEAN_LATENCY": &mean, "P50_LATENCY": &p50, "P90_LATENCY": &p90,
		"P99_LATENCY": &p99, "MAX_LATENCY": &longest,
	})
	if err != nil {
		return err
	}
	µs := func(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
	t.PerSecond += rate
	t.Elapsed = max(t.Elapsed, time.Duration(elapsed*float64(time.Second)))
	t.Retransmits += uint64(retransmits)
	t.Delays = &Delays{Min: µs(shortest), Mean: µs(mean), Max: µs(longest), P50: µs(p50), P90: µs(p90), P99: µs(p99)}
	return nil
}

func (s *Stream) add(values map[string]string) error {
	if unit := values["THROUGHPUT_UNITS"]; unit != "10^6bits/s" {
		return fmt.Errorf("THROUGHPUT_UNITS=%s: expected 10^6bits/s", unit)
	}
	var rate, elapsed, retransmits, local, remote float64
	err := parseNumbers(values, map[string]*float64{
		"THROUGHPUT": &rate, "ELAPSED_TIME": &elapsed, "LOCAL_TRANSPORT_RETRANS": &retransmits,
		"LOCAL_BYTES_RECVD": &local, "REMOTE_BYTES_RECVD": &remote,
	})
	if err != nil {
		return err
	}
	s.BitsPerS += rate * 1e6
	s.Bytes += uint64(local + remote)
	s.Elapsed = max(s.Elapsed, time.Duration(elapsed*float64(time.Second)))
	s.Retransmits += uint64(retransmits)
	return nil
}

// RR describes transactions.
type RR struct {
	Seconds           int
	Request, Response int // bytes
	UDP               bool
	Connect           bool // a new connection for each
}

// Transactions runs transactions with netperf.
func (p Program) Transactions(ctx context.Context, t Target, c RR) (Transactions, error) {
	test := "TCP_RR"
	switch {
	case c.UDP:
		test = "UDP_RR"
	case c.Connect:
		test = "TCP_CRR"
	}
	var r Transactions
	err := p.netperf(ctx, t, test, c.Seconds, []string{"-r", fmt.Sprintf("%d,%d", c.Request, c.Response)}, netperfRR,
		r.add)
	if t.Conns > 1 {
		r.Delays = nil
	}
	return r, err
}

func (p Program) netperfStream(ctx context.Context, t Target, c StreamConfig) (Stream, error) {
	test := "TCP_STREAM"
	if c.Reverse {
		test = "TCP_MAERTS"
	}
	var s Stream
	return s, p.netperf(ctx, t, test, c.Seconds, nil, netperfStream, s.add)
}
