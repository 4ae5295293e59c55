package measure

import (
	"fmt"
	"math"
	"slices"
)

// Thresholds of the verdict. They are part of the method; the evidence quotes them.
const (
	paced    = 0.95 // a paced generator that sent less than this share of the rate was the limit
	headroom = 1.2  // the baseline of generator and receiver must be at least this multiple of the result
	// share of all CPUs kept busy by others, above which a path may have been slow for lack of CPU time
	crowded   = 0.5
	disturbed = 0.1   // … and above which a paced generator may have been late for lack of it
	lossy     = 0.001 // share of packets lost, above which the path counts as overloaded
)

// Judge derives everything that follows from the samples, baselines and counters: totals, the median, the limit, where
// packets were lost, and the warnings. It is pure and may be called again.
func (r *Run) Judge() {
	if r.Samples == nil {
		r.Samples = []Sample{}
	}
	r.total()
	r.Median = Median(r.Values())
	r.Median.Unit = r.Kind.Unit()
	if r.Kind == PPS {
		r.PPS = r.Median.Value
		r.LimitedBy, r.Evidence = r.limit()
		if others := r.otherLoad(); r.LimitedBy == ByDevice && others > crowded {
			r.LimitedBy = ByUnknown
			r.Evidence = append([]string{r.othersBusy() + ": the path may have been slow for want of CPU time"},
				r.Evidence...)
		}
	} else {
		r.LimitedBy, r.Evidence = r.talkLimit()
	}
	if r.Counters == nil {
		r.Counters = []Delta{}
	}
	r.Losses, r.UnexplainedLoss = LocateLoss(r.withoutSink(), r.Lost)
	r.locateOverrun()
	r.locateRefused()
	r.warn()
	if r.Warnings == nil {
		r.Warnings = []Warning{}
	}
}

// withoutSink returns the counters without the frames that the sink itself consumed. An XDP sink drops what it has
// counted; some drivers (virtio_net) include that in the interface's drops, others (veth) do not. A drop counter that
// is no smaller than what was received must include it.
func (r *Run) withoutSink() []Delta {
	deltas := slices.Clone(r.Counters)
	for _, way := range r.ways() {
		for i := range deltas {
			d := &deltas[i]
			if d.Where == way.to.Where && d.Interface == way.to.Interface && d.Name == "rx_dropped" &&
				d.Delta >= way.Received {
				d.Delta -= way.Received
			}
		}
	}
	return slices.DeleteFunc(deltas, func(d Delta) bool { return d.Delta == 0 })
}

// locateRefused attributes unexplained losses to the sender's own interface, up to the number of frames that its full
// ring refused. Some drivers count those as dropped, others do not.
func (r *Run) locateRefused() {
	for _, way := range r.ways() {
		refused := min(way.SendErrors, r.UnexplainedLoss)
		if refused == 0 {
			continue
		}
		r.UnexplainedLoss -= refused
		r.Losses = append(r.Losses, Loss{
			Counter: Counter{Where: way.from.Where, Interface: way.from.Interface, Name: "xdp.ring_full"},
			Place:   Elsewhere, Packets: refused,
		})
	}
	sortLosses(r.Losses)
}

// locateOverrun attributes losses to the receiver's full socket ring. The kernel counts those at the socket and nowhere
// else (tpacket_rcv in net/packet/af_packet.c).
func (r *Run) locateOverrun() {
	for _, way := range r.ways() {
		if n := min(way.Overrun, r.Lost); n > 0 {
			r.Losses = append(r.Losses, Loss{
				Counter: Counter{Where: way.to.Where, Interface: way.to.Interface, Name: "sink.ring_full"},
				Place:   AtSocket, Packets: n,
			})
			r.UnexplainedLoss = minus(r.UnexplainedLoss, n)
		}
	}
}

// direction is one direction of the traffic, with its ends.
type direction struct {
	Way
	from, to Endpoint
}

