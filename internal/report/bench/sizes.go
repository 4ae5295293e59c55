package bench

import (
	"fmt"
	"html/template"
	"math"
	"strconv"

	"mpps/internal/measure"
	"mpps/internal/measure/search"
	"mpps/internal/report"
	"mpps/internal/report/svg"
	"mpps/internal/words"
)

// SizesText draws searches over frame sizes: a row for each, then what the first says of the path and the method.
func SizesText(t *report.Text, s *measure.Sizes, saved []string) {
	t.Heading(words.Join(": ", "search over frame sizes", s.Name))
	first := s.Searches[0]
	t.Wrap("  ", words.Either(first.Command != "", "trials by "+first.Command, endpointText(first.From)+" → "+
		endpointText(first.To)))
	t.Blank()
	rows := [][]string{{"  bytes", "NDR", "on the wire", words.Join("", "PDR, loss up to ",
		strconv.FormatFloat(first.PDR.LossRatio*100, 'g', 3, 64), " %"), "limited by"}}
	var seconds float64
	for _, one := range s.Searches {
		rows = append(rows, []string{"  " + strconv.Itoa(one.FrameBytes), t.In(report.Bold, lowerText(&one.NDR)),
			wireText(&one.NDR, one.FrameBytes, s.LineRate), lowerText(&one.PDR), limit(t, one.Valid(), one.LimitedBy)})
		seconds += one.Seconds
	}
	t.Table(rows)
	t.Blank()
	t.Wrap("  ", fmt.Sprintf("%s, %s of traffic; rates are lower bounds; on the wire a frame takes 20 bytes more: "+
		"preamble and gap", first.Mode, words.Seconds(seconds)))
	t.Field("  ", words.If(s.Partial, "%s", t.In(report.Bold, "ended early: the other sizes were not searched")))
	t.Each("  other than RFC 2544: ", first.Deviations)
	t.SavedFiles(saved)
}

// lowerText returns the rate that a goal has for certain; that of a search which met no upper bound is "≥".
func lowerText(f *search.Found) string {
	switch {
	case f.None != "":
		return f.None
	case f.LowerPPS == nil:
		return "not found"
	}
	return words.If(f.UpperPPS == nil, "≥ ") + words.SI(*f.LowerPPS, 4) + "pps"
}

// wireText returns the bits per second that the rate takes on the wire, and their share of the line rate if it is
// known.
func wireText(f *search.Found, frame int, line float64) string {
	if f.None != "" || f.LowerPPS == nil {
		return ""
	}
	bits := measure.WireBits(*f.LowerPPS, frame)
	return words.SI(bits, 3) + "bit/s" + words.If(line > 0, ", %.1f %%", 100*bits/line)
}

// AddSizes adds searches over frame sizes.
func (d *Document) AddSizes(label string, s *measure.Sizes) {
	for _, one := range s.Searches {
		d.AddSearch(fmt.Sprintf("%s, %d bytes", label, one.FrameBytes), one)
	}
	if s.Partial {
		d.Warn(report.Warning{Code: "partial", Text: label + ": ended early, the other sizes were not searched",
			Hint: "search again, with a larger --budget where it was too small"})
	}
}

// sizes returns the searches whose frame size is known, if they are of more than one size.
func (d *Document) sizes() []Rates {
	var all []Rates
	several := false
	for _, r := range d.Rates {
		if r.FrameBytes > 0 && r.NDR != nil {
			all = append(all, r)
			several = several || r.FrameBytes != all[0].FrameBytes
		}
	}
	if !several {
		return nil
	}
	return all
}

// BySize draws the bits per second on the wire without loss over the frame sizes, with the packets per second as
// text. It is empty unless there are searches of several sizes.
func (d *Document) BySize() template.HTML {
	all := d.sizes()
	hi, lo := 0.0, math.Inf(1)
	for _, r := range all {
		bits := measure.WireBits(r.NDR.LowerPPS, r.FrameBytes)
		hi = max(hi, bits)
		if bits > 0 {
			lo = min(lo, bits)
		}
	}
	if hi == 0 {
		return ""
	}
	g := svg.New(4, 12)
	x := g.Span(lo, hi, 20)
	for _, r := range all {
		bits := measure.WireBits(r.NDR.LowerPPS, r.FrameBytes)
		text := fmt.Sprintf("%s%s packets/s, %sbit/s", words.If(r.NDR.UpperPPS <= 0, "at least "),
			words.SI(r.NDR.LowerPPS, 4), words.SI(bits, 3))
		g.Text("label strong", "start", g.Left, g.Y+16, fmt.Sprintf("%d bytes", r.FrameBytes))
		g.Text("tick", "end", g.Right, g.Y+16, words.Join(" · ", text, r.Caveat))
		g.Bar("s1", x, bits, g.Y+21, 10, text)
		g.Y += 40
	}
	g.Y += 4
	g.AxisX(x, 2, "bit/s", words.Tick)
	return g.HTML("bits per second without loss over frame sizes")
}

// sizesVerdict is the headline of searches over sizes: the smallest frames' packets and the largest frames' bits.
func sizesVerdict(all []Rates) string {
	small, large := &all[0], &all[0]
	for i := range all {
		if all[i].FrameBytes < small.FrameBytes {
			small = &all[i]
		}
		if all[i].FrameBytes > large.FrameBytes {
			large = &all[i]
		}
	}
	least := func(r *Rates) string { return words.If(r.NDR.UpperPPS <= 0, "at least ") }
	return fmt.Sprintf("Without loss: %s%s packets per second of %d bytes, %s%sbit/s in frames of %d.", least(small),
		words.NoBreak(words.SI(small.NDR.LowerPPS, 4)), small.FrameBytes, least(large),
		words.NoBreak(words.SI(measure.WireBits(large.NDR.LowerPPS, large.FrameBytes), 3)), large.FrameBytes)
}
