package report

import (
	"mpps/internal/advise/kube"
)

// KubeExport draws a file for a cluster, and, where it was written, what its target cannot hold; the file says it too.
func KubeExport(t *Text, e *kube.Export) {
	if e.Written == "" {
		paste(t, "", []string{e.Text})
		return
	}
	t.LineIf(len(e.NotHeld) > 0, "%s", t.In(Bold, "not held by "+e.Target))
	for _, l := range e.NotHeld {
		t.Wrap("  ", l.What+": "+l.Why)
		t.Field("    ", l.Command)
	}
	t.Wrap("", "wrote "+e.Written)
}
