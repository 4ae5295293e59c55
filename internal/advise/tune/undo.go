package tune

import "slices"

// UndoCommand is the command that undoes what stands of a run, and with it what is made for a restart; empty where
// nothing stands.
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

// Undone says of a run that had come to its end that what it kept was put back after all: by a Failed or an
// Interrupted. found is the rate of the host as this run found it.
func (r *Result) Undone(found Rate, by Verdict, why string) {
	stood := slices.DeleteFunc(slices.Clone(r.Kept), func(key string) bool { return slices.Contains(r.Added, key) })
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Outcome == Kept && !a.Stands(stood) {
			a.Outcome = Overcome
		}
	}
	r.Kept, r.Added = append([]string{}, stood...), []string{}
	r.Final, r.After = found, r.resumed
	r.Verdict, r.Why = by, why
	r.takenBack()
}

// takenBack says of what was measured again that it does not stand any more.
func (r *Result) takenBack() {
	for i := range r.Revisits {
		if a := &r.Revisits[i]; a.Outcome == Kept && !slices.Contains(r.Kept, a.Key) {
			a.Outcome = Overcome
		}
	}
}
