package host

import (
	"context"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// reservations reads which virtual functions mpps has given to guests.
func (m *Machine) reservations(_ context.Context, h *facts.Host) {
	for _, name := range m.list(setting.Reservations) {
		if strings.HasPrefix(name, ".") { // a write that was cut short; nothing was given yet
			continue
		}
		at := setting.Of(setting.File, setting.Reservations, name)
		text, err := m.read(at.Path)
		var given []facts.Reservation
		if err == nil {
			given, err = facts.ParseReservations(at, text)
		}
		if err != nil {
			unseen(h, "reservation of virtual functions /"+at.Path, err)
			continue
		}
		h.Reservations = append(h.Reservations, given...)
	}
}
