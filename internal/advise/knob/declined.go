package knob

import (
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// kernelPath are the stages of the packet path that values of the whole host belong to.
var kernelPath = []datapath.Stage{datapath.NIC, datapath.Netfilter, datapath.Routing, datapath.Bridge, datapath.Overlay,
	datapath.Softirq, datapath.Vhost}

// Advise returns a knob's advice for an address. It is not judged where it serves a path of guests that mpps has no
// rules for: a device or a guest's NIC on such a path; the host's netfilter, bridge and overlay values beside any such
// path through the kernel; and the whole of the kernel's packet path on a host that has no other.
func (v *View) Advise(k *Knob, a setting.Address) Advice {
	advice := k.Want(v, a)
	if advice.Want == nil && advice.Because == "" { // no verdict anyway
		return advice
	}
	if kinds := v.declined(k, a); len(kinds) > 0 {
		return Unsure("not judged: it serves guests' packets that go through " + reach.Words(kinds))
	}
	return advice
}

// Reach returns how the guests reach the wire.
func (v *View) Reach() *reach.Map { return v.paths }

func (v *View) declined(k *Knob, a setting.Address) []reach.Kind {
	if device := a.Device(); device != "" {
		return v.paths.Declined(device)
	}
	if guest, mac := a.GuestNIC(); mac != "" {
		at := slices.IndexFunc(v.paths.Paths, func(p reach.Path) bool { return p.Guest == guest && p.MAC == mac })
		if at < 0 {
			return nil
		}
		return v.paths.Paths[at].Declined()
	}
	if a.Kind == setting.Fact || !slices.Contains(kernelPath, k.Stage) {
		return nil
	}
	all := v.paths.DeclinedKinds()
	if k.Stage == datapath.Softirq || k.Stage == datapath.NIC || k.Stage == datapath.Vhost {
		if v.paths.JudgesAny() {
			return nil
		}
		return all
	}
	return slices.DeleteFunc(all, func(kind reach.Kind) bool { return !kind.Kernel() })
}
