package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Target says where an engine's server is and how to reach it.
type Target struct {
	Netns string // the client's network namespace
	Addr  string // host:port, the host an IP address
	Conns int    // at a time, 1 or more
}

// Transactions is what a program says of requests and responses.
type Transactions struct {
	PerSecond   float64
	Elapsed     time.Duration
	Retransmits uint64 // 0 where the program does not tell
	// Delays of whole transactions, as the program tells them, in whole microseconds; nil with several connections,
	// whose distributions cannot be put together.
	Delays *Delays
}

// Delays are what is known of a distribution.
type Delays struct {
	Min, Mean, Max time.Duration
	P50, P90, P99  time.Duration
}

// Stream is what a program says of a stream.
type Stream struct {
	Bytes       uint64 // received
	Omitted     uint64 // bytes before, which are not counted, as the client saw them
	Elapsed     time.Duration
	BitsPerS    float64
	Retransmits uint64
}

// The selectors of netperf's omni output (-k), since 2.5.
var (
	netperfRR = []string{"THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME", "LOCAL_TRANSPORT_RETRANS", "MIN_LATENCY",
		"MEAN_LATENCY", "P50_LATENCY", "P90_LATENCY", "P99_LATENCY", "MAX_LATENCY"}
	netperfStream = []string{"THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME", "LOCAL_TRANSPORT_RETRANS",
		"LOCAL_BYTES_RECVD", "REMOTE_BYTES_RECVD"}
)

// beyond is how much longer than asked for a client may take.
const beyond = 20 * time.Second

// netperf runs a test, once for each connection at the same time, and hands each output to take.
func (p Program) netperf(ctx context.Context, t Target, test string, seconds int, options, keys []string,
	take func(map[string]string) error) error {
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
				within: time.Duration(seconds)*time.Second + beyond})
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		// It says on standard output that its server is not there.
		if bytes.Contains(bytes.Join(outs, nil), []byte("establish control")) {
			err = fmt.Errorf("%w: %w", ErrUnreachable, errs[0])
		}
		return err
	}
	for _, out := range outs {
		values, err := parseNetperf(out, keys)
		if err == nil {
			err = take(values)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Version, err)
		}
	}
	return nil
}

// parseNetperf reads lines of KEY=VALUE, among which every key must be.
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

// number is the value of a key; netperf writes −1 for what it does not know, which is 0 here.
func number(values map[string]string, key string) (float64, error) {
	n, err := strconv.ParseFloat(values[key], 64)
	if err != nil || n != n || n > 1e15 || key == "ELAPSED_TIME" && n > 1e6 {
		return 0, fmt.Errorf("%s=%s: expected a number", key, values[key])
	}
	return max(n, 0), nil
}

// numbers reads several.
func numbers(values map[string]string, into map[string]*float64) error {
	for key, n := range into {
		var err error
		if *n, err = number(values, key); err != nil {
			return err
		}
	}
	return nil
}

func (t *Transactions) take(values map[string]string) error {
	if unit := values["THROUGHPUT_UNITS"]; unit != "Trans/s" {
		return fmt.Errorf("THROUGHPUT_UNITS=%s: expected Trans/s", unit)
	}
	var rate, elapsed, again, least, mean, p50, p90, p99, most float64
	err := numbers(values, map[string]*float64{
		"THROUGHPUT": &rate, "ELAPSED_TIME": &elapsed, "LOCAL_TRANSPORT_RETRANS": &again, "MIN_LATENCY": &least,
		"MEAN_LATENCY": &mean,
		"P50_LATENCY":  &p50, "P90_LATENCY": &p90, "P99_LATENCY": &p99, "MAX_LATENCY": &most,
	})
	if err != nil {
		return err
	}
	µs := func(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
	t.PerSecond += rate
	t.Elapsed = max(t.Elapsed, time.Duration(elapsed*float64(time.Second)))
	t.Retransmits += uint64(again)
	t.Delays = &Delays{Min: µs(least), Mean: µs(mean), Max: µs(most), P50: µs(p50), P90: µs(p90), P99: µs(p99)}
	return nil
}

func (s *Stream) take(values map[string]string) error {
	if unit := values["THROUGHPUT_UNITS"]; unit != "10^6bits/s" {
		return fmt.Errorf("THROUGHPUT_UNITS=%s: expected 10^6bits/s", unit)
	}
	var rate, elapsed, again, here, there float64
	err := numbers(values, map[string]*float64{
		"THROUGHPUT": &rate, "ELAPSED_TIME": &elapsed, "LOCAL_TRANSPORT_RETRANS": &again, "LOCAL_BYTES_RECVD": &here,
		"REMOTE_BYTES_RECVD": &there,
	})
	if err != nil {
		return err
	}
	s.BitsPerS += rate * 1e6
	s.Bytes += uint64(here + there)
	s.Elapsed = max(s.Elapsed, time.Duration(elapsed*float64(time.Second)))
	s.Retransmits += uint64(again)
	return nil
}

// RR is what transactions are like.
type RR struct {
	Seconds           int
	Request, Response int // bytes
	UDP               bool
	Connect           bool // a connection for each
}

// Transactions makes transactions with netperf.
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
		r.take)
	if t.Conns > 1 {
		r.Delays = nil
	}
	return r, err
}

// netperfStream makes a stream with netperf.
func (p Program) netperfStream(ctx context.Context, t Target, c StreamConfig) (Stream, error) {
	test := "TCP_STREAM"
	if c.Reverse {
		test = "TCP_MAERTS"
	}
	var s Stream
	return s, p.netperf(ctx, t, test, c.Seconds, nil, netperfStream, s.take)
}
