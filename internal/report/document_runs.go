package report

import (
	"mpps/internal/measure"
)

// Add puts a run into the document: packets and streams as a series of their own, transactions beside the series of the
// same label.
func (d *Document) Add(label string, r *measure.Run) {
	if d.Host.Name == "" {
		d.Host = HostLine{Name: r.Host, Kernel: r.Environment.Kernel, CPU: r.Environment.CPU, CPUs: r.Environment.CPUs,
			Emulated: r.Environment.Emulated, Virtual: r.Environment.Virtual}
	}
	d.Host.Emulated = d.Host.Emulated || r.Environment.Emulated
	for _, w := range r.Warnings {
		d.Warn(Warning{Code: w.Code, Text: label + ": " + w.Text, Hint: w.Hint})
	}
	for i := range d.Series {
		if d.Series[i].Label != label {
			continue
		}
		if slot := d.Series[i].slot(r.Kind); *slot == nil {
			*slot = r
			return
		}
	}
	s := Series{Label: label}
	*s.slot(r.Kind) = r
	d.Series = append(d.Series, s)
}

// slot is where a series keeps a run of a kind.
func (s *Series) slot(k measure.Kind) **measure.Run {
	if transactional(k) {
		return &s.RR
	}
	return &s.Run
}

func transactional(k measure.Kind) bool { return k.Unit() == measure.RR.Unit() }

// AddAB adds both sides of an interleaved comparison, and its verdict where the document has none yet.
func (d *Document) AddAB(ab *measure.AB) {
	first := len(d.Series) == 0
	d.Add(ab.BeforeRun.Name, &ab.BeforeRun)
	d.Add(ab.AfterRun.Name, &ab.AfterRun)
	if first {
		d.Compared = &Compared{From: ab.BeforeRun.Name, To: ab.AfterRun.Name, Kind: ab.Kind, Throughput: ab.Comparison, Cost: ab.Cost}
	}
}

// labeled is a run of a document with its series' label and place, which give it its colour.
type labeled struct {
	*measure.Run
	label string
	place int
}

// kinds are the kinds of runs that the document has, in the order in which it has them.
func (d *Document) kinds() []measure.Kind {
	var kinds []measure.Kind
	for _, l := range d.runs("") {
		have := false
		for _, k := range kinds {
			have = have || k == l.Kind
		}
		if !have {
			kinds = append(kinds, l.Kind)
		}
	}
	return kinds
}

// runs are the document's runs of a kind; of all for an empty one.
func (d *Document) runs(kind measure.Kind) []labeled {
	var all []labeled
	places := map[string]int{} // series of one label have one colour
	for _, s := range d.Series {
		i, known := places[s.Label]
		if !known {
			i = len(places)
			places[s.Label] = i
		}
		for _, r := range []*measure.Run{s.Run, s.RR} {
			if r != nil && (kind == "" || r.Kind == kind) {
				all = append(all, labeled{r, s.Label, i})
			}
		}
	}
	return all
}

// CompareFirstTwo compares the first two runs of a kind: of packets or streams, and of transactions beside them.
func (d *Document) CompareFirstTwo() {
	for _, kind := range d.kinds() {
		runs := d.runs(kind)
		if len(runs) < 2 {
			continue
		}
		c := measure.Compare(runs[0].Values(), runs[1].Values())
		switch {
		case d.Compared == nil:
			cost := measure.Compare(runs[0].Run.Costs(), runs[1].Run.Costs())
			if caveats, err := measure.Comparable(runs[0].Run, runs[1].Run); err == nil { // of one kind they can be
				c.Warnings = append(c.Warnings, caveats...)
			}
			for _, w := range c.Warnings {
				d.Warn(w)
			}
			d.Compared = &Compared{From: runs[0].label, To: runs[1].label, Kind: kind, Throughput: c, Cost: &cost}
		case transactional(kind) && !transactional(d.Compared.Kind) && d.Compared.RoundTrips == nil &&
			runs[0].label == d.Compared.From && runs[1].label == d.Compared.To:
			d.Compared.RoundTrips = &c
		}
	}
}
