package judging

import (
	"strings"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestAudit: a guest that libvirt does not know is judged by its command line, as if libvirt knew it, and mpps changes
// nothing of it.
func TestAudit(t *testing.T) {
	t.Parallel()
	h := facts.Synthetic(facts.Size{CPUs: 32, NICs: 1, Queues: 8, Guests: 2})
	g := &h.Guests[0]
	g.Managed, g.Owner, g.Definition, g.Pins = false, nil, "", nil
	g.Interfaces[0].Model, g.Interfaces[0].Backend = "e1000", ""
	model := func(r audit.Report) *audit.Finding {
		return facts.Find(r.Findings, func(f *audit.Finding) bool {
			return f.ID == "domain.nic_model" && f.Address.Kind == setting.Domain && f.Address.Object() == g.Name &&
				strings.Contains(f.Address.Path, g.Interfaces[0].MAC)
		})
	}
	target := goal.Goal{PPS: 500e3}
	if f := model(audit.RunWith(h, target, knob.Catalogue(), nil)); f != nil && f.State != audit.NotApplicable {
		t.Errorf("without its command line: %+v", f)
	}
	r := Audit(h, target, nil)
	f := model(r)
	if f == nil || f.State != audit.Off || f.Blocked != ChangedBy(g) || f.Wanted != "virtio" {
		t.Fatalf("found %+v", f)
	}
	if off := len(r.InState(audit.Off)); r.Counts[audit.Off] != off {
		t.Errorf("%d values are off, counted %d", off, r.Counts[audit.Off])
	}
	must.Hold(t, !g.Managed && g.Definition == "" && len(h.Readings) <= 0, "the host's facts were changed")
}
