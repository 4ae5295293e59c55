package apply

import (
	"context"
	"fmt"
	"slices"

	"mpps/internal/change/journal"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Remains is the rest of a plan whose changes could not all be made or take effect at once: its transaction, those that
// resumed it, and what is still to do.
type Remains struct {
	TX    string    `json:"tx"`    // the transaction to resume
	Chain []string  `json:"chain"` // the transactions that it resumed, first one first, and itself
	Goal  goal.Goal `json:"goal"`
	Flags string    `json:"flags"` // the goal as it is given to 'mpps plan'
	Done  int       `json:"done"`  // values that stand and are in effect
	Waits []Wait    `json:"waits"` // values that stand and are not
	// Later is what could not be planned when the transaction was made or the host was inspected again.
	Later []journal.Postponed `json:"later"`
	// Against is why the plan cannot be resumed now; empty where it can.
	Against string   `json:"against,omitempty"`
	Looked  bool     `json:"looked"`  // the host was inspected again: Changes and Cannot are what remains
	Changes []Left   `json:"changes"` // that the resuming transaction would make, in order
	Cannot  []Left   `json:"cannot"`  // not as the plan wants them, and mpps cannot change them now
	Notes   []string `json:"notes"`   // what differs from when the transaction was made
	Next    string   `json:"next"`    // what to do now

	resume  *journal.Resume
	newest  string // last transaction of the journal
	chosen  bool   // the chain chose the kernel that is booted
	pending bool   // not resumed since the host was booted
}

// Wait groups values that wait for one thing.
type Wait struct {
	For       setting.Needs     `json:"for"` // "reboot of the host"
	Addresses []setting.Address `json:"addresses"`
}

// Left is one value that is still to be set.
type Left struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	From    string          `json:"from"`
	To      string          `json:"to"`
	Needs   setting.Needs   `json:"needs,omitzero"`
	Why     string          `json:"why,omitempty"`
}

// remains finds the newest transaction that waits or waited for something and was not resumed, or nil.
func (e *Engine) remains(l *journal.Ledger, rows []Row) *Remains {
	followed := map[string]bool{}
	for _, t := range slices.Backward(l.Open()) {
		if followed[t.Header.Follows] = true; l.State(t) != journal.Applied || followed[t.Header.TX] {
			continue
		}
		chain := l.Chain(t)
		if len(t.Header.Resume) == 0 || !slices.ContainsFunc(chain, awaits) {
			continue
		}
		return e.remainsOf(l, t, chain, rows)
	}
	return nil
}

// awaits reports whether a transaction had something that was not possible or did not take effect at once.
func awaits(t *journal.Transaction) bool {
	if resume, err := t.Resume(); err == nil && resume != nil && len(resume.Later) > 0 {
		return true
	}
	return slices.ContainsFunc(t.Changes(), func(c journal.Change) bool { return !c.Needs.IsZero() })
}

func (e *Engine) remainsOf(l *journal.Ledger, t *journal.Transaction, chain []*journal.Transaction,
	rows []Row) *Remains {
	r := &Remains{TX: t.Header.TX, Waits: []Wait{}, Later: []journal.Postponed{}, Changes: []Left{}, Cannot: []Left{},
		Notes: []string{}, newest: l.Newest()}
	needs, boots := map[setting.Address]setting.Needs{}, map[string]string{}
	for _, one := range chain {
		r.Chain = append(r.Chain, one.Header.TX)
		boots[one.Header.TX] = one.Header.BootID
		for _, c := range one.Changes() {
			needs[c.Address] = c.Needs
			r.chosen = r.chosen || c.Address.Kind == setting.BootKernel
		}
	}
	r.pending = t.Header.BootID != e.BootID
	unbooted, booted := 0, 0 // values that wait for a boot, and those that do although there was one
	for _, row := range rows {
		switch boot, ours := boots[row.TX]; {
		case !ours:
		case row.State == Compliant:
			r.Done++
		case row.State == WaitsFor:
			what := needs[row.Address]
			if what.IsZero() || row.Address.Kind.AtBoot() {
				what = setting.Reboot()
			}
			r.wait(what, row.Address)
			switch {
			case what.Kind != setting.HostReboot:
			case boot == e.BootID:
				unbooted++
			default:
				booted++
			}
		}
	}
	var err error
	if r.resume, err = t.Resume(); err != nil {
		r.Against, r.Next = err.Error(), "go on with the version of mpps that applied it, or apply the goal again"
		return r
	}
	r.Goal, r.Flags = r.resume.Goal, r.resume.Goal.Flags()
	r.Later = append(r.Later, r.resume.Later...)
	switch {
	case unbooted > 0:
		r.Against, r.Next = "it waits for a "+setting.Reboot().String(), "reboot the host, then 'mpps apply --resume'"
	case booted > 0:
		r.Against = fmt.Sprintf("the host was rebooted without %s of the boot loader's: another entry or kernel was "+
			"booted", words.Count(booted, "value"))
		r.Next = "compare /proc/cmdline with the boot menu ('mpps verify' names them), reboot into the default " +
			"entry, then 'mpps apply --resume'"
	default:
		r.Next = "'mpps apply --resume'"
	}
	return r
}

