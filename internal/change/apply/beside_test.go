package apply

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// ringsMoveAffinity is a NIC whose interrupt comes back with another affinity whenever its rings are written.
func ringsMoveAffinity(t *testing.T) (f *fake, p *plan.Plan, irq setting.Address) {
	t.Helper()
	ring, irq := setting.Of(setting.NICRing, "eth0", "rx"), setting.Of(setting.IRQAffinity, "eth0", "TxRx-0", "45")
	f = newFake(t, 1)
	f.values[ring], f.values[irq] = setting.Value("256"), setting.Value("3")
	f.moves[ring] = func(f *fake) { f.values[irq] = setting.Value("0-7") }
	p = &plan.Plan{Changes: []plan.Change{{ID: "nic.ring.rx", Address: ring, From: setting.Value("256"),
		To: setting.Value("4096"), Want: setting.Exact("4096")}}}
	return f, p, irq
}

func TestBesideStays(t *testing.T) {
	f, p, irq := ringsMoveAffinity(t)
	e := engine(t, f)
	before := f.snapshot()
	applied(t, e, p, irq)
	must.Equal(t, f.values[irq].Value, "3", "after apply the affinity")
	f.values[irq] = setting.Value("5") // by hand: a rollback leaves it as it is
	must.Get(e.Rollback(t.Context(), RollbackOptions{}))(t)
	before[irq] = setting.Value("5")
	if !f.same(before) {
		t.Errorf("the machine is %v, expected %v", f.values, before)
	}
	ledger := must.Get(e.Journal.Ledger())(t)
	for _, transaction := range ledger.Transactions {
		if !slices.ContainsFunc(transaction.Records, func(r journal.Record) bool {
			return r.Event == journal.Kept && *r.Address == irq
		}) {
			t.Errorf("%s does not tell what it put back", transaction.Header.TX)
		}
	}
}

func TestBesideStaysAfterAFailure(t *testing.T) {
	f, p, irq := ringsMoveAffinity(t)
	e := engine(t, f)
	before := f.snapshot()
	f.refuse[address(0)] = syscall.EINVAL
	p.Changes = append(p.Changes, changes(1).Changes...)
	result, err := e.Run(t.Context(), p, Options{Beside: []setting.Address{irq}})
	if err == nil || result.State != journal.FailedUndone || !f.same(before) {
		t.Errorf("%s, %v, the machine is %v, expected %v", result.State, err, f.values, before)
	}
}

// TestBesideThatCannotStay: the driver keeps the interrupt where it put it. The apply says so, and a later rollback,
// when the driver allows it again, still knows what it was.
func TestBesideThatCannotStay(t *testing.T) {
	f, p, irq := ringsMoveAffinity(t)
	e := engine(t, f)
	before := f.snapshot()
	f.refuse[irq] = syscall.EIO
	result, err := e.Run(t.Context(), p, Options{Beside: []setting.Address{irq}})
	must.Need(t, err == nil && len(result.Moved) == 1 && result.Moved[0].Found == "0-7" &&
		strings.Contains(result.Moved[0].Why, "input/output error"),
		"%+v, %v; expected the affinity as moved", result, err)
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err == nil ||
		!strings.Contains(err.Error(), "irq-affinity:eth0/TxRx-0/45 was moved from 3 to 0-7") {
		t.Errorf("rollback: %v, expected it to name the affinity", err)
	}
	delete(f.refuse, irq)
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || !f.same(before) {
		t.Errorf("%v, the machine is %v, expected %v", err, f.values, before)
	}
}

// TestBesideComesBack: a value goes with what it belongs to, and comes back with the default when a rollback brings
// that back: it is then put back as it was.
func TestBesideComesBack(t *testing.T) {
	count, attribute := setting.Of(setting.VFCount, "eth0"), setting.Of(setting.VFAttr, "eth0", "1", "vlan")
	f := newFake(t, 1)
	f.values[count], f.values[attribute] = setting.Value("4"), setting.Value("7")
	f.moves[count] = func(f *fake) {
		f.values[attribute] = setting.Value("0")
		if f.values[count].Value == "0" {
			f.values[attribute] = setting.NoObject("there is no such virtual function")
		}
	}
	e := engine(t, f)
	before := f.snapshot()
	applied(t, e, &plan.Plan{Changes: []plan.Change{{ID: "sriov.count", Address: count, From: setting.Value("4"),
		To: setting.Value("0"), Want: setting.Exact("0")}}}, attribute)
	if got := f.values[attribute]; got.State != setting.Absent {
		t.Fatalf("without the function its attribute is %s", got)
	}
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || !f.same(before) {
		t.Errorf("%v, the machine is %v, expected %v", err, f.values, before)
	}
}
