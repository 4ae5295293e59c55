package wakeup

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"mpps/internal/model/facts"
)

// Causes is what coincides with the worst wake-ups. It is a correlation over time, of counters with the longest wake-up
// in each window: a cause without a counter cannot be found, and one that is found may be the effect of something that
// is not counted.
type Causes struct {
	Windows     int     `json:"windows"`      // intervals compared
	Bad         int     `json:"bad"`          // of which contain wake-ups that stand out
	ThresholdNs uint64  `json:"threshold_ns"` // the shortest of those wake-ups; 0: none stands out
	Found       []Cause `json:"found"`        // the best explanations first
	Unexplained int     `json:"unexplained"`  // bad windows without a cause
	Verdict     string  `json:"verdict"`      // one sentence
}

// Confidence is how certain it is that a counter and long wake-ups are related.
type Confidence string

// Confidence is by the chance of seeing such a coincidence between unrelated things, over all counters examined.
const (
	Likely Confidence = "likely" // chance below 1 in 1000
	Strong Confidence = "strong" // chance below 1 in 1000000
)

// Cause is a counter that moves when wake-ups are long.
type Cause struct {
	Kind       facts.Disturbance `json:"kind"`
	Name       string            `json:"name"`
	CPU        int               `json:"cpu"` // −1: of the whole host, or of the guest
	Confidence Confidence        `json:"confidence"`
	Chance     float64           `json:"chance"` // see Confidence
	// Hits of Bad windows with long wake-ups had more than Above per second, and FalseHits of Others without.
	Above     float64 `json:"above"`
	Hits      int     `json:"hits"`
	Bad       int     `json:"bad"`
	FalseHits int     `json:"false_hits"`
	Others    int     `json:"others"`
	// Also are other counters that moved in the same windows, probably as effects or companions.
	Also     []string `json:"also,omitempty"`
	Evidence string   `json:"evidence"` // one sentence
	Advice   string   `json:"advice"`   // what to do about it
}

// maxCauses is how many causes are reported.
const maxCauses = 3

// FindCauses compares windows with the worst wake-ups with all others. It is pure and deterministic.
func FindCauses(runs []Run, s *Series, medianNs uint64) Causes {
	all := windows(runs, s)
	isBad, threshold := bad(all, medianNs)
	c := Causes{Windows: len(all), ThresholdNs: threshold, Found: []Cause{}}
	for _, b := range isBad {
		if b {
			c.Bad++
		}
	}
	switch {
	case len(all) == 0:
		c.Verdict = "the host counted nothing beside the measurement"
		return c
	case c.Bad == 0:
		c.Verdict = "no wake-up stands out from the others: there is nothing to look for a cause of"
		return c
	}
	open := slices.Clone(isBad)
	for len(c.Found) < maxCauses {
		found, hit := strongest(all, isBad, open, s, c.Found)
		if found == nil {
			break
		}
		c.Found = append(c.Found, *found)
		for i := range open {
			open[i] = open[i] && !hit[i]
		}
	}
	for _, o := range open {
		if o {
			c.Unexplained++
		}
	}
	c.Verdict = c.verdict()
	return c
}

func (c *Causes) verdict() string {
	switch {
	case len(c.Found) == 0 && c.Windows < 20:
		return fmt.Sprintf("nothing that the host counts goes with it, but %d windows are few: measure longer",
			c.Windows)
	case len(c.Found) == 0:
		return "nothing that the host counts goes with it"
	case c.Unexplained == 0:
		return c.Found[0].Evidence
	}
	return fmt.Sprintf("%s; with %d of %d windows with long wake-ups nothing that the host counts goes",
		c.Found[0].Evidence, c.Unexplained, c.Bad)
}