// ways returns the directions of the run, one or two.
func (r *Run) ways() []direction {
	if len(r.Ways) == 2 {
		return []direction{{r.Ways[0], r.From, r.To}, {r.Ways[1], r.To, r.From}}
	}
	one := Way{Received: r.Received}
	for _, s := range r.Samples {
		one.SendErrors, one.Overrun = one.SendErrors+s.SendErrors, one.Overrun+s.Overrun
	}
	return []direction{{one, r.From, r.To}}
}

// totalWays sums each direction over the samples. Its rate is the median.
func (r *Run) totalWays() {
	r.Ways = nil
	for way := range r.Load.Ways() {
		var sum Way
		var rates []float64
		for _, s := range r.Samples {
			if len(s.Ways) < 2 {
				return
			}
			w := s.Ways[way]
			sum.Sent, sum.Received, sum.Lost = sum.Sent+w.Sent, sum.Received+w.Received, sum.Lost+w.Lost
			sum.Duplicated, sum.Reordered = sum.Duplicated+w.Duplicated, sum.Reordered+w.Reordered
			sum.SlippedNs, sum.SendErrors, sum.Overrun = sum.SlippedNs+w.SlippedNs, sum.SendErrors+w.SendErrors,
				sum.Overrun+w.Overrun
			rates = append(rates, w.PPS)
		}
		sum.PPS = Median(rates).Value
		r.Ways = append(r.Ways, sum)
	}
}

func (r *Run) total() {
	r.Sent, r.Received, r.Lost, r.Duplicated, r.Reordered = 0, 0, 0, 0, 0
	var cost, offered []float64
	var latencies, raw []*Latency
	for i := range r.Samples {
		s := &r.Samples[i]
		r.Sent, r.Received, r.Lost = r.Sent+s.Sent, r.Received+s.Received, r.Lost+s.Lost
		r.Duplicated, r.Reordered = r.Duplicated+s.Duplicated, r.Reordered+s.Reordered
		cost, offered = append(cost, s.CPUNsPerUnit), append(offered, s.OfferedPPS)
		latencies, raw = append(latencies, s.Latency), append(raw, s.LatencyRaw)
	}
	if r.Load.TwoWay {
		r.totalWays()
	}
	r.CPUNsPerUnit = Median(cost).Value
	if r.Kind == PPS {
		r.CPUNsPerPacket, r.OfferedPPS = r.CPUNsPerUnit, r.Load.Offered()
		if r.Load.Rate == 0 {
			r.OfferedPPS = Median(offered).Value
		}
	}
	r.Latency, r.LatencyRaw = MergeLatency(latencies...), MergeLatency(raw...)
}

