//go:build lab

package e2e

import (
	"os"
	"path/filepath"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// applied is what mpps apply answers.
type applied struct {
	TX      string          `json:"tx"`
	State   string          `json:"state"`
	Changes []apply.Outcome `json:"changes"`
	Moved   []apply.Moved   `json:"moved"`
}

// roundTrip applies a plan, finds every value of it with other programs, rolls it back, and finds the host as it was.
func (b *box) roundTrip(name string, before *survey, p *plan.Plan) {
	b.Helper()
	b.putPlan(name+".json", p)
	for _, c := range p.Changes {
		if was := before.at(c.Address); !was.Same(c.From) {
			b.Errorf("%s: the plan says it is %s, another program %s", c.Address, c.From, was)
		}
	}
	argv := []string{"apply", "--yes", "--detailed-exit-code", "--confirm", "0", "/share/" + name + ".json"}
	if isByHand(p) {
		argv = append(argv, "--foreign")
	}
	done := labtest.Answer[applied](b, 2, argv...)
	must.Hold(b, done.TX != "" && done.State == "applied" && len(done.Changes) == len(p.Changes) &&
		len(done.Moved) <= 0, "%s: transaction %q %s with %d of %d changes, moved: %v", name, done.TX, done.State,
		len(done.Changes), len(p.Changes), done.Moved)
	during := b.survey(p.Addresses()...)
	for _, c := range p.Changes {
		if is := during.at(c.Address); !c.Want.Met(is) {
			b.Errorf("%s: wanted %s, another program finds %s", c.Address, c.Want, is)
		}
	}
	b.MPPS(2, "rollback", "--detailed-exit-code", done.TX)
	b.survey(p.Addresses()...).same(b, before)
}

// readPlan reads a plan that mpps has written on the host.
func readPlan(b *box, file string) *plan.Plan {
	b.Helper()
	f := must.Get(os.Open(filepath.Join(b.Lab.ShareDir(), file)))(b)
	defer f.Close()
	p := must.Get(plan.Decode(f))(b)
	return p
}
