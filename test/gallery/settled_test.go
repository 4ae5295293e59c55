package gallery

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/placement"
	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
)

// settling is a host to which plans are applied, one after the other.
type settling struct {
	*Machine
	verdict
	p     problems
	right map[setting.Address]string // values that were found right or were set, and when
	// what the plans so far leave for later: knobs, objects that they changed, and whether one needs a reboot
	later, touched map[string]bool
	reboots        bool
}

// settle applies a plan, starts guests and host again, and plans each time: what a plan set or an audit found right
// stays. Later plans change only what an earlier one leaves for later, of guests and NICs that it changed or after a
// reboot. Once they are applied, another plan changes nothing, and places all threads alike.
// applied is called once the first plan has taken effect, with the audit then.
func (m *Machine) settle(v verdict, p problems, applied func(r audit.Report)) error {
	s := &settling{Machine: m, verdict: v, p: p, right: map[setting.Address]string{}, later: map[string]bool{},
		touched: map[string]bool{}}
	s.keep("first")
	s.apply("first")
	m.quieten()
	for _, stage := range []struct {
		name  string
		start func()
	}{{"live", m.Gather}, {"guests", m.startGuests}, {"boot", m.boot}} {
		stage.start()
		if err := s.again(stage.name); err != nil {
			return err
		}
	}
	applied(s.report)
	s.apply("second")
	m.Gather()
	after := *s
	if err := after.again("third"); err != nil {
		return err
	}
	for _, c := range after.plan.Changes {
		p.add(m.spec.Name+" third "+c.ID, "with %q: once two plans are applied, %s is to change from %s to %s: %s",
			s.flags, c.Address, c.From, c.To, c.Because)
	}
	if what := movedBetween(s.report.Place, after.report.Place); what != "" {
		p.add(m.spec.Name+" third place", "with %q: once two plans are applied, %s", s.flags, what)
	}
	return nil
}

// again plans for the host as it is now, and reports what moves although it was right, or was not announced.
func (s *settling) again(when string) (err error) {
	if s.report, err = s.audit(s.goal); err != nil {
		return err
	}
	if s.plan, err = plan.From(s.Host, s.goal, s.report, knob.Catalogue()); err != nil {
		return err
	}
	for _, c := range s.plan.Changes {
		if was, right := s.right[c.Address]; right {
			s.p.add(s.spec.Name+" moves "+c.ID, "with %q, %s: %s is to change from %s to %s, which was right: %s; now: %s",
				s.flags, when, c.Address, c.From, c.To, was, c.Because)
		} else if !s.later[c.ID] || !s.reboots && !s.touched[object(c.Address)] {
			s.p.add(s.spec.Name+" second "+c.ID, "with %q, %s: once its plan is applied, %s is to change from %s to %s: %s",
				s.flags, when, c.Address, c.From, c.To, c.Because)
		}
	}
	s.keep(when)
	return nil
}

// keep notes what the latest audit found right.
func (s *settling) keep(when string) {
	for _, f := range s.report.InState(audit.OK) {
		if _, known := s.right[f.Address]; !known {
			s.right[f.Address] = when + " audit, " + f.Why
		}
	}
}

// apply makes the latest plan's changes. Interrupts and queues of a NIC that gets another number of them are others.
func (s *settling) apply(when string) {
	resized := map[string]bool{}
	for _, c := range s.plan.Changes {
		if err := s.Write(c.Address, c.To); err != nil {
			s.p.add(s.spec.Name+" applies "+c.ID, "with %q: %v", s.flags, err)
		}
		s.right[c.Address], s.touched[object(c.Address)] = when+" plan", true
		s.reboots = s.reboots || c.Needs == setting.Reboot()
		if c.ID == "nic.channels" {
			resized[c.Address.Object()] = true
		}
	}
	for _, l := range s.plan.Later {
		for _, id := range l.IDs {
			s.later[id] = true
		}
	}
	for _, f := range s.report.Findings {
		if s.later[f.ID] && resized[f.Address.Device()] {
			delete(s.right, f.Address)
		}
	}
}

// object returns the device, guest or other object that an address belongs to.
func object(a setting.Address) string { return cmp.Or(a.Device(), a.Object()) }

// movedBetween names the first difference of two placements, empty if there is none.
func movedBetween(a, b *placement.Result) string {
	if a == nil || b == nil {
		return ""
	}
	for _, p := range a.Guests {
		q := b.Guest(p.Name)
		switch {
		case q == nil:
			return p.Name + " has no place"
		case !slices.Equal(p.VCPUs, q.VCPUs):
			return fmt.Sprintf("vCPUs of %s move from %v to %v", p.Name, p.VCPUs, q.VCPUs)
		case !slices.EqualFunc(p.Vhost, q.Vhost, func(v, w placement.Vhost) bool {
			return v.CPU == w.CPU || len(v.Stays) > 0 && v.Stays.Equal(w.Stays)
		}):
			return fmt.Sprintf("vhost threads of %s move from %v to %v", p.Name, p.Vhost, q.Vhost)
		case !p.Emulator.Equal(q.Emulator):
			return fmt.Sprintf("the emulator of %s moves from %s to %s", p.Name, p.Emulator, q.Emulator)
		}
	}
	if !a.Housekeeping.Equal(b.Housekeeping) {
		return fmt.Sprintf("the host keeps %s instead of %s", b.Housekeeping, a.Housekeeping)
	}
	return ""
}
