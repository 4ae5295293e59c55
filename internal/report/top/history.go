package top

import (
	"slices"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/report"
)

// History holds the looks of the last minute, oldest first.
type History struct{ looks []*bottleneck.Look }

// Bounds of what is remembered.
const (
	remembered = time.Minute
	maxLooks   = 120 // where looks come often, less than a minute is remembered
)

// Add adds the newest look and forgets those that are too old.
func (h *History) Add(l *bottleneck.Look) {
	h.looks = append(h.looks, l)
	old := func(past *bottleneck.Look) bool { return l.At.Sub(past.At) <= remembered }
	first := max(slices.IndexFunc(h.looks, old), len(h.looks)-maxLooks, 0)
	h.looks = slices.Clone(h.looks[first:])
}

// Newest returns the newest look; nil if there is none.
func (h *History) Newest() *bottleneck.Look {
	if len(h.looks) == 0 {
		return nil
	}
	return h.looks[len(h.looks)-1]
}

// Step returns the look that is so many after a look, or before it if negative; the first or the last where there are
// not so many. A look that was forgotten counts as the first.
func (h *History) Step(from *bottleneck.Look, by int) *bottleneck.Look {
	if len(h.looks) == 0 {
		return from
	}
	at := max(slices.Index(h.looks, from), 0) + by
	return h.looks[min(max(at, 0), len(h.looks)-1)]
}

// until returns the looks up to one, oldest first.
func (h *History) until(l *bottleneck.Look) []*bottleneck.Look {
	return h.looks[:slices.Index(h.looks, l)+1]
}

// moment is a station in one look: the packets that passed per second, or where none are counted the share of its time
// that it was busy; −1: it was not there. Packets are lost per second.
type moment struct{ value, lost float64 }

// moments returns a station's past, or that of a part of it where part is given, oldest first.
func moments(past []*bottleneck.Look, station, part *bottleneck.Station) []moment {
	all := make([]moment, len(past))
	at, in := 0, 0 // where it was in the look before: the order hardly ever changes
	for i, l := range past {
		all[i] = moment{-1, 0}
		s := find(l.Stations, &at, station)
		if s != nil && part != nil {
			s = find(s.Parts, &in, part)
		}
		switch {
		case s == nil:
		case s.In >= 0 || s.Out >= 0:
			all[i] = moment{s.PPS(), s.Loss}
		default:
			all[i] = moment{s.Use, s.Loss}
		}
	}
	return all
}

// find returns the station of the same name, looking first where the last one was.
func find(all []bottleneck.Station, at *int, s *bottleneck.Station) *bottleneck.Station {
	same := func(o bottleneck.Station) bool { return o.Stage == s.Stage && o.Name == s.Name && o.Guest == s.Guest }
	if *at >= len(all) || !same(all[*at]) {
		if *at = slices.IndexFunc(all, same); *at < 0 {
			*at = 0
			return nil
		}
	}
	return &all[*at]
}

// trend draws moments in so many columns, each against the highest of them; those with losses are red. Where there are
// more moments than columns, a column is the highest of several.
func trend(t *report.Text, all []moment, width int) (text string, most float64) {
	for _, m := range all {
		most = max(most, m.value)
	}
	for several := range slices.Chunk(all, (len(all)+width-1)/width) {
		m := moment{value: -1}
		for _, one := range several {
			m.value, m.lost = max(m.value, one.value), max(m.lost, one.lost)
		}
		switch {
		case m.value < 0:
			text += " "
		case m.lost > 0:
			text += t.In(report.Red, level(m.value, most))
		case m.value > 0:
			text += t.In(report.Green, level(m.value, most))
		default:
			text += t.In(report.Faint, level(0, most))
		}
	}
	return text, most
}

// level returns the character for a value against the highest.
func level(value, most float64) string {
	if value <= 0 {
		return string(levels[0])
	}
	return string(levels[1+int(value/most*7)])
}
