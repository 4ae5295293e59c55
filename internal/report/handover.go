package report

import (
	"mpps/internal/advise/handover"
	"mpps/internal/words"
)

// Handover draws what to set on the platforms of guests.
func Handover(t *Text, sheets []handover.Sheet) {
	if len(sheets) == 0 {
		t.Line("nothing to hand over: no platform's guest needs another definition")
	}
	for i, s := range sheets {
		t.LineIf(i > 0, "")
		t.Wrap(t.In(Bold, s.Guest)+"  ", s.Platform.Title()+words.If(s.ID != "" && s.ID != s.Guest, " (%s)", s.ID))
		for _, w := range s.Words {
			t.Wrap("   ", w.Where)
			t.Line("     %s", t.In(Bold, w.Text)) // a command is pasted: a line break inside quotes would change it
			t.Field("     why: ", w.Why)
			t.Field("     note: ", w.Note)
			t.Field("     source: ", w.Source)
		}
		t.LineIf(len(s.Plain) > 0, "   its words are not known here; the values:")
		for _, v := range s.Plain {
			t.Wrap("     ", v.Setting+" = "+v.Value)
		}
		t.LineIf(len(s.Unsaid) > 0, "   cannot be said there:")
		for _, v := range s.Unsaid {
			t.Wrap("     ", v.Setting+" = "+v.Value+": "+v.Why)
		}
		t.Field("   takes effect ", s.Effect)
	}
}