func (r *Remains) wait(what setting.Needs, a setting.Address) {
	i := slices.IndexFunc(r.Waits, func(w Wait) bool { return w.For == what })
	if i < 0 {
		i = len(r.Waits)
		r.Waits = append(r.Waits, Wait{For: what})
	}
	r.Waits[i].Addresses = append(r.Waits[i].Addresses, a)
}

// Resume is the transaction's record for resuming it; nil if it cannot be read.
func (r *Remains) Resume() *journal.Resume { return r.resume }

// Newest is the last transaction of the journal when this was found, for Options.Newest.
func (r *Remains) Newest() string { return r.newest }

// Fits compares the running kernel's release and the site file's digest with what the transaction expects. Differences
// that do not matter go into Notes. The error is one that forbids resuming: another kernel than the plan chose.
func (r *Remains) Fits(running, site string) error {
	if want := r.resume.Kernel; want != "" && running != want {
		if r.chosen {
			return &OtherKernel{TX: r.TX, Running: running, Chosen: want, Goal: r.Flags}
		}
		r.Notes = append(r.Notes, fmt.Sprintf("the host runs kernel %s, and when transaction %s was made %s was to "+
			"be booted next: what remains is planned for the one that runs", running, r.TX, want))
	}
	if site != r.resume.Site {
		r.Notes = append(r.Notes, fmt.Sprintf("the site file is another than when transaction %s was made: what "+
			"remains is planned with the one that is there now", r.TX))
	}
	return nil
}

// Found takes over the result of planning again.
func (r *Remains) Found(changes, cannot []Left, later []journal.Postponed) {
	r.Looked, r.Later = true, append([]journal.Postponed{}, later...)
	r.Changes, r.Cannot = append(r.Changes, changes...), append(r.Cannot, cannot...)
	if len(r.Changes) > 0 {
		return
	}
	r.Next = ""
	for _, w := range r.Waits {
		r.Next = w.For.String()
	}
}

// Looked updates the state from what remains of the plan: a host that was rebooted waits for the plan to be resumed.
func (s *Status) Looked() {
	r := s.Remains
	if r == nil || !r.Looked || len(r.Changes) == 0 || !r.pending || s.State != IsApplied && s.State != IsWaiting {
		return
	}
	s.State = IsWaiting
	s.Why = fmt.Sprintf("the host was rebooted; the plan of %s continues with %s: 'mpps apply --resume'", r.TX,
		words.Count(len(r.Changes), "change"))
}

// Resumable returns the rest of a plan that can be resumed now. The error says why there is none: nothing waits, what
// waits cannot be resumed yet, or the machine must be repaired first.
func (e *Engine) Resumable(ctx context.Context) (*Remains, error) {
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return nil, err
	}
	if ledger.Holder != nil {
		return nil, &journal.Locked{Holder: *ledger.Holder}
	}
	if err := e.settled(ledger, nil); err != nil {
		return nil, err
	}
	s, err := e.Status(ctx)
	if err != nil {
		return nil, err
	}
	switch r := s.Remains; {
	case r == nil:
		nothing := &NothingWaits{}
		for _, t := range ledger.Open() {
			if len(t.Header.Resume) == 0 && awaits(t) {
				nothing.Older = t.Header.TX
			}
		}
		return nil, nothing
	case r.Against != "":
		return nil, &NotYet{TX: r.TX, Why: r.Against, Next: r.Next}
	default:
		return r, nil
	}
}

// follows refuses to resume a transaction that is not applied.
func follows(l *journal.Ledger, tx string) error {
	if tx == "" {
		return nil
	}
	t, err := l.Find(tx)
	if err != nil {
		return err
	}
	if state := l.State(t); state != journal.Applied {
		return &NotYet{TX: tx, Why: "it is " + string(state), Next: "see 'mpps status'"}
	}
	return nil
}
