package engine

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return b
}

func TestNetperfTransactions(t *testing.T) {
	for name, want := range map[string]Transactions{
		"tcp_rr": {PerSecond: 17001.60, Elapsed: time.Second, Delays: &Delays{
			Min: 5 * time.Microsecond, Mean: 58760, P50: 52 * time.Microsecond, P90: 61 * time.Microsecond,
			P99: 223 * time.Microsecond, Max: 4012 * time.Microsecond}},
		"udp_rr": {PerSecond: 27948.49, Elapsed: time.Second, Delays: &Delays{
			Min: 4 * time.Microsecond, Mean: 35740, P50: 46 * time.Microsecond, P90: 53 * time.Microsecond,
			P99: 152 * time.Microsecond, Max: 1370 * time.Microsecond}},
		"tcp_crr": {PerSecond: 15350.43, Elapsed: time.Second, Delays: &Delays{
			Min: 22 * time.Microsecond, Mean: 65080, P50: 58 * time.Microsecond, P90: 68 * time.Microsecond,
			P99: 284 * time.Microsecond, Max: 2501 * time.Microsecond}},
	} {
		values := must.Get(parseNetperf(recorded(t, "netperf-2.7.1-"+name+".txt"), netperfRR))(t)
		var got Transactions
		must.Do(t, got.add(values))
		must.Hold(t, got.PerSecond == want.PerSecond && got.Elapsed == want.Elapsed && got.Retransmits == 0 &&
			*got.Delays == *want.Delays, "%s: %+v %+v, want %+v %+v", name, got, got.Delays, want, want.Delays)
		must.Refuse(t, new(Stream).add(values), "%s was taken for a stream", name)
	}
}

func TestNetperfStream(t *testing.T) {
	var both Stream
	for _, name := range []string{"tcp_stream", "tcp_maerts"} {
		values := must.Get(parseNetperf(recorded(t, "netperf-2.7.1-"+name+".txt"), netperfStream))(t)
		must.Do(t, both.add(values))
	}
	want := Stream{Bytes: 651968512 + 579059712, Elapsed: time.Second, BitsPerS: (5214.74 + 4631.88) * 1e6,
		Retransmits: 1250}
	if both.Bytes != want.Bytes || both.Elapsed != want.Elapsed || both.Retransmits != want.Retransmits ||
		both.BitsPerS < want.BitsPerS-1 || both.BitsPerS > want.BitsPerS+1 {
		t.Errorf("%+v, want %+v", both, want)
	}
}

func TestIperf3(t *testing.T) {
	for name, want := range map[string]Stream{
		"two": {Bytes: 2571371248, Elapsed: 1000924 * time.Microsecond, BitsPerS: 20551979954.522022,
			Retransmits: 13708, Omitted: 2702573568},
		"reverse": {Bytes: 1848376592, Elapsed: 1000033 * time.Microsecond, BitsPerS: 14786524780.682238,
			Retransmits: 7102},
	} {
		got, err := parseIperf3(recorded(t, "iperf3-3.12-"+name+".json"))
		must.Hold(t, err == nil && got == want, "%s: %+v, %v; want %+v", name, got, err, want)
	}
	must.Is(t, must.Err(parseIperf3(recorded(t, "iperf3-3.12-refused.json"))), ErrUnreachable, "refused")
}

func TestNonsense(t *testing.T) {
	for _, text := range []string{"", "iperf: unrecognized option '-J'", "{}", `{"start": {}}`,
		`{"start": {}, "end": {"sum_received": {"seconds": -1}}}`} {
		must.Is(t, must.Err(parseIperf3([]byte(text))), ErrOld, "iperf3 that prints %q", text)
	}
	if _, err := parseIperf3([]byte(
		`{"start": {}, "error": "the server is busy running a test. try again later"}`)); err == nil ||
		errors.Is(err, ErrOld) || !strings.Contains(err.Error(), "busy") {
		t.Errorf("a busy server: %v", err)
	}
	for _, text := range []string{"", "TCP REQUEST/RESPONSE TEST\n16384 87380 1 1 1.00 17001.60\n", "THROUGHPUT=1\n"} {
		must.Is(t, must.Err(parseNetperf([]byte(text), netperfRR)), ErrOld, "netperf that prints %q", text)
	}
	for _, change := range []string{"THROUGHPUT=many", "P50_LATENCY=NaN", "ELAPSED_TIME=1e7", "MAX_LATENCY=1e300",
		"THROUGHPUT_UNITS=10^6bits/s"} {
		values := must.Get(parseNetperf(append(recorded(t, "netperf-2.7.1-tcp_rr.txt"), change...), netperfRR))(t)
		must.Refuse(t, new(Transactions).add(values), "%s was taken", change)
	}
}

