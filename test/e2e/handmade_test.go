//go:build lab

package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// change is one of a plan that the catalogue would not make.
type change struct {
	address string
	to      string // "absent" removes
}

// wanted is what the change is to give.
func (c change) want() setting.Want {
	if c.to == "absent" {
		return setting.NotThere()
	}
	return setting.Exact(c.to)
}

// addressesOf are those of changes, in their order.
func addressesOf(b *box, changes []change) []setting.Address {
	b.Helper()
	addresses := make([]setting.Address, len(changes))
	for i, c := range changes {
		var err error
		if addresses[i], err = setting.ParseAddress(c.address); err != nil {
			b.Fatal(err)
		}
	}
	return addresses
}

// byHand makes a plan of given changes for a host, in their order. What is found now comes from other programs: were it
// not what mpps reads too, the plan would be refused as stale.
func byHand(b *box, h *facts.Host, now *survey, changes ...change) *plan.Plan {
	b.Helper()
	addresses := addressesOf(b, changes)
	readings := map[setting.Address]setting.Reading{}
	var catalogue []*knob.Knob
	for i, a := range addresses {
		readings[a] = now.at(a)
		catalogue = append(catalogue, &knob.Knob{
			ID: fmt.Sprintf("test.%04d", i), Title: "a value of the test", Stage: datapath.Softirq, Risk: goal.None,
			Tiers: goal.Tiers(),
			Where: func(*facts.Host) []setting.Address { return []setting.Address{a} },
			Want: func(*knob.View, setting.Address) knob.Advice {
				return knob.Wants(changes[i].want(), "the test wants it")
			},
		})
	}
	host := *h
	host.Readings = readings
	p := must.Get(plan.Make(&host, goal.Unlimited(), catalogue, nil))(b)
	if len(p.Changes) != len(changes) {
		for a, r := range readings {
			must.Hold(b, slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Address == a }),
				"%s is %s already", a, r)
		}
		b.Fatalf("%d of %d changes are in the plan", len(p.Changes), len(changes))
	}
	return p
}

// isByHand reports whether a plan is one of byHand.
func isByHand(p *plan.Plan) bool { return strings.HasPrefix(p.Changes[0].ID, "test.") }

// putPlan writes a plan where the host sees it.
func (b *box) putPlan(name string, p *plan.Plan) {
	b.Helper()
	var text bytes.Buffer
	must.Do(b, plan.Encode(&text, p))
	b.Put(name, text.String())
}
