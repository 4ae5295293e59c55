package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	r := Report{Rows: []Row{
		{Name: "ours", PPS: []float64{20, 10, 30}},
		{Name: "half", PPS: []float64{10, 5, 15}},
		{Name: "drifts", PPS: []float64{2, 9, 3}},
		{Name: "gone", Failed: "not installed (apt install it)"},
	}}
	r.summarise()
	for i, want := range []struct{ median, ratio float64 }{{20, 1}, {10, 0.5}, {3, 0.1}, {0, 0}} {
		if row := r.Rows[i]; row.Median != want.median || row.Ratio != want.ratio {
			t.Errorf("%s: median %g, ratio %g, want %+v", row.Name, row.Median, row.Ratio, want)
		}
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not installed (apt install it)", "2.0×"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of four is %g", m)
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
	for _, args := range [][]string{{"-rounds", "0"}, {"-seconds", "0"}, {"extra"}, {"-nonsense"}} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != 64 || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, &errs)
		}
	}
}