// fake is a program of a name in the search path, which is nothing else.
func fake(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	must.Is(t, must.Err(Find(t.Context(), Netperf)), ErrMissing, "without a program")
	fake(t, "netperf", "echo Netperf version 2.7.1")
	if p, err := Find(t.Context(), Netperf); err != nil || p.Version != "netperf 2.7.1" {
		t.Errorf("%+v, %v", p, err)
	}
	fake(t, "iperf3", "echo 'iperf 3.12 (cJSON 1.7.15)'; echo Linux")
	if p, err := Find(t.Context(), Iperf3); err != nil || p.Version != "iperf3 3.12" || p.server == "" {
		t.Errorf("%+v, %v", p, err)
	}
	fake(t, "iperf3", "echo what; exit 1")
	must.Is(t, must.Err(Find(t.Context(), Iperf3)), ErrOld, "a program that says nothing of a version")
}

// TestFindRunsNothingElse: the engine of a campaign's file is one of two, and no program that somebody has put there.
func TestFindRunsNothingElse(t *testing.T) {
	planted := filepath.Join(t.TempDir(), "ran")
	fake(t, "other", "touch "+planted+"; echo version 1.0")
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	for _, name := range []string{"other", filepath.Join(dir, "other"), ""} {
		must.Refuse(t, must.Err(Find(t.Context(), Name(name))), "%q is an engine", name)
	}
	must.Is(t, must.Err(os.Stat(planted)), os.ErrNotExist, "another program was run")
}

// A program that hangs ends with the context, and what it started with it.
func TestHangs(t *testing.T) {
	fake(t, "iperf3", "case $1 in --version) echo iperf 3.12;; *) sleep 60;; esac")
	p := must.Get(Find(t.Context(), Iperf3))(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	begin := time.Now()
	_, err := p.Stream(ctx, Target{Addr: "127.0.0.1:1", Conns: 1}, StreamConfig{Seconds: 60})
	if !errors.Is(err, context.Canceled) || time.Since(begin) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	short, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	begin = time.Now()
	if _, err := p.Serve(short, "", "127.0.0.1", ""); !errors.Is(err, context.DeadlineExceeded) ||
		time.Since(begin) > 20*time.Second {
		t.Errorf("a server that does not listen: %v after %v", err, time.Since(begin))
	}
	fake(t, "iperf3", "case $1 in --version) echo iperf 3.12;; *) echo cannot; exit 3;; esac")
	if p, err = Find(t.Context(), Iperf3); err != nil {
		t.Fatal(err)
	}
	must.Say(t, must.Err(p.Serve(t.Context(), "", "127.0.0.1", "")), "cannot", "a server that ends")
}

func TestReach(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	must.Try(t, Reach(t.Context(), "", addr))
	l.Close()
	must.Is(t, Reach(t.Context(), "", addr), ErrUnreachable, "nobody listens")
}

func FuzzIperf3(f *testing.F) {
	for _, name := range []string{"two", "reverse", "refused"} {
		b := must.Get(os.ReadFile(filepath.Join("testdata", "iperf3-3.12-"+name+".json")))(f)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseIperf3(b); err == nil && (s.Elapsed <= 0 || s.BitsPerS < 0) {
			t.Errorf("%q: %+v", b, s)
		}
	})
}

func FuzzNetperf(f *testing.F) {
	for _, name := range []string{"tcp_rr", "tcp_crr", "udp_rr"} {
		b := must.Get(os.ReadFile(filepath.Join("testdata", "netperf-2.7.1-"+name+".txt")))(f)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := parseNetperf(b, netperfRR)
		if err != nil {
			return
		}
		var r Transactions
		if err := r.add(values); err == nil && (r.Elapsed < 0 || r.PerSecond < 0 || r.Delays.Max < 0) {
			t.Errorf("%q: %+v %+v", b, r, r.Delays)
		}
	})
}
