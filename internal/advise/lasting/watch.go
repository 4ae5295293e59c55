package lasting

import (
	"errors"
	"slices"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// ErrNoWatch reports that the watching service cannot be installed.
var ErrNoWatch = errors.New("mpps-watch.service cannot be installed")

// Watch appends the service that reports when values are no longer as applied. Values last without it, so it is only
// there on request, and goes with the transaction that installed it.
func Watch(p *plan.Plan, h *facts.Host) error {
	l := h.Lasting
	if l == nil || !l.Systemd || l.Program == "" && !l.Packaged {
		return ErrNoWatch
	}
	b := builder{plan: p, host: h}
	if !l.Packaged {
		switch text, why := b.writableText(watchFile); {
		case why != "":
			return errors.Join(ErrNoWatch, errors.New(why))
		case text == "":
			if !b.planned(unitFolder) {
				b.addFolder("watch-unit", unitFolder)
			}
			b.add("watch-unit", "Service that watches", "it tells when the host stops being as it was tuned", watchFile,
				setting.Exact(unitText(watchTemplate, l.Program)))
		}
	}
	if !b.planned(wantsFolder) {
		b.addFolder("watch-service", wantsFolder)
	}
	b.add("watch-service", "Enable and start "+WatchName, "it was asked for", watchAddress, setting.Exact("enabled"))
	p.Seal()
	return nil
}

// planned reports whether the plan has a change of an address.
func (b *builder) planned(a setting.Address) bool {
	return slices.ContainsFunc(b.plan.Changes, func(c plan.Change) bool { return c.Address == a })
}
