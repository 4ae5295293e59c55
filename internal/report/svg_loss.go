package report

import (
	"fmt"
	"html/template"

	"mpps/internal/measure"
)

// lossBars draws, for each run that lost packets, the counters that saw them as shares of what was sent.
func lossBars(runs []labeled) template.HTML {
	const left, right = 4, svgWidth - 12
	var most float64
	for _, r := range runs {
		for _, p := range places(r.Run) {
			most = max(most, p.share)
		}
	}
	if most == 0 {
		return ""
	}
	x := linear(0, most*1.04, left, right)
	d := &drawing{height: 4}
	var rows []func()
	for _, r := range runs {
		y, spread := d.height, measure.Median(lossRatios(r.Run))
		text := fmt.Sprintf("lost %s of %s", grouped(r.Lost), grouped(r.Sent))
		if r.Lost > 0 && spread.N > 1 {
			text += fmt.Sprintf(", in a trial %s [%s, %s]", percentOf(spread.Value), percentOf(spread.Lo), percentOf(spread.Hi))
		}
		rows = append(rows, func() {
			d.text("label strong", "start", left, y+14, short(r.label))
			d.text("label", "start", left, y+29, text)
		})
		d.height += 35
		for _, p := range places(r.Run) {
			y := d.height
			rows = append(rows, func() {
				d.text("tick", "start", left, y+11, p.name)
				d.text("tick", "end", right, y+11, grouped(p.packets)+" · "+percentOf(p.share))
				d.rect("bar "+p.class, left, y+15, x.at(p.share)-left, 9, p.name)
			})
			d.height += 30
		}
		d.height += 6
	}
	bottom := d.height
	d.height += 20
	d.ticks(x, 4, bottom, left, right, func(v float64) string { return siTick(v*100) + " %" })
	for _, row := range rows {
		row()
	}
	return d.svg("where packets were lost")
}

type lossPlace struct {
	name, class string
	packets     uint64
	share       float64 // of the packets sent, 0–1
}

// places are where a run's packets were lost, the unexplained rest last. Counters see other traffic too, so the shares can
// add up to more than was lost.
func places(r *measure.Run) []lossPlace {
	if r.Sent == 0 || r.Lost == 0 {
		return nil
	}
	var all []lossPlace
	for _, l := range r.Losses {
		all = append(all, lossPlace{lossName(l), "s0", l.Packets, float64(l.Packets) / float64(r.Sent)})
	}
	if n := r.UnexplainedLoss; n > 0 {
		all = append(all, lossPlace{"seen by no counter", "idlebar", n, float64(n) / float64(r.Sent)})
	}
	return all
}

func lossRatios(r *measure.Run) []float64 {
	values := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		values[i] = s.LossRatio()
	}
	return values
}
