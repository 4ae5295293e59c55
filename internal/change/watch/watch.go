// Package watch tells, from one look at a host to the next, what begins and what ends to be wrong with it: values that
// are not as applied, CPUs that are not quiet any more, a next boot that would be another one. It is pure: looks go in,
// events and metrics come out. One look proves little, for threads come and go: what was only seen to happen must be
// seen twice.
package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
)

// Schema is the version of an event's form.
const Schema = "mpps.event/1"

// What happened.
const (
	Begins  = "begins"  // something is wrong from now on
	Ends    = "ends"    // it is right again, or gone
	Changed = "changed" // something is otherwise than it was, which is neither right nor wrong
)

// Source is a part of a look. What a part did not see neither begins nor ends.
type Source string

// The sources.
const (
	Values   Source = "values"   // what was applied
	Isolated Source = "isolated" // what says which CPU is for what
	Observed Source = "observed" // what ran and interrupted between two looks
	Boots    Source = "boot"     // what the next boot gets
	Services Source = "services"
)

// Finding is one thing that is wrong at one look.
type Finding struct {
	Source   Source
	Code     string // value.drifted, irq.aimed, boot.not_realtime …
	Object   string // an address, a thread, an interrupt, a guest
	From     string // as it was, or as it is to be
	To       string // as it is
	Hint     string
	Severity knob.Severity
	Twice    bool // it must be seen in two looks running, and be gone for two
}

// key is what stays the same from one look to the next: names of threads without their numbers, for workers of the
// kernel come and go.
func (f Finding) key() string {
	object := f.Object
	if name, is := strings.CutPrefix(object, "thread "); is {
		if at := strings.LastIndex(name, " ("); at > 0 {
			name = name[:at]
		}
		if rest, is := strings.CutPrefix(name, "kworker/"); is {
			name, _, _ = strings.Cut(rest, ":") // the CPU that they belong to
			name = "kworker/" + name
			if strings.HasPrefix(rest, "u") {
				name = "kworker/u"
			}
		}
		object = "thread " + name
	}
	return f.Code + "\x00" + object
}

// Event is what is told.
type Event struct {
	Schema   string        `json:"schema"`
	Time     time.Time     `json:"time"`
	Host     string        `json:"host"`
	Event    string        `json:"event"` // begins, ends or changed
	Code     string        `json:"code"`
	Object   string        `json:"object"`
	From     string        `json:"from"` // as it was, or as it is to be; empty where that is not one value
	To       string        `json:"to"`   // as it is
	Hint     string        `json:"hint"`
	Severity knob.Severity `json:"severity"`
	// Since is when it began, of what ends.
	Since *time.Time `json:"since,omitempty"`
	// Found is set where it stood already when the watch began.
	Found bool `json:"found_at_start,omitempty"`
}

// Look is what one look saw.
type Look struct {
	At       time.Time
	Host     string
	Findings []Finding
	Saw      map[Source]bool   // the parts that were looked at
	Unseen   map[Source]string // parts that were not, and why; one that is in neither was left out on purpose
	State    State             // to be compared with the next look's
	Values   int               // applied values
	Drifted  int               // of them not as applied
	Aside    setting.CPUSet    // CPUs that are set aside now
	From     string            // who says so: "isolcpus, nohz_full"
	Pause    time.Duration     // until the next look
	Took     time.Duration
	Cost     time.Duration // CPU time of this look, programs that it started with it
}

// standing is a finding that is, or may be, true.
type standing struct {
	Finding
	since time.Time
	seen  int  // looks running
	gone  int  // looks running
	told  bool // it has begun
	first bool // it was there at the first look
}

// Watcher remembers what stands.
type Watcher struct {
	at     map[string]*standing
	before *State
	looks  int
	failed int
	events map[string]int // by code, begun and changed
	last   Look
	cost   time.Duration
	aside  setting.CPUSet // CPUs that were set aside at any look
	from   string         // who said so then
	judged bool           // whether CPUs are set aside was seen before
}

// New is a watcher that has seen nothing.
func New() *Watcher { return &Watcher{at: map[string]*standing{}, events: map[string]int{}} }

// twice is how often something must be seen, or not be seen, that comes and goes.
const twice = 2

// Take takes a look in and tells what is new.
func (w *Watcher) Take(l Look) []Event {
	w.looks++
	w.cost += l.Cost
	if len(l.Unseen) > 0 {
		w.failed++
	}
	events := w.scope(&l)
	if !l.Saw[Values] { // those of the last look that saw them
		l.Values, l.Drifted = w.last.Values, w.last.Drifted
	}
	present := map[string]bool{}
	for source, why := range l.Unseen {
		l.Findings = append(slices.Clip(l.Findings), Finding{
			Source: source, Code: "watch.unseen", Object: string(source), To: why,
			Hint: "what stood is taken to stand; see 'mpps verify' by hand", Severity: knob.Medium, Twice: true,
		})
	}
	for _, f := range l.Findings {
		key := f.key()
		if present[key] {
			continue
		}
		present[key] = true
		s := w.at[key]
		if s == nil {
			s = &standing{since: l.At, first: w.looks == 1}
			w.at[key] = s
		}
		s.Finding, s.gone = f, 0
		if s.seen++; !s.told && (!f.Twice || s.seen >= twice) {
			s.told = true
			events = append(events, w.event(l, Begins, s))
		}
	}
	for key, s := range w.at {
		if present[key] || !l.Saw[s.Source] && s.Code != "watch.unseen" {
			continue
		}
		s.seen = 0
		if s.gone++; s.told && s.Twice && s.gone < twice {
			continue
		}
		if s.told {
			events = append(events, w.event(l, Ends, s))
		}
		delete(w.at, key)
	}
	events = append(events, w.changes(l)...)
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.To, b.To))
	})
	for _, e := range events {
		if e.Event != Ends {
			w.events[e.Code]++
		}
	}
	w.last = l
	return events
}

func (w *Watcher) event(l Look, what string, s *standing) Event {
	e := Event{Schema: Schema, Time: l.At, Host: l.Host, Event: what, Code: s.Code, Object: s.Object, From: s.From,
		To: s.To, Hint: s.Hint, Severity: s.Severity}
	switch what {
	case Begins:
		e.Found = s.first
	case Ends:
		since := s.since
		e.Since = &since
		e.From, e.To, e.Hint = s.To, s.From, ""
	}
	return e
}

// Standing are the findings that have begun, the worst first.
func (w *Watcher) Standing() []Finding {
	var all []Finding
	for _, s := range w.at {
		if s.told {
			all = append(all, s.Finding)
		}
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object))
	})
	return all
}

// OK reports whether the host is known to be realtime: CPUs are set aside for it, the last look saw everything, and
// nothing worth a warning stands.
func (w *Watcher) OK() bool {
	return w.looks > 0 && len(w.aside) > 0 && len(w.last.Unseen) == 0 &&
		!slices.ContainsFunc(w.Standing(), func(f Finding) bool { return f.Severity >= knob.Medium })
}
