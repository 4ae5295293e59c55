//go:build netns

package main

import (
	"encoding/json"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// searched runs a search on the host of a test and returns its answer and exit code.
func (h *hostAndGuest) searched(argv ...string) (*measure.Search, int, string) {
	h.t.Helper()
	code, stdout, stderr := program(h.t,
		append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "search", "--keep=false"}, argv...)...)
	if stdout == "" {
		return nil, code, stderr
	}
	must.Try(h.t, validate("mpps.search.1", stdout))
	var answer struct{ Result measure.Search }
	must.Do(h.t, json.Unmarshal([]byte(stdout), &answer))
	return &answer.Result, code, stderr
}

// TestSearchIntoGuest searches through a bridge into a guest's namespace. A policer drops what is above a rate: a
// device of a known capacity.
func TestSearchIntoGuest(t *testing.T) {
	h := newHostAndGuest(t)
	for _, rule := range [][]string{
		{"table", "bridge", "t"}, {"chain", "bridge", "t", "c", "{ type filter hook forward priority 0; }"},
		{"rule", "bridge", "t", "c", "ether", "type", "ip", "ip", "saddr", "198.18.0.0/15", "limit", "rate", "over",
			"10000/second", "burst", "200", "packets", "counter", "drop"},
	} {
		h.ip(append([]string{"netns", "exec", h.host, "nft", "add"}, rule...)...)
	}
	before := h.state()
	s, code, stderr := h.searched("--via", "br0", "--agent", h.agent, "--max-pps", "40k", "--budget", "6s")
	if s == nil {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if s.NDR.LowerPPS == nil || s.Trials == 0 || len(s.Tried) != s.Trials || s.Baseline.Generator == nil ||
		s.Baseline.Receiver == nil {
		t.Fatalf("%+v", s)
	}
	// A machine under other load sends in bursts or late, and the search says so; else only much more or much less than
	// what the policer lets through would be a mistake.
	if !s.Valid() || s.LimitedBy == string(measure.ByUnknown) {
		if len(s.Evidence) == 0 {
			t.Errorf("limited by %s, and nothing says why", s.LimitedBy)
		}
	} else if *s.NDR.LowerPPS < 5000 || *s.NDR.LowerPPS > 12000 {
		t.Errorf("NDR of at least %g, expected some 10000", *s.NDR.LowerPPS)
	}
	for _, tried := range s.Tried {
		if tried.Outcome.Received > tried.Outcome.Sent || tried.Outcome.Sent == 0 {
			t.Errorf("%+v", tried)
		}
	}
	if after := h.state(); after != before {
		t.Errorf("the interfaces were\n%sand are\n%s", before, after)
	}
	// Nothing is asked of a path whose ends cannot be had.
	if s, code, stderr := h.searched("--via", "br0", "--agent", "10.50.0.2:1"); s != nil || code != outcome.CodeFailed {
		t.Errorf("no agent: exit %d, %s", code, stderr)
	}
	if s, code, stderr := h.searched("--via", "br0", "--agent", h.agent, "--frame", "1519"); s != nil ||
		code != outcome.CodeUsage {
		t.Errorf("frames over the MTU: exit %d, %s", code, stderr)
	}
}

// TestSearchSizes searches at two frame sizes over one path and leaves it as it was.
func TestSearchSizes(t *testing.T) {
	h := newHostAndGuest(t)
	before := h.state()
	code, stdout, stderr := program(t, "ip", "netns", "exec", h.host, "mpps", "--json", "search", "--keep=false",
		"--via", "br0", "--agent", h.agent, "--sizes", "1518,64", "--line-rate", "100M", "--budget", "3s")
	if stdout == "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	must.Try(t, validate("mpps.search-sizes.1", stdout))
	var answer struct{ Result measure.Sizes }
	must.Do(t, json.Unmarshal([]byte(stdout), &answer))
	found := answer.Result.Searches
	if len(found) != 2 || answer.Result.Partial {
		t.Fatalf("exit %d, %d sizes, partial %t: %s", code, len(found), answer.Result.Partial, stderr)
	}
	for i, size := range []int{1518, 64} {
		full := 100e6 / measure.WireBits(1, size)
		if s := found[i]; s.FrameBytes != size || s.Trials == 0 || s.MaxPPS < full*0.999 || s.MaxPPS > full*1.001 {
			t.Errorf("frames of %d bytes: %d trials of %d bytes up to %.0f pps, expected up to %.0f", size, s.Trials,
				s.FrameBytes, s.MaxPPS, full)
		}
	}
	if after := h.state(); after != before {
		t.Errorf("the interfaces were\n%sand are\n%s", before, after)
	}
}
