package journal

import (
	"fmt"
	"strings"

	"mpps/internal/model/setting"
)

// Built is a transaction that built on an earlier one, and by what.
type Built struct {
	*Transaction
	Because string // "it changed sysctl:net.core.dev_weight again"
}

// BuiltOn lists the open applies after t that built on what t wrote, oldest first: they go on with it, they concern the
// same value, or one that rests on it. The files, directories and units that make values last do not count:
// transactions share them, each with entries of its own.
func (l *Ledger) BuiltOn(t *Transaction) []Built {
	mine := map[setting.Address]bool{}
	var bases []setting.Address // on which values of other addresses may rest
	for _, c := range t.Changes() {
		if !c.Wrote() || shared(c.Address.Kind) {
			continue
		}
		mine[c.Address] = true
		if c.Address.Kind == setting.NICChannels || c.Address.Kind == setting.VFCount ||
			len(setters[c.Address.Path]) > 0 {
			bases = append(bases, c.Address)
		}
	}
	var later []Built
	for _, other := range l.Open() {
		if other.Header.TX <= t.Header.TX {
			continue
		}
		because := builtBy(other, mine, bases)
		if other.Header.Follows == t.Header.TX {
			because = "it resumes it"
		}
		if because != "" {
			later = append(later, Built{other, because})
		}
	}
	return later
}

// builtBy tells why a transaction needs one of the values that an earlier one wrote; empty where it needs none.
func builtBy(t *Transaction, mine map[setting.Address]bool, bases []setting.Address) string {
	changes := t.Changes()
	for _, c := range changes {
		switch {
		case !mine[c.Address]:
		case c.Wrote():
			return fmt.Sprintf("it changed %s again", c.Address)
		default:
			return fmt.Sprintf("it wants %s to stay", c.Address)
		}
	}
	for _, c := range changes {
		for _, base := range bases {
			if c.Wrote() && rests(c.Address, base) {
				return fmt.Sprintf("it set %s, which rests on %s", c.Address, base)
			}
		}
	}
	return ""
}

func shared(k setting.Kind) bool {
	return k == setting.File || k == setting.Directory || k == setting.Unit
}

// setters are services that set values of their own accord while they run.
var setters = map[string][]setting.Kind{
	"irqbalance": {setting.IRQAffinity, setting.IRQCPUs}, "ksmtuned": {setting.KSM},
	"numad": {setting.ThreadAffinity, setting.DomainLive},
}

// rests reports whether a value would not stay as it is if another were as before: the number of a NIC's channels makes
// its queues and interrupts, that of its virtual functions makes what attributes are set of, and a service that was
// stopped would set the value itself.
func rests(a, on setting.Address) bool {
	switch on.Kind {
	case setting.VFCount:
		return a.Kind == setting.VFAttr && a.Object() == on.Object()
	case setting.NICChannels:
		switch a.Kind {
		case setting.IRQAffinity, setting.QueueLanes:
			return a.Object() == on.Object()
		case setting.Sysfs, setting.SysfsCPUs:
			return strings.HasPrefix(a.Path, "class/net/"+on.Object()+"/queues/")
		}
	case setting.Service:
		for _, kind := range setters[on.Path] {
			if a.Kind == kind {
				return true
			}
		}
	}
	return false
}
