package top

import (
	"slices"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/golden"
	"mpps/internal/must"
	"mpps/internal/report"
)

// minute is a history of so many looks a second apart: vnet0's rate climbs, and it loses packets in the last ten
// seconds. A tap that came later is in the last half of them alone.
func minute(looks int) *History {
	h := &History{}
	for i := range looks {
		l := vhostLook()
		l.At = l.At.Add(time.Duration(i-looks+1) * time.Second)
		l.Stations = slices.DeleteFunc(l.Stations, func(s bottleneck.Station) bool { return s.Name == "vnet1" && i < looks/2 })
		for j := range l.Stations {
			if s := &l.Stations[j]; s.Name == "vnet0" {
				s.In = float64(1000 * (i + 1))
				if i < looks-10 {
					s.Loss = 0
				}
			}
		}
		h.Add(l)
	}
	return h
}

func TestTopTrend(t *testing.T) {
	t.Parallel()
	h := minute(60)
	for name, columns := range map[string]int{"trend-80x24": 80, "trend-200x50": 200} {
		view := View{Rows: 24 + (columns-80)/5, Keys: true, Trend: true, Past: h}
		golden.File(t, "testdata/"+name+".txt", frame(h.Newest(), columns, view))
		must.Fit(t, frame(h.Newest(), columns, view), columns, report.Visible)
	}
}

// TestTopRemembers: a minute is kept whatever the interval, and the steps through it end at its ends.
func TestTopRemembers(t *testing.T) {
	t.Parallel()
	h, none := minute(500), &History{}
	first, last := h.Step(h.Newest(), -1000), h.Newest()
	must.Equal(t, last.At.Sub(first.At), time.Minute, "last.At.Sub(first.At)")
	must.Hold(t, h.Step(last, 1) == last && h.Step(first, -1) == first && h.Step(h.Step(last, -3), 3) == last,
		"steps do not lead back, or beyond the ends")
	must.Hold(t, h.Step(&bottleneck.Look{}, 0) == first, "a forgotten look is not the first")
	if look := (&bottleneck.Look{}); none.Step(look, -1) != look || none.Newest() != nil {
		t.Error("an empty history has looks")
	}
	for range 2 * maxLooks { // a look every 200 ms
		l := *last
		h.Add(&l)
	}
	if n := len(h.looks); n != maxLooks {
		t.Errorf("%d looks are kept, expected at most %d", n, maxLooks)
	}
}

// TestTopPausedInThePast says how long ago what it shows was, and draws the trend up to then.
func TestTopPausedInThePast(t *testing.T) {
	t.Parallel()
	h := minute(60)
	past := h.Step(h.Newest(), -15)
	text := frame(past, 80, View{Rows: 24, Keys: true, Paused: true, Past: h})
	must.Contain(t, text, "PAUSED 15s ago")
	must.Equal(t, len(h.until(past)), 45, "the trend has looks")
	must.Lack(t, frame(h.Newest(), 80, View{Rows: 24, Keys: true, Paused: true, Past: h}), "ago")
}
