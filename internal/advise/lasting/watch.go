package lasting

import (
	"errors"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// ErrNoWatch says that the service that watches cannot be installed.
var ErrNoWatch = errors.New("mpps-watch.service cannot be installed")

// Watch plans the service that tells when values are not as applied any more, behind everything else. Nobody needs it
// for values to last, so it is there only where it is asked for, and goes with the transaction that brought it.
func Watch(p *plan.Plan, h *facts.Host) error {
	l := h.Lasting
	if l == nil || !l.Systemd || l.Program == "" && !l.Packaged {
		return ErrNoWatch
	}
	b := builder{plan: p, host: h}
	if !l.Packaged {
		switch text, why := b.usable(watchFile); {
		case why != "":
			return errors.Join(ErrNoWatch, errors.New(why))
		case text == "":
			if !b.planned(unitFolder) {
				b.folder("watch-unit", unitFolder)
			}
			b.add("watch-unit", "Service that watches", "it tells when the host stops being as it was tuned", watchFile,
				setting.Exact(unitText(watchTemplate, l.Program)))
		}
	}
	if !b.planned(wantsFolder) {
		b.folder("watch-service", wantsFolder)
	}
	b.add("watch-service", "Enable and start "+WatchName, "it was asked for", watchAddress, setting.Exact("enabled"))
	p.Seal()
	return nil
}

// planned reports whether the plan has a change of an address.
func (b *builder) planned(a setting.Address) bool {
	for _, c := range b.plan.Changes {
		if c.Address == a {
			return true
		}
	}
	return false
}
