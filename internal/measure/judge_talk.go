package measure

import "fmt"

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
