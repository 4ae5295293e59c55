package vf

import (
	"context"
	"strings"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Defined reports whether libvirt has a definition of a guest, from its file, which needs no daemon.
func Defined(m *tree.Tree, guest string) bool {
	return guest != "" && m.Exists(libvirt.DefinedFolder+"/"+guest+".xml")
}

// Reserves reports whether there are reservations of virtual functions.
func Reserves(m *tree.Tree) bool { return len(m.List(setting.Reservations)) > 0 }

// Reservations reads which VFs mpps has given to guests into h.Reservations, and those being returned into h.Leaving.
func Reservations(_ context.Context, m *tree.Tree, h *facts.Host) {
	for _, name := range m.List(setting.Reservations) {
		if strings.HasPrefix(name, ".") { // an interrupted write; nothing was given yet
			continue
		}
		at := setting.Of(setting.File, setting.Reservations, name)
		text, err := m.Read(at.Path)
		var given []facts.Reservation
		if err == nil {
			given, err = facts.ParseReservations(at, text)
		}
		if err != nil {
			tree.AddUnseen(h, "reservation of virtual functions /"+at.Path, err)
			continue
		}
		for _, r := range given {
			if r.Leaving {
				h.Leaving = append(h.Leaving, r)
			} else {
				h.Reservations = append(h.Reservations, r)
			}
		}
	}
}
