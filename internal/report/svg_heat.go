package report

import (
	"fmt"
	"html/template"

	"mpps/internal/measure"
)

// cpuParts are the ways in which a CPU spends its time, as the heat strip stacks and names them.
var cpuParts = []struct {
	class, name string
	of          func(measure.CPUUse) float64
}{
	{"guest", "guest", func(u measure.CPUUse) float64 { return u.Guest }},
	{"softirq", "softirq", func(u measure.CPUUse) float64 { return u.SoftIRQ + u.IRQ }},
	{"system", "system", func(u measure.CPUUse) float64 { return u.System }},
	{"user", "user", func(u measure.CPUUse) float64 { return u.User + u.Nice }},
	{"steal", "stolen", func(u measure.CPUUse) float64 { return u.Steal }},
}

// cpuStrip draws, for each series, one row a CPU of the near machine: how its time was split while traffic ran.
func cpuStrip(labels []string, runs []*measure.Run) template.HTML {
	const left, right, rowHeight = 52, svgWidth - 8, 15
	d := &drawing{height: 22}
	at := 4.0
	for i, part := range cpuParts {
		at = float64(left) + float64(i)*68
		d.rect("cpu-"+part.class, at, 4, 10, 10, "")
		d.text("tick", "start", at+14, 13, part.name)
	}
	drawn := false
	for i, r := range runs {
		use := nearCPUs(r)
		if len(use) == 0 {
			continue
		}
		drawn = true
		d.height += 16
		d.text("label", "start", 0, d.height, labels[i])
		d.height += 6
		for _, u := range use {
			total := u.Busy() + u.Steal + u.Idle
			if total <= 0 {
				continue
			}
			d.text("tick", "end", left-5, d.height+11, fmt.Sprintf("CPU %d", u.CPU))
			d.rect("idle", left, d.height, right-left, rowHeight-3, fmt.Sprintf("CPU %d: %.0f %% idle", u.CPU, u.Idle/total*100))
			x := float64(left)
			for _, part := range cpuParts {
				share := part.of(u) / total
				if share < 0.002 {
					continue
				}
				w := share * (right - left)
				d.rect("cpu-"+part.class, x, d.height, w, rowHeight-3, fmt.Sprintf("CPU %d: %.0f %% %s", u.CPU, share*100, part.name))
				x += w
			}
			d.height += rowHeight
		}
	}
	if !drawn {
		return ""
	}
	d.height += 4
	return d.svg("how each CPU spent its time while traffic ran")
}

// nearCPUs adds up the near machine's CPU use over all samples; at most 64 CPUs, the busiest ones are not searched for.
func nearCPUs(r *measure.Run) []measure.CPUUse {
	var sums []measure.CPUUse
	for _, s := range r.Samples {
		if len(s.CPU) == 0 {
			continue
		}
		for i, u := range s.CPU[0].CPUs {
			if i == 64 {
				break
			}
			if i == len(sums) {
				sums = append(sums, measure.CPUUse{CPU: u.CPU})
			}
			t := &sums[i]
			t.User, t.Nice, t.System, t.SoftIRQ = t.User+u.User, t.Nice+u.Nice, t.System+u.System, t.SoftIRQ+u.SoftIRQ
			t.IRQ, t.Guest, t.Steal, t.Idle = t.IRQ+u.IRQ, t.Guest+u.Guest, t.Steal+u.Steal, t.Idle+u.Idle
		}
	}
	return sums
}