// limit returns what kept a pps run from being higher, with the evidence.
func (r *Run) limit() (Limit, []string) {
	if len(r.Samples) == 0 {
		return ByUnknown, []string{"no trial was completed"}
	}
	var rates []float64
	var overrun uint64
	for _, s := range r.Samples {
		if s.Seconds > 0 {
			rates = append(rates, float64(s.Sent)/s.Seconds)
		}
		overrun += s.Overrun
	}
	sent := Median(rates).Value
	if sent == 0 {
		return ByGenerator, []string{"the generator sent nothing"}
	}
	loss := 0.0
	if r.Sent > 0 {
		loss = float64(r.Lost) / float64(r.Sent)
	}
	losing := loss > lossy
	carried := fmt.Sprintf("%s of the packets sent were lost", percent(loss))

	if losing && overrun*2 >= r.Lost {
		return ByReceiver, []string{fmt.Sprintf(
			"%d of %d lost packets had reached the receiver and found its ring full", overrun, r.Lost)}
	}
	if c := r.Baseline.Receiver; losing && c != nil && c.PPS > 0 && !c.AtLeast && r.Median.Value*headroom > c.PPS {
		return ByReceiver, []string{carried, fmt.Sprintf("the receiver alone (%s) counts %s, less than %g × the %s "+
			"that arrived", c.How, rate(c.PPS), headroom, rate(r.Median.Value))}
	}
	if r.Load.Rate > 0 {
		switch {
		case sent < paced*r.Load.Offered():
			asked := append([]string{fmt.Sprintf("%s were asked for and %s sent, less than %s",
				rate(r.Load.Offered()), rate(sent), percent(paced))}, r.generatorAlone()...)
			if c := r.Baseline.Generator; c != nil && c.PPS >= sent*headroom {
				if r.otherLoad() > disturbed && c.PPS*headroom < r.Load.Offered() {
					return ByGenerator, append(asked, r.othersBusy()+
						", but alone it could not have made the rate either")
				}
				if r.otherLoad() > disturbed {
					return ByUnknown, append(asked, r.othersBusy()+": the generator may have been late for want of "+
						"CPU time, or the path have held it back")
				}
				var short shortfall
				for _, s := range r.Samples {
					short.add(s, r.Load.Offered())
				}
				if short.starved() {
					return ByUnknown, append(asked, short.String())
				}
				return ByDevice, append(asked, fmt.Sprintf("at least %g × as much as was sent: the path, which runs "+
					"on the sender's CPU, held it back", headroom))
			}
			return ByGenerator, asked
		case losing:
			return ByDevice, []string{carried + " at " + rate(sent)}
		}
		return ByNothing, []string{fmt.Sprintf("%s were sent and %s of them lost: the device's limit is above this "+
			"rate", rate(sent), percent(loss))}
	}
	if losing {
		return ByDevice, append([]string{carried + ": more was sent than the path carries"}, r.generatorAlone()...)
	}
	c := r.Baseline.Generator
	if c == nil || c.PPS == 0 {
		return ByUnknown, []string{carried + ": the path was not overloaded, and what the generator can do alone is " +
			"not known"}
	}
	if sent > c.PPS*1.05 {
		return ByUnknown, []string{carried, fmt.Sprintf("the generator alone (%s) made %s, less than the %s that it "+
			"sent through the device: something disturbed one of the two", c.How, rate(c.PPS), rate(sent))}
	}
	if sent*headroom > c.PPS {
		return ByGenerator, []string{carried + ": the path carried all that the generator could send",
			fmt.Sprintf("the generator alone (%s) makes %s, less than %g × the %s sent", c.How, rate(c.PPS), headroom,
				rate(sent))}
	}
	return ByDevice, []string{carried, fmt.Sprintf("the generator alone (%s) makes %s; the path, which runs on the "+
		"sender's CPU, let it send %s", c.How, rate(c.PPS), rate(sent))}
}

// shortfall is by how many seconds a paced generator was behind its rate in some trials, and what took CPU time from
// it.
type shortfall struct {
	behind, waited, others float64
}

// add adds a trial at an offered rate.
func (s *shortfall) add(trial Sample, offered float64) {
	if offered <= 0 || len(trial.CPU) == 0 {
		return
	}
	s.behind += max(0, trial.Seconds-float64(trial.Sent)/offered)
	near := trial.CPU[0].Total()
	others := near.Busy() + near.Steal
	for _, t := range trial.Threads {
		others -= t.Seconds
		if t.Role == Ourselves || t.Role == Pktgen {
			s.waited += t.Waited
		}
	}
	s.others += max(0, others)
}

// starved reports whether lack of CPU time may explain the shortfall: the generator waited for a CPU in at least half
// of the time that it is behind, and threads that carry no packets, or the hypervisor, had CPUs for as long. Softirqs
// of the path on idle CPUs count as such, too.
func (s shortfall) starved() bool {
	return s.behind > 0 && 2*s.waited >= s.behind && 2*s.others >= s.behind
}

func (s shortfall) String() string {
	return fmt.Sprintf("it was behind by %.2f s, waited %.2f s for a CPU, and others had CPUs for %.2f s: it may "+
		"have been late for want of CPU time, or the path have held it back", s.behind, s.waited, s.others)
}

// otherLoad returns the share of the near machine's CPUs that others kept busy while nothing was sent, 0–1; 0 if the
// number of CPUs is unknown.
func (r *Run) otherLoad() float64 {
	cpus := r.Environment.CPUs
	if cpus == 0 && len(r.Samples) > 0 && len(r.Samples[0].CPU) > 0 {
		cpus = len(r.Samples[0].CPU[0].CPUs)
	}
	return busyShare(r.Baseline, cpus)
}

