package change

import (
	"fmt"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/site"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// TunedCaveats returns warnings for values on which a plan and TuneD's profile disagree, with every way out. Values
// decided by the same option of the profile share a warning.
func TunedCaveats(p *plan.Plan, h *facts.Host) []outcome.Warning {
	type cause struct {
		option string
		resets bool
	}
	byCause := map[cause][]lasting.Dispute{}
	var order []cause
	for _, d := range lasting.Disputes(p, h) {
		c := cause{d.Option, d.Resets}
		if byCause[c] == nil {
			order = append(order, c)
		}
		byCause[c] = append(byCause[c], d)
	}
	return facts.Map(order, func(c cause) outcome.Warning { return disputeWarning(byCause[c], h.Lasting.Tuned) })
}

func disputeWarning(all []lasting.Dispute, t *facts.Tuned) outcome.Warning {
	d := all[0]
	what := d.Address.String()
	if more := len(all) - 1; more > 0 {
		what += fmt.Sprintf(" and %s more", ops.Count(more, "value"))
	}
	gives := "sets it itself"
	if d.Tuned != "" {
		gives = "gives " + d.Tuned
	}
	where := d.Option
	if d.File != "" {
		where += " in " + d.File
	}
	w := outcome.Warning{
		Code: "tuned-disagrees",
		Text: fmt.Sprintf("%s is planned to be %s, and TuneD's profile %s %s (%s)", what, d.Planned, t.Profile, gives,
			where),
	}
	switch {
	case d.Address.Kind.AtBoot():
		w.Code, w.Text = "tuned-resets", w.Text+"; the kernel would be given both"
	case d.Resets:
		w.Code, w.Text = "tuned-resets", w.Text+"; its next start takes the planned value away"
	default:
		w.Text += "; sysctl.d is read behind it and wins"
	}
	change := "change that option in a profile of your own"
	if n := len(t.VariableFiles); n > 0 {
		change = "change its variables in " + t.VariableFiles[n-1]
	}
	w.Hint = fmt.Sprintf("leave it to TuneD ({id: %s, leave: true, reason: …} in /%s), %s, "+
		"or let both say the same: 'mpps export tuned' with this goal", d.ID, site.Path, change)
	return w
}
