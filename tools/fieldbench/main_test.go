package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	p := Part{Title: "of the test", Unit: "Mpps", Scale: 1e6, Rows: []Row{
		{Name: "ours", Values: []float64{20e6, 10e6, 30e6}},
		{Name: "half", Values: []float64{10e6, 5e6, 15e6}},
		{Name: "drifts", Values: []float64{2e6, 9e6, 3e6}},
		{Name: "gone", Failed: "not installed (apt install it)"},
	}}
	p.summarise()
	for i, want := range []struct{ median, ratio float64 }{{20e6, 1}, {10e6, 0.5}, {3e6, 0.1}, {0, 0}} {
		if row := p.Rows[i]; row.Median.Value != want.median || row.Ratio.Value != want.ratio {
			t.Errorf("%s: median %g, ratio %g, want %+v", row.Name, row.Median.Value, row.Ratio.Value, want)
		}
	}
	var out bytes.Buffer
	if err := (&Report{Parts: []Part{p}}).print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not installed (apt install it)", "0.500", "10–30"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}

// TestInterleave: everybody has a turn in each round, each time in another
// place; who fails once is out.
func TestInterleave(t *testing.T) {
	var order string
	who := func(name string, failAt int) contestant {
		turns := 0
		return contestant{row: Row{Name: name}, turn: func(context.Context) ([]float64, error) {
			order += name
			if turns++; turns == failAt {
				return nil, errors.New("broke")
			}
			return []float64{float64(turns), 10 * float64(turns)}, nil
		}}
	}
	all := []contestant{who("a", 0), who("b", 2), who("c", 0), {row: Row{Name: "d", Failed: "missing"}}}
	parts, err := interleave(t.Context(), options{rounds: 3, progress: io.Discard}, all, []Part{{Scale: 1}, {Scale: 1}})
	if err != nil || order != "abcbcaca" {
		t.Fatalf("order %s: %v", order, err)
	}
	for i, want := range []string{"[1 2 3] ", "[] broke", "[1 2 3] ", "[] missing"} {
		row := parts[0].Rows[i]
		if got := fmt.Sprint(row.Values, " ", row.Failed); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
	if v := parts[1].Rows[2].Values; len(v) != 3 || v[2] != 30 {
		t.Errorf("the second figure of c: %v", v)
	}
}

// TestParse: what the others print, as they printed it.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		parse        func([]byte) (float64, float64, error)
		in           string
		median, mean float64
	}{
		{parseNetperf, "65,67.00\n", 65, 67},
		{parseSockperf, "sockperf: ====> avg-rtt=5.568 (std-dev=1.001)\nsockperf: Summary: Round trip is 5.568 usec\n" +
			"sockperf: Total 359024 observations\nsockperf: ---> percentile 99.000 =    6.457\n" +
			"sockperf: ---> percentile 50.000 =    5.450\n", 5.45, 5.568},
		{parseMpps, `{"schema":"mpps.bench-rr/1","result":{"samples":[{"latency":{"mean_ns":5600,` +
			`"percentiles":[{"p":50,"value_ns":5503},{"p":99,"value_ns":7000}]}}]}}`, 5.503, 5.6},
	} {
		median, mean, err := c.parse([]byte(c.in))
		if err != nil || median != c.median || mean != c.mean {
			t.Errorf("%q: %g, %g, %v", c.in, median, mean, err)
		}
		if _, _, err := c.parse([]byte("{}")); err == nil {
			t.Errorf("nonsense was taken for figures of %q", c.in)
		}
	}
	busy, err := parseMpstat([]byte(`{"sysstat":{"hosts":[{"statistics":[{"cpu-load":[` +
		`{"cpu":"all","usr":1.5,"soft":0.5,"iowait":1,"steal":1,"idle":60}]}]}]}}`))
	if err != nil || busy != 0.38 {
		t.Errorf("mpstat: %g, %v", busy, err)
	}
	if _, err := parseMpstat([]byte("{}")); err == nil {
		t.Error("nonsense was taken for mpstat's figures")
	}
	if busy := busySamples([]byte("ffffffff821f2c2b pv_native_safe_halt\nffffffff82200f18 [unknown]\n\n" +
		"    4a1b read_tsc\n ffffffff1 default_idle\n")); busy != 0.5 {
		t.Errorf("perf: %g", busy)
	}
}

func TestLastLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "",
		"a\nb\n":                              "b",
		"start\nEAL: Error - no such\nbye\n":  "EAL: Error - no such",
		"ok\nCouldn't open\nUsage: x\n  -h\n": "Couldn't open",
	} {
		if got := lastLine([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestTaskSeconds(t *testing.T) {
	proc := t.TempDir()
	for pid, text := range map[string]string{
		"1":  "1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 4 0 0",
		"22": "22 (a (b) c) S 1 1 1 0 -1 4194560 1 2 3 4 100 0 9 9 20 0 1 0 4 0 0",
	} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := taskSeconds(proc); err != nil || sum != 4 {
		t.Errorf("%g s, %v, want 4", sum, err)
	}
}

// TestTrafgenFrame: the frame given to trafgen has a right IPv4 checksum, as
// ours have.
func TestTrafgenFrame(t *testing.T) {
	args, err := trafgenArgs(&link{nearMAC: "02:00:00:00:00:01", farMAC: "02:00:00:00:00:02"})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Trim(args[len(args)-1], "{} ")
	var frame []byte
	for _, w := range strings.Split(text, ", ") {
		var b byte
		if _, err := fmt.Sscanf(w, "0x%02x", &b); err != nil {
			t.Fatal(err)
		}
		frame = append(frame, b)
	}
	var sum uint32
	for i := 14; i < 34; i += 2 {
		sum += uint32(frame[i])<<8 | uint32(frame[i+1])
	}
	if sum = sum&0xffff + sum>>16; len(frame) != 60 || sum != 0xffff {
		t.Errorf("%d bytes, header sums to %#x", len(frame), sum)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-seconds", "0"}, {"extra"}, {"-nonsense"},
		{"-parts", "rr,all"}} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != 64 || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, &errs)
		}
	}
}
