package bench

import (
	"fmt"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/measure/search"
	"mpps/internal/model/goal"
	"mpps/internal/report"
	"mpps/internal/words"
)

// SearchText draws a search for the highest rates.
func SearchText(t *report.Text, s *measure.Search, saved []string) {
	t.Heading(words.Join(": ", "search", s.Name))
	t.Wrap("  ", words.Either(s.Command != "", "trials by "+s.Command, endpointText(s.From)+" → "+endpointText(s.To)))
	t.Wrap("  ", fmt.Sprintf("frames of %d bytes, loads from %spps to %spps; %s; %s, %.4g s of traffic",
		s.FrameBytes, goal.FormatRate(s.MinPPS), goal.FormatRate(s.MaxPPS), s.Mode, words.Count(s.Trials, "trial"),
		s.Seconds))
	t.Blank()
	for _, f := range []*search.Found{&s.NDR, &s.PDR} {
		drawFound(t, f)
	}
	t.Blank()
	if d := s.Device; d.CapacityPPS > 0 {
		t.Wrap("  device: ", deviceText(d))
	}
	if s.WorstPPS > 0 && s.LossySeconds > 0 {
		t.Wrap("  ", fmt.Sprintf("%.4g s of trials at or below the NDR's lower bound lost packets; the worst "+
			"second may have carried no more than %spps", s.LossySeconds, goal.FormatRate(s.WorstPPS)))
	}
	t.Wrap("  limited by ", limit(t, s.Valid(), s.LimitedBy))
	t.Each("    ", s.Evidence)
	t.Each("  lost over all trials at ", words.Each(s.Losses, lossText))
	t.Each("  irregular: ", s.Remarks)
	t.Field("  ", words.If(s.Partial, "%s", t.In(report.Bold, "ended early: the bounds are what was known by then")))
	t.Wrap("  other than RFC 2544: ", strings.Join(s.Deviations, "; "))
	t.SavedFiles(saved)
}

// drawFound draws the bounds of one goal.
func drawFound(t *report.Text, f *search.Found) {
	name := f.Name + words.If(f.LossRatio > 0, ", loss up to %.3g %%", f.LossRatio*100)
	switch {
	case f.None != "":
		t.Wrap("  "+name+": ", t.In(report.Bold, f.None))
	case f.LowerPPS == nil:
		t.Wrap("  "+name+": ", "not found")
	case f.UpperPPS == nil:
		t.Wrap("  "+name+": ", fmt.Sprintf("%s or more%s", t.In(report.Bold, goal.FormatRate(*f.LowerPPS)+"pps"),
			basisText(f.Lower)))
	default:
		t.Wrap("  "+name+": ", fmt.Sprintf("%s to %s%s; forwarded at the lower bound %spps%s",
			t.In(report.Bold, goal.FormatRate(*f.LowerPPS)), goal.FormatRate(*f.UpperPPS)+"pps",
			words.If(f.Confidence != 0, " (%.0f %%)", f.Confidence*100),
			goal.FormatRate(*f.ThroughputPPS), basisText(f.Lower)))
	}
}

func basisText(b search.Basis) string {
	switch {
	case b.By == "trial" && b.LossRate > 0:
		return fmt.Sprintf(", tried for %.4g s with a loss of %.2g %%", b.Seconds, b.LossRate*100)
	case b.By == "trial":
		return fmt.Sprintf(", tried for %.4g s without loss", b.Seconds)
	}
	return ", by the model"
}

// deviceText describes the model of the device under test.
func deviceText(d search.Likely) string {
	return fmt.Sprintf("carries %spps in a typical second", goal.FormatRate(d.CapacityPPS)) +
		words.If(d.SpreadSeconds > 2e-4, ", seconds differ by %.2g %%", d.SpreadSeconds*100) +
		words.If(d.BufferSeconds > 1e-3, ", holds %.2g ms of packets before it drops", d.BufferSeconds*1000) +
		words.If(d.Collapse > 0.02, ", forwards %.2g packets less for each sent above that", d.Collapse)
}
