package journal

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// Dependent is a later transaction that builds on an earlier one, and the reason.
type Dependent struct {
	*Transaction
	Because string // "it changed sysctl:net.core.dev_weight again"
}

// Dependents lists the open applies after t that depend on what t wrote, oldest first: they resume t, or they concern
// the same value or one that rests on it. Files, directories and units that make values persistent do not count:
// transactions share them, each with its own entries.
func (l *Ledger) Dependents(t *Transaction) []Dependent {
	mine := map[setting.Address]bool{}
	var bases []setting.Address // values that other addresses may rest on
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
	var later []Dependent
	for _, other := range l.Open() {
		if other.Header.TX <= t.Header.TX {
			continue
		}
		because := dependence(other, mine, bases)
		if other.Header.Follows == t.Header.TX {
			because = "it resumes it"
		}
		if because != "" {
			later = append(later, Dependent{other, because})
		}
	}
	return later
}

// dependence returns why a transaction needs a value that an earlier one wrote, empty if it needs none.
func dependence(t *Transaction, mine map[setting.Address]bool, bases []setting.Address) string {
	changes := t.Changes()
	for _, c := range changes {
		if mine[c.Address] && c.Wrote() {
			return fmt.Sprintf("it changed %s again", c.Address)
		} else if mine[c.Address] {
			return fmt.Sprintf("it wants %s to stay", c.Address)
		}
	}
	for _, c := range changes {
		for _, base := range bases {
			if c.Wrote() && restsOn(c.Address, base) {
				return fmt.Sprintf("it set %s, which rests on %s", c.Address, base)
			}
		}
	}
	return ""
}

func shared(k setting.Kind) bool {
	return k == setting.File || k == setting.Directory || k == setting.Unit
}

// setters maps services to the kinds of values that they set while they run.
var setters = map[string][]setting.Kind{
	"irqbalance": {setting.IRQAffinity, setting.IRQCPUs}, "ksmtuned": {setting.KSM},
	"numad": {setting.ThreadAffinity, setting.DomainLive},
}

// restsOn reports whether a would change if on were put back: a NIC's channels determine its queues and interrupts, the
// VF count determines which VFs have attributes, and a stopped service would set the value itself.
func restsOn(a, on setting.Address) bool {
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
		return slices.Contains(setters[on.Path], a.Kind)
	}
	return false
}
