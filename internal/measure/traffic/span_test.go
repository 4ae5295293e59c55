package traffic

import (
	"encoding/json"
	"testing"
	"time"

	"mpps/internal/must"
)

func TestSpan(t *testing.T) {
	var tr tracker
	for i, ns := range []uint64{100, 300, 900} {
		tr.arrive(ns)
		tr.record(uint64(i), 64)
	}
	s := tr.counts(7)
	if s.FirstAt != 100 || s.LastAt != 900 || s.Spanned != 2 || s.Span() != 800 {
		t.Errorf("%+v", s)
	}

	c := Counts{Exact: true}
	c.add(s)
	c.add(StreamCounts{CPUs: 1, Received: 5, span: span{FirstAt: 50}}) // too few to tell
	c.add(StreamCounts{CPUs: 1, Received: 40, span: span{FirstAt: 90, LastAt: 700, Spanned: 32}})
	if c.FirstAt != 90 || c.LastAt != 900 || c.Spanned != 34 || c.Span() != 810 {
		t.Errorf("%+v", c.span)
	}
	if (Counts{}).Span() != 0 || (Counts{span: span{FirstAt: 5}}).Span() != 0 {
		t.Error("a span of nothing")
	}

	// Agents send it.
	text := must.Get(json.Marshal(c))(t)
	var back Counts
	if err := json.Unmarshal(text, &back); err != nil || back.span != c.span ||
		back.Streams[0].Span() != 800*time.Nanosecond {
		t.Errorf("%s became %+v, %v", text, back, err)
	}
}