// warnOfLoad warns of other load than a measurement's.
func (b Baseline) warnOfLoad(warn func(Warning)) {
	if b.BusyCPUs > 0.1 {
		warn(Warning{Code: "other-load", Text: fmt.Sprintf("%.1f CPUs were busy while nothing was sent", b.BusyCPUs),
			Hint: "end other load: it takes CPU time from the path and counts towards its cost"})
	}
}

// busyShare returns the share of a number of CPUs, 0–1; 0 if that is unknown.
func busyShare(b Baseline, cpus int) float64 {
	if cpus == 0 {
		return 0
	}
	return b.BusyCPUs / float64(cpus)
}

func (r *Run) othersBusy() string {
	return fmt.Sprintf("others kept %.1f CPUs busy, %s of all", r.Baseline.BusyCPUs, percent(r.otherLoad()))
}

func (r *Run) generatorAlone() []string {
	c := r.Baseline.Generator
	if c == nil || c.PPS == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the generator alone (%s) makes %s", c.How, rate(c.PPS))}
}

// warn adds the warnings that a reader must know.
func (r *Run) warn() {
	if r.Environment.Emulated {
		r.Warn(emulatedWarning)
	}
	if r.Partial {
		r.Warn(Warning{Code: "partial", Text: fmt.Sprintf("ended early: %d of %d trials", len(r.Samples),
			r.Load.Repeat)})
	}
	if n := len(r.Samples); n > 0 && r.Median.Level < 0.9 {
		text := samples(n) + ": there is no interval"
		if n > 1 {
			text = fmt.Sprintf("%s: the interval is their whole range and has a confidence of %s", samples(n),
				percent(r.Median.Level))
		}
		r.Warn(Warning{Code: "few-samples", Text: text,
			Hint: "use --repeat 6 or more (with --plan: --blocks 3) for an interval of 95 %"})
	}
	if n := len(r.Samples); n >= 3 && r.Median.Value > 0 && (r.Median.Hi-r.Median.Lo)/r.Median.Value > 0.2 {
		r.Warn(Warning{Code: "spread", Text: fmt.Sprintf("the interval is %s of the median wide",
			percent((r.Median.Hi-r.Median.Lo)/r.Median.Value)),
			Hint: "use a longer --duration or more trials (--repeat, or --blocks), and end other load"})
	}
	r.Baseline.warnOfLoad(r.Warn)
	var steal, total float64
	for _, s := range r.Samples {
		for _, m := range s.CPU[:min(1, len(s.CPU))] {
			t := m.Total()
			steal, total = steal+t.Steal, total+t.Busy()+t.Idle+t.Steal
		}
		for _, w := range s.Warnings {
			r.Warn(w)
		}
	}
	if total > 0 && steal/total > 0.01 {
		r.Warn(Warning{Code: "steal", Text: fmt.Sprintf("the hypervisor below took %s of the CPU time",
			percent(steal/total)),
			Hint: "measure when the machine is quiet, or on one that is not shared"})
	}
	if r.Kind == PPS && r.Lost > 0 && r.UnexplainedLoss*10 > r.Lost && len(r.Counters) > 0 {
		r.Warn(Warning{Code: "loss-not-located",
			Text: fmt.Sprintf("no counter that was read explains %d of %d lost packets", r.UnexplainedLoss, r.Lost),
			Hint: "mpps diagnose looks at more of them"})
	}
	r.warnTalk()
	for _, c := range []*Alone{r.Baseline.Generator, r.Baseline.Receiver} {
		if c != nil && c.Error != "" {
			r.Warn(Warning{Code: "no-baseline", Text: c.How + ": " + c.Error, Hint: "what limited the result is less " +
				"certain without it"})
		}
	}
	slices.SortStableFunc(r.Warnings, func(a, b Warning) int { return weight(a.Code) - weight(b.Code) })
}

