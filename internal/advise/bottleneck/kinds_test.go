package bottleneck

import (
	"slices"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/must"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[Kind]bool{}
	for _, m := range meanings {
		switch {
		case seen[m.Kind]:
			t.Errorf("%s: twice", m.Kind)
		case !slices.Contains(StageNames(), m.Stage):
			t.Errorf("%s: %q is no stage", m.Kind, m.Stage)
		case m.Title == "" || m.Advice == "" || m.Seen == "":
			t.Errorf("%s: expected a title, what it is recognised by, and advice", m.Kind)
		case m.Ends != (m.level == byEnds):
			t.Errorf("%s: whether it is an end of the measurement is said twice, and differently", m.Kind)
		}
		seen[m.Kind] = true
		for _, id := range m.Knobs {
			must.Hold(t, slices.ContainsFunc(knob.Catalogue(), func(k *knob.Knob) bool { return k.ID == id }),
				"%s: no knob %q in the catalogue", m.Kind, id)
		}
	}
	must.Hold(t, About("nothing").Kind == "" && About(Vhost).Kind == Vhost,
		"a kind is found by its name, and nothing by another")
}