// strongest returns the source that best distinguishes open bad windows from good ones, with the windows in which it
// was up; nil if none does so beyond chance. It skips sources that were already found.
func strongest(all []window, isBad, open []bool, s *Series, found []Cause) (*Cause, []bool) {
	type candidate struct {
		Cause
		hit []bool
	}
	var list []candidate
	tests := float64(len(s.Sources) * len(quantiles))
	for k, source := range s.Sources {
		if slices.ContainsFunc(found, source.is) {
			continue
		}
		var best *candidate
		for _, above := range thresholds(all, isBad, k) {
			c := candidate{Cause: Cause{Kind: source.Kind, Name: source.Name, CPU: source.CPU, Above: above},
				hit: make([]bool, len(all))}
			for i := range all {
				up := all[i].rate(k) > above
				c.hit[i] = up
				switch {
				case open[i]:
					c.Bad++
					if up {
						c.Hits++
					}
				case !isBad[i]:
					c.Others++
					if up {
						c.FalseHits++
					}
				}
			}
			c.Chance = math.Min(1, tests*tail(c.Hits, c.Bad, c.FalseHits, c.Others))
			if best == nil || c.Chance < best.Chance {
				best = &c
			}
		}
		if best != nil && best.Chance < 1e-3 && 2*best.Hits >= min(best.Bad, 2*3) {
			list = append(list, *best)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	least := slices.MinFunc(list, func(a, b candidate) int { return cmp.Compare(a.Chance, b.Chance) })
	// Of nearly equal candidates, take the one that is most likely a cause: a thread that ran is one, the context
	// switch to it is not.
	chosen := least
	for _, c := range list {
		if near(c.Cause, least.Cause) && rank(c.Kind) < rank(chosen.Kind) {
			chosen = c
		}
	}
	for _, c := range list {
		same := 0
		for i := range all {
			if open[i] && c.hit[i] && chosen.hit[i] {
				same++
			}
		}
		if other := source(c.Kind, c.Name, c.CPU); other != source(chosen.Kind, chosen.Name, chosen.CPU) &&
			2*same > chosen.Hits && len(chosen.Also) < 5 {
			chosen.Also = append(chosen.Also, other)
		}
	}
	chosen.Confidence = Likely
	if chosen.Chance < 1e-6 {
		chosen.Confidence = Strong
	}
	chosen.Evidence = fmt.Sprintf("%s: in %d of %d windows with long wake-ups, and in %d of %d others",
		source(chosen.Kind, chosen.Name, chosen.CPU), chosen.Hits, chosen.Bad,
		chosen.FalseHits, chosen.Others)
	chosen.Advice = Advice(chosen.Kind)
	return &chosen.Cause, chosen.hit
}

// near reports whether a source distinguishes bad windows about as well as the best one.
func near(c, best Cause) bool {
	return 10*c.Hits >= 8*best.Hits && float64(c.FalseHits) <= 2*float64(best.FalseHits)+0.02*float64(best.Others)
}

// rate returns how much of a source a window has per second.
func (w *window) rate(k int) float64 {
	length := w.to.Sub(w.from).Seconds()
	if length <= 0 {
		return 0
	}
	return w.deltas[k] / length
}

// quantiles of the good windows above which a source counts as up.
var quantiles = []float64{0, 0.9, 0.99}

// thresholds returns the rates above which a source counts as up: any rate at all for what is rare, otherwise more than
// good windows have.
func thresholds(all []window, isBad []bool, k int) []float64 {
	var good []float64
	for i := range all {
		if !isBad[i] {
			good = append(good, all[i].rate(k))
		}
	}
	list := []float64{0}
	slices.Sort(good)
	for _, q := range quantiles[1:] {
		if len(good) == 0 {
			break
		}
		if v := good[min(int(q*float64(len(good))), len(good)-1)]; v > list[len(list)-1] {
			list = append(list, v)
		}
	}
	return list
}

// tail returns the chance that at least as many bad windows are among those that are up, if they were up at random (the
// upper tail of the hypergeometric distribution: Fisher's exact test, one-sided).
func tail(hits, bad, falseHits, others int) float64 {
	up, total := hits+falseHits, bad+others
	var p float64
	for k := hits; k <= min(up, bad); k++ {
		if up-k > others {
			continue
		}
		p += math.Exp(choose(bad, k) + choose(others, up-k) - choose(total, up))
	}
	return math.Min(p, 1)
}

// choose returns the logarithm of the binomial coefficient n over k.
func choose(n, k int) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return lg(n) - lg(k) - lg(n-k)
}

// is reports whether a cause is this source.
func (s Source) is(c Cause) bool { return s.Kind == c.Kind && s.Name == c.Name && s.CPU == c.CPU }

// source returns a counter's name for people.
func source(kind facts.Disturbance, name string, cpu int) string {
	text := words[kind]
	if name != "" {
		text += " " + name
	}
	if cpu >= 0 {
		text += " on CPU " + strconv.Itoa(cpu)
	}
	return text
}

// Named returns the counter's name for people.
func (b Beside) Named() string { return source(b.Kind, b.Name, b.CPU) }

// explain adds to each long wake-up its cause and what else stood out at that time.
func (f *File) explain() {
	all := windows(f.Runs, f.Counted)
	isBad, _ := bad(all, median(f.Total))
	for w := range facts.Each(f.Worst) {
		w.Cause, w.Beside = 0, nil
		for at := range all {
			if !isBad[at] || !all[at].overlaps(w.From.At, w.To.At.Add(time.Nanosecond)) {
				continue
			}
			for n, c := range f.Causes.Found {
				k := slices.IndexFunc(f.Counted.Sources, func(s Source) bool { return s.is(c) })
				if k >= 0 && w.Cause == 0 && all[at].rate(k) > c.Above {
					w.Cause = n + 1
				}
			}
			if len(w.Beside) == 0 {
				w.Beside = standingOut(all, at, f.Counted)
			}
		}
	}
}

// standingOut returns the counters that moved more in a window than in nearly all others.
func standingOut(all []window, at int, s *Series) []Beside {
	var list []Beside
	for k, source := range s.Sources {
		mine, more := all[at].rate(k), 0
		for i := range all {
			if i != at && all[i].rate(k) >= mine {
				more++
			}
		}
		share := float64(more) / float64(max(len(all)-1, 1))
		if mine > 0 && len(all) >= 20 && share <= 0.02 {
			list = append(list, Beside{Kind: source.Kind, Name: source.Name, CPU: source.CPU,
				Delta: uint64(all[at].deltas[k]), Share: share})
		}
	}
	slices.SortStableFunc(list, func(a, b Beside) int {
		return cmp.Or(cmp.Compare(a.Share, b.Share), cmp.Compare(rank(a.Kind), rank(b.Kind)))
	})
	return list[:min(len(list), 5)]
}

// words are the names of the kinds, for people.
var words = map[facts.Disturbance]string{
	facts.SMI: "system management interrupts", facts.Steal: "stolen time", facts.MachineCheck: "machine checks",
	facts.Throttle:    "throttling",
	facts.OtherThread: "another thread ran:", facts.Migration: "the thread was moved:",
	facts.PageFault: "page faults of", facts.Interrupt: "interrupt",
	facts.IPI: "interrupt from another CPU:", facts.NMI: "NMI", facts.SoftIRQ: "softirq",
	facts.Memory: "memory management:", facts.IdleEntry: "idle state",
	facts.Frequency: "changes of the clock", facts.RunDelay: "waiting for the CPU:",
	facts.ContextSwitch: "context switches", facts.VMExit: "exits of the guest:",
}

// advice is what to do about each kind.
var advice = map[facts.Disturbance]string{
	facts.SMI: "firmware settings: 'mpps explain firmware.legacy_usb', 'mpps explain " +
		"firmware.patrol_scrub'; the vendor's realtime profile",
	facts.Steal:        "this host is a guest itself: ask below for dedicated CPUs",
	facts.MachineCheck: "look for corrected errors in the kernel log (memory, PCIe); 'mpps explain boot.mce'",
	facts.Throttle:     "look after cooling and power limits",
	facts.OtherThread:  "keep it off the CPU: 'mpps explain boot.isolcpus'; 'mpps plan --latency 20us'",
	facts.Migration:    "pin the thread to one CPU: 'mpps explain domain.vcpupin'",
	facts.PageFault:    "give the guest huge pages that are locked: 'mpps explain domain.hugepages'",
	facts.Interrupt:    "move it to another CPU: 'mpps explain rt.irq_affinity'",
	facts.IPI:          "other CPUs call this one: 'mpps explain boot.nohz_full', 'mpps explain rt.workqueue'",
	facts.NMI:          "switch the NMI watchdog off: 'mpps explain rt.watchdog'; end 'perf'",
	facts.SoftIRQ: "work behind interrupts and timers: 'mpps explain boot.rcu_nocbs', 'mpps explain " +
		"rt.irq_affinity'",
	facts.Memory:        "'mpps explain memory.thp', 'mpps explain memory.numa_balancing', 'mpps explain rt.ksm'",
	facts.IdleEntry:     "keep the CPU out of it: 'mpps explain cpu.latency', 'mpps explain boot.cstate'",
	facts.Frequency:     "hold the clock: 'mpps explain cpu.governor'",
	facts.RunDelay:      "something else had the CPU: isolation, 'mpps plan --latency 20us'",
	facts.ContextSwitch: "something else had the CPU: isolation, 'mpps plan --latency 20us'",
	facts.VMExit:        "look at what the guest does: timers, emulated devices, interrupts",
}

// Advice returns what to do about a kind, empty for an unknown one.
func Advice(kind facts.Disturbance) string { return advice[kind] }