// weight sorts warnings that may invalidate the result to the front.
func weight(code string) int {
	if i := slices.Index([]string{"more-received-than-sent", "partial", "emulated"}, code); i >= 0 {
		return i - 10
	}
	return 0
}

func percent(share float64) string {
	p := share * 100
	switch {
	case p == 0:
		return "0 %"
	case math.Abs(p) < 0.01:
		return fmt.Sprintf("%.2g %%", p)
	}
	return fmt.Sprintf("%.4g %%", p)
}

func rate(pps float64) string {
	switch {
	case pps >= 1e6:
		return fmt.Sprintf("%.4g Mpps", pps/1e6)
	case pps >= 1e3:
		return fmt.Sprintf("%.4g kpps", pps/1e3)
	}
	return fmt.Sprintf("%.4g pps", pps)
}

// bothEnds says why a conversation at full speed is never attributed to the path alone.
const bothEnds = "both ends' stacks and CPUs are a part of every transaction and byte counted"

// talkLimit returns what kept a conversation from being faster, with the evidence. Only a conversation at a set rate
// can tell.
func (r *Run) talkLimit() (Limit, []string) {
	if r.Kind != RR || r.Load.Rate == 0 || len(r.Samples) == 0 {
		return ByUnknown, []string{bothEnds}
	}
	var due, sent, answered, blocked uint64
	for _, s := range r.Samples {
		due, sent, answered, blocked = due+s.Due, sent+s.Sent, answered+s.Transactions, blocked+s.Blocked
	}
	asked := fmt.Sprintf("%.4g transactions a second were asked for", r.Load.Rate)
	switch {
	case float64(sent) < paced*float64(due) && blocked*2 >= due-sent:
		return ByUnknown, []string{asked, fmt.Sprintf("%d of %d requests could not be sent: the path or the far end "+
			"took no more", due-sent, due), bothEnds}
	case float64(sent) < paced*float64(due):
		return ByGenerator, []string{asked, fmt.Sprintf("%d of %d requests were not sent when they were due, "+
			"although the path would have taken them", due-sent, due)}
	case float64(sent-min(answered, sent)) > lossy*float64(sent):
		return ByUnknown, []string{asked, fmt.Sprintf("%s of the requests were not answered in time",
			percent(float64(sent-answered)/float64(sent))), bothEnds}
	}
	return ByNothing, []string{asked + ", sent and answered: the limit is above this rate"}
}

// warnTalk adds the warnings that a reader of transactions must know.
func (r *Run) warnTalk() {
	if r.Kind != RR {
		return
	}
	var due, late uint64
	for _, s := range r.Samples {
		due, late = due+s.Due, late+s.Late
	}
	if r.Lost > 0 && r.Sent > 0 {
		text := fmt.Sprintf("%d of %d requests (%s) were not answered within %v: they are in no percentile", r.Lost,
			r.Sent, percent(float64(r.Lost)/float64(r.Sent)), r.Load.Timeout)
		if late > 0 {
			text += fmt.Sprintf("; %d answers came later, or twice", late)
		}
		r.Warn(Warning{Code: "lost-answers", Text: text, Hint: "a longer --timeout tells late answers from lost ones"})
	}
	if r.Load.Rate > 0 && float64(r.Sent) < paced*float64(due) {
		r.Warn(Warning{Code: "rate-not-reached", Text: fmt.Sprintf("%d of %d requests that were due did not leave: "+
			"those are in no percentile", due-r.Sent, due),
			Hint: "use a lower --rate, or more --connections"})
	}
	if a, b := r.Latency, r.LatencyRaw; a != nil && b != nil && a.At(50) > 2*b.At(50) && a.At(50)-b.At(50) > 20_000 {
		r.Warn(Warning{Code: "sent-late", Text: fmt.Sprintf("the median delay is %d µs from the schedule and %d µs "+
			"from the sending: requests left late, and the delays are this machine's as much as the path's",
			a.At(50)/1000, b.At(50)/1000),
			Hint: "use a lower --rate, or end other load; latency_raw counts from the sending"})
	}
}
