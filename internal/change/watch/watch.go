// Package watch reports, from one look at a host to the next, which problems begin and end: values that are not as
// applied, CPUs that are no longer quiet, a next boot with another kernel. It is pure: looks go in, events and metrics
// come out. Threads come and go, so a single look proves little: what was only observed must be seen twice.
package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
)

// Schema is the version of the event format.
const Schema = "mpps.event/1"

// The values of Event.Event.
const (
	Begins  = "begins"  // a problem begins
	Ends    = "ends"    // it is solved, or gone
	Changed = "changed" // something is different, neither right nor wrong
)

// Source is a part of a look. Findings of a part that was not seen neither begin nor end.
type Source string

// The sources.
const (
	Values   Source = "values"   // applied values
	Isolated Source = "isolated" // what assigns CPUs
	Observed Source = "observed" // threads and interrupts seen between two looks
	Boots    Source = "boot"     // the next boot
	Services Source = "services"
)

// Finding is a problem seen at one look.
type Finding struct {
	Source   Source
	Code     string // value.drifted, irq.aimed, boot.not_realtime …
	Object   string // an address, a thread, an interrupt, a guest
	From     string // before, or wanted
	To       string // now
	Hint     string
	Severity knob.Severity
	Twice    bool // it begins after two consecutive looks with it, and ends after two without
}

// key identifies a finding across looks. Thread names lose their numbers, since kernel workers come and go.
func (f Finding) key() string {
	object := f.Object
	if name, is := strings.CutPrefix(object, "thread "); is {
		if at := strings.LastIndex(name, " ("); at > 0 {
			name = name[:at]
		}
		if rest, is := strings.CutPrefix(name, "kworker/"); is {
			name, _, _ = strings.Cut(rest, ":") // the CPU they are bound to
			name = "kworker/" + name
			if strings.HasPrefix(rest, "u") {
				name = "kworker/u"
			}
		}
		object = "thread " + name
	}
	return f.Code + "\x00" + object
}

// Event reports what began, ended or changed.
type Event struct {
	Schema   string        `json:"schema"`
	Time     time.Time     `json:"time"`
	Host     string        `json:"host"`
	Event    string        `json:"event"` // begins, ends or changed
	Code     string        `json:"code"`
	Object   string        `json:"object"`
	From     string        `json:"from"` // before, or wanted; empty if that is not one value
	To       string        `json:"to"`   // now
	Hint     string        `json:"hint"`
	Severity knob.Severity `json:"severity"`
	// Since is when it began; set on events that end it.
	Since *time.Time `json:"since,omitempty"`
	// Found is set if it was already there when the watch began.
	Found bool `json:"found_at_start,omitempty"`
}

// Look is the result of one look.
type Look struct {
	At       time.Time
	Host     string
	Findings []Finding
	Saw      map[Source]bool   // parts that were seen
	Unseen   map[Source]string // parts that could not be seen, and why; a part in neither was skipped on purpose
	State    State             // to compare with the next look
	Values   int               // applied values
	Drifted  int               // of these, not as applied
	States   map[string]int    // of these, by state
	Path     *Path             // of packets; nil: not looked at
	Isolated setting.CPUSet    // CPUs that are isolated now
	From     string            // what isolates them: "isolcpus, nohz_full"
	Pause    time.Duration     // until the next look
	Took     time.Duration
	Cost     time.Duration // CPU time of this look, including programs it started
}

// standing is a finding that is, or may be, true.
type standing struct {
	Finding
	since    time.Time
	seen     int  // consecutive looks with it
	gone     int  // consecutive looks without it
	reported bool // it has begun
	first    bool // seen at the first look
}

// Watcher keeps the current findings.
type Watcher struct {
	at       map[string]*standing
	before   *State
	looks    int
	failed   int
	events   map[string]int // by code: begins and changes
	last     Look
	cost     time.Duration
	isolated setting.CPUSet // CPUs that were isolated at any look
	from     string         // what isolated them
	judged   bool           // isolation was seen before
}

// New returns a watcher that has seen nothing.
func New() *Watcher { return &Watcher{at: map[string]*standing{}, events: map[string]int{}} }

// confirmLooks is the number of consecutive looks that confirm a transient finding, or its end.
const confirmLooks = 2

// Observe adds a look and returns what is new.
func (w *Watcher) Observe(l Look) []Event {
	w.looks++
	w.cost += l.Cost
	if len(l.Unseen) > 0 {
		w.failed++
	}
	events := w.checkIsolation(&l)
	if !l.Saw[Values] { // keep those of the last look that saw them
		l.Values, l.Drifted, l.States = w.last.Values, w.last.Drifted, w.last.States
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
		if s.seen++; !s.reported && (!f.Twice || s.seen >= confirmLooks) {
			s.reported = true
			events = append(events, w.event(l, Begins, s))
		}
	}
	for key, s := range w.at {
		if present[key] || !l.Saw[s.Source] && s.Code != "watch.unseen" {
			continue
		}
		s.seen = 0
		if s.gone++; s.reported && s.Twice && s.gone < confirmLooks {
			continue
		}
		if s.reported {
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

// Standing returns the findings that have begun, worst first.
func (w *Watcher) Standing() []Finding {
	var all []Finding
	for _, s := range w.at {
		if s.reported {
			all = append(all, s.Finding)
		}
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object))
	})
	return all
}

// OK reports whether the host is known to be realtime: CPUs are isolated, the last look saw everything, and there is no
// finding of severity medium or worse.
func (w *Watcher) OK() bool {
	return w.looks > 0 && len(w.isolated) > 0 && len(w.last.Unseen) == 0 &&
		!slices.ContainsFunc(w.Standing(), func(f Finding) bool { return f.Severity >= knob.Medium })
}
