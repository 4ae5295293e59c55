package report

import (
	"fmt"
	"strings"

	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/search"
)

// Search draws a search for the highest rates.
func Search(t *Text, s *measure.Search, saved []string) {
	title := "search"
	if s.Name != "" {
		title += ": " + s.Name
	}
	t.Heading(title)
	if s.Command != "" {
		t.Wrapped("  ", "trials by "+s.Command)
	} else {
		t.Wrapped("  ", endpointText(s.From)+" → "+endpointText(s.To))
	}
	t.Wrapped("  ", fmt.Sprintf("frames of %d bytes, loads from %spps to %spps; %s; %s, %.4g s of traffic",
		s.FrameBytes, goal.FormatRate(s.MinPPS), goal.FormatRate(s.MaxPPS), s.Mode, count(s.Trials, "trial"),
		s.Seconds))
	t.Blank()
	for _, f := range []*search.Found{&s.NDR, &s.PDR} {
		drawFound(t, f)
	}
	t.Blank()
	if d := s.Device; d.CapacityPPS > 0 {
		t.Wrapped("  device: ", likely(d))
	}
	if s.WorstPPS > 0 && s.LossySeconds > 0 {
		t.Wrapped("  ", fmt.Sprintf("%.4g s of trials at or below the NDR's lower bound lost packets; the worst "+
			"second may have carried no more than %spps",
			s.LossySeconds, goal.FormatRate(s.WorstPPS)))
	}
	style := Green
	if !s.Valid() {
		style = RedBold
	}
	t.Wrapped("  limited by ", t.In(style, s.LimitedBy))
	for _, e := range s.Evidence {
		t.Wrapped("    ", e)
	}
	for _, l := range s.Losses {
		t.Wrapped("  lost over all trials at ", lostAt(l))
	}
	for _, r := range s.Remarks {
		t.Wrapped("  irregular: ", r)
	}
	if s.Partial {
		t.Wrapped("  ", t.In(Bold, "ended early: the bounds are what was known by then"))
	}
	t.Wrapped("  other than RFC 2544: ", strings.Join(s.Deviations, "; "))
	for _, file := range saved {
		t.Line("  saved as %s", file)
	}
}

// drawFound draws the bounds of one goal.
func drawFound(t *Text, f *search.Found) {
	name := f.Name
	if f.LossRatio > 0 {
		name += fmt.Sprintf(", loss up to %.3g %%", f.LossRatio*100)
	}
	switch {
	case f.None != "":
		t.Wrapped("  "+name+": ", t.In(Bold, f.None))
	case f.LowerPPS == nil:
		t.Wrapped("  "+name+": ", "not found")
	case f.UpperPPS == nil:
		t.Wrapped("  "+name+": ", fmt.Sprintf("%s or more%s", t.In(Bold, goal.FormatRate(*f.LowerPPS)+"pps"),
			basis(f.Lower)))
	default:
		t.Wrapped("  "+name+": ", fmt.Sprintf("%s to %s%s; forwarded at the lower bound %spps%s",
			t.In(Bold, goal.FormatRate(*f.LowerPPS)), goal.FormatRate(*f.UpperPPS)+"pps", confidence(f),
			goal.FormatRate(*f.ThroughputPPS), basis(f.Lower)))
	}
}

func confidence(f *search.Found) string {
	if f.Confidence == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.0f %%)", f.Confidence*100)
}

func basis(b search.Basis) string {
	switch {
	case b.By == "trial" && b.LossRate > 0:
		return fmt.Sprintf(", tried for %.4g s with a loss of %.2g %%", b.Seconds, b.LossRate*100)
	case b.By == "trial":
		return fmt.Sprintf(", tried for %.4g s without loss", b.Seconds)
	}
	return ", by the model"
}

// likely describes the model of the device under test.
func likely(d search.Likely) string {
	text := fmt.Sprintf("carries %spps in a typical second", goal.FormatRate(d.CapacityPPS))
	if d.SpreadSeconds > 2e-4 {
		text += fmt.Sprintf(", seconds differ by %.2g %%", d.SpreadSeconds*100)
	}
	if d.BufferSeconds > 1e-3 {
		text += fmt.Sprintf(", holds %.2g ms of packets before it drops", d.BufferSeconds*1000)
	}
	if d.Collapse > 0.02 {
		text += fmt.Sprintf(", forwards %.2g packets less for each sent above that", d.Collapse)
	}
	return text
}
