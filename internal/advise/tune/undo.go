package tune

import "slices"

// UndoCommand is the command that undoes what a run left on the host, including changes that wait for a restart, or
// empty if it left nothing.
func (r *Result) UndoCommand() string {
	switch {
	case r.TX == "" && r.RestartTX == "":
		return ""
	case r.TX == "":
		return "mpps rollback " + r.RestartTX
	case r.RestartTX != "" || len(r.Chain) > 1: // each is built on the first
		return "mpps rollback --with-later " + r.TX
	}
	return "mpps rollback " + r.TX
}

// MarkUndone records that what a finished run had kept was undone after all. by is Failed or Interrupted, initial the
// rate of the host as the run found it.
func (r *Result) MarkUndone(initial Rate, by Verdict, why string) {
	inherited := slices.DeleteFunc(slices.Clone(r.Kept), func(key string) bool { return slices.Contains(r.Added, key) })
	r.markUndone(inherited, initial)
	r.Added = []string{}
	r.Verdict, r.Why = by, why
}

// markUndone records that only what an earlier run had kept stands.
func (r *Result) markUndone(inherited []string, initial Rate) {
	r.Kept = append([]string{}, inherited...)
	r.Final, r.After = initial, r.resumed
	for _, all := range [][]Attempt{r.Attempts, r.Revisits} {
		for i := range all {
			if a := &all[i]; a.Outcome == Kept && !a.Stands(r.Kept) {
				a.Outcome = Overcome
			}
		}
	}
}
