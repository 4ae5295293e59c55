package report

import (
	"mpps/internal/advise/kube"
)

// KubeExport draws what the target of a file cannot hold, and where the file was written; the file says it too.
func KubeExport(t *Text, e *kube.Export) {
	t.LineIf(len(e.NotHeld) > 0, "%s", t.In(Bold, "not held by "+e.Target))
	for _, l := range e.NotHeld {
		t.Wrap("  ", l.What+": "+l.Why)
		t.Field("    ", l.Command)
	}
	t.Wrap("", "wrote "+e.Written)
}
