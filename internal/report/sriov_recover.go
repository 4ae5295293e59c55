package report

import (
	"fmt"

	"mpps/internal/sriov"
)

// SRIOVRecover draws what was looked at of a function, in order, and what became of it.
func SRIOVRecover(t *Text, r sriov.Recovery, dryRun bool) {
	t.Heading(fmt.Sprintf("%s (%s)", r.Function, r.PCI))
	for _, s := range r.Steps {
		mark := t.In(Yellow, "not")
		switch s.State {
		case "ok":
			mark = t.In(Green, "ok ")
		case "taken":
			mark = t.In(RedBold, "not")
		}
		t.Wrapped("  "+mark+"  ", s.What+": "+s.Found)
		if s.Do != "" {
			t.Wrapped("       ", s.Do)
		}
	}
	if r.WasReset != "" {
		t.Wrapped("  reset: ", r.WasReset)
	}
	switch {
	case r.Verdict == sriov.Well:
		t.Line("nothing is the matter with it")
	case r.Verdict == sriov.Taken:
		t.Line("nothing was done: somebody has it")
	case dryRun:
		would := fmt.Sprintf("values that would be written: %d", len(r.Changes))
		if r.Reset {
			would = "the function would be reset; " + would
		}
		t.Wrapped("dry run: ", would+"; nothing was done")
	case r.After == sriov.Well:
		t.Line("%s", t.In(Green, "mended"))
	default:
		t.Line("%s", t.In(Yellow, "not all is mended"))
	}
	if r.Transaction != "" {
		t.Line("'mpps rollback %s' puts the values back", r.Transaction)
	}
	if r.LastResort != "" && r.After != sriov.Well {
		t.Wrapped("", r.LastResort)
	}
}
