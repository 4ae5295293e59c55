package change

import (
	"context"
	"maps"
	"slices"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/machine"
	"mpps/internal/machine/vf"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// vfKeeper decides which VF attributes to set when guests come and go.
type vfKeeper struct {
	machine *machine.Machine
	had     *sriov.Memory
	hasRead bool // had was filled in
}

// due applies sriov.Keep. It does not read a host that has no VFs managed by mpps.
func (k *vfKeeper) due(ctx context.Context, events []apply.Event, list []lasting.Value) (apply.Due, error) {
	u := sriov.Upkeep{
		Kept: map[setting.Address]string{}, Made: map[string]bool{}, Started: map[string]bool{},
		Defined: map[string]bool{},
	}
	for _, v := range list {
		switch v.Address.Kind {
		case setting.VFAttr:
			u.Kept[v.Address] = v.For
			u.Defined[v.For] = vf.Defined(k.machine.Tree, v.For)
		case setting.VFCount:
			u.Made[v.Address.Path] = true
		}
	}
	if len(u.Kept)+len(u.Made) == 0 && !vf.Reserves(k.machine.Tree) {
		return apply.Due{}, nil
	}
	if len(events) == 0 && k.hasRead && len(u.Kept) == 0 {
		return apply.Due{}, nil
	}
	h := k.machine.Functions(ctx)
	k.had.Note(h)
	k.hasRead = true
	for _, r := range h.Reservations {
		u.Defined[r.Guest] = vf.Defined(k.machine.Tree, r.Guest)
	}
	var gone, came []string
	for _, e := range events {
		switch {
		case e.Function:
			came = append(came, e.Object)
		case e.Guest == apply.Started:
			u.Started[e.Object] = true
		default:
			gone = append(gone, e.Object)
		}
	}
	u.Left = k.had.Left(gone)
	maps.Copy(u.Left, k.had.Reappeared(h, came))
	due := apply.Due{Lent: sriov.NotForHolder(h, u), Reset: k.affected(h, u, events)}
	for _, d := range sriov.Keep(h, u) {
		due.Values = append(due.Values, lasting.Value{
			ID: d.ID, Address: d.Address, Want: setting.Exact(d.Value), To: setting.Value(d.Value),
		})
	}
	return due, nil
}

// affected returns the maintained attributes of VFs that the guests of events have or had: libvirt sets some of them
// when a guest starts and resets them when it stops.
func (k *vfKeeper) affected(h *facts.Host, u sriov.Upkeep, events []apply.Event) []setting.Address {
	var all []setting.Address
	for _, e := range events {
		for _, f := range h.VFs {
			if !slices.Contains(k.had.Of(e.Object), f.PCI) {
				continue
			}
			for _, a := range sriov.Attributes(&f) {
				if _, kept := u.Kept[a]; kept {
					all = append(all, a)
				}
			}
		}
	}
	return all
}
