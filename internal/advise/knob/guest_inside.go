package knob

import (
	"fmt"
	"maps"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// The same code judges the inside of a guest in two places: in the guest, where it is the machine that mpps runs on,
// and on the host, where it is a separate View filled by the guest agent.

// self is the guest's name in addresses if mpps runs in the guest.
const self = "self"

// insideFacts lists facts of every guest of this host, and of this machine if it is a guest. For a guest whose inside
// is not known it lists only the first.
func insideFacts(whats ...string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		if h.Virtual != "" {
			for _, what := range whats {
				all = append(all, setting.Of(setting.Fact, self, what))
			}
		}
		return append(all, eachGuest(anyGuest, func(g *facts.Guest) []setting.Address {
			if seenInside(g) == nil {
				word, _, _ := strings.Cut(whats[0], "/")
				return guestFact(word)(g)
			}
			return facts.Map(whats, func(what string) setting.Address { return setting.Of(setting.Fact, g.Name, what) })
		})(h)...)
	}
}

// insideNICs lists values of every virtio NIC: of this machine, if it is a guest, as facts; of guests whose inside is
// known as values that can be set. Other guests, and those without such a NIC, get one fact.
func insideNICs(what string, at func(n *facts.NIC) []setting.Address) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, n := range h.NICs {
			if h.Virtual != "" && n.Driver == "virtio_net" {
				all = append(all, setting.Of(setting.Fact, n.Name, what))
			}
		}
		return append(all, eachGuest(anyGuest, func(g *facts.Guest) []setting.Address {
			var of []setting.Address
			if in := seenInside(g); in != nil {
				for i := range in.NICs {
					if in.NICs[i].Driver == "virtio_net" {
						for _, a := range at(&in.NICs[i]) {
							of = append(of, setting.InGuest(g.Name, a))
						}
					}
				}
			}
			if len(of) == 0 {
				return guestFact(what)(g)
			}
			return of
		})(h)...)
	}
}

// seenInside returns the inside of a guest; nil if it is not known.
func seenInside(g *facts.Guest) *facts.Host {
	if g.Inside == nil {
		return nil
	}
	return g.Inside.Host
}

// insideOf returns the view of the inside that an address is about: this view for the machine itself, otherwise that of
// the guest; or advice that says why it is not known. what names what to look at.
func (v *View) insideOf(a setting.Address, what string) (*View, Advice, bool) {
	if a.Kind == setting.Fact && v.inGuest() && (a.Object() == self || v.nics[a.Object()] != nil) {
		return v, Advice{}, true
	}
	g, advice, ok := v.guest(a)
	if !ok {
		return nil, advice, false
	}
	if seenInside(g) == nil {
		return nil, v.fromHost(g, what), false
	}
	in, known := v.insides[g.Name]
	if !known {
		in = NewView(v.readInside(g), v.Goal.Inside())
		v.insides[g.Name] = in
	}
	return in, Advice{}, true
}

// whyUnseen returns why a part could not be read, to end a sentence with; otherwise if no reason is recorded.
func whyUnseen(h *facts.Host, part facts.UnseenPart, of, otherwise string) string {
	for _, u := range h.Unseen {
		if u.Part == part && u.Of == of {
			return ": " + u.Why
		}
	}
	return otherwise
}

// readInside returns the inside of a guest with its readings under the addresses that they have in the guest.
func (v *View) readInside(g *facts.Guest) *facts.Host {
	h := *g.Inside.Host
	h.Readings = facts.Readings{}
	maps.Copy(h.Readings, g.Inside.Host.Readings)
	if v.within == nil {
		v.within = map[string][]setting.Address{}
		for a := range v.Readings {
			v.within[a.Object()] = append(v.within[a.Object()], a)
		}
	}
	for _, a := range v.within[g.Name] {
		r := v.Readings[a]
		if a.Kind == setting.GuestArg {
			h.Readings[bootArgument(a.Rest())] = r
		}
		if inner, err := a.Inner(); err == nil {
			h.Readings[inner] = r
		}
	}
	return &h
}

// fromHost says why the inside of a guest is not known and what would show it: only for the guest that the goal names
// or the only one that runs, not for hundreds.
func (v *View) fromHost(g *facts.Guest, what string) Advice {
	switch {
	case v.Goal.Guest == "" && v.running > 1:
		return Skips("the inside of a guest is looked at where the goal names it (--guest)")
	case g.State == "paused":
		return Unsure(fmt.Sprintf("%s is paused, and %s is seen inside it: resume it, and audit again", g.Name, what))
	case !g.Active():
		return Unsure(fmt.Sprintf("%s is %s, and %s is seen inside it while it runs: start it, and audit again", g.Name,
			g.State, what))
	case g.Inside != nil && g.Inside.Why != "":
		return Unsure(fmt.Sprintf("%s is seen inside %s: %s", what, g.Name, g.Inside.Why))
	case !v.AsRoot:
		return Unsure(fmt.Sprintf("%s is seen inside %s through its agent, which needs root: audit as root, or run "+
			"'mpps audit' there", what, g.Name))
	}
	return Unsure(fmt.Sprintf("%s is seen inside %s: audit with --guest %s, or run 'mpps audit' there, or 'mpps "+
		"snapshot' there and audit the file here", what, g.Name, g.Name))
}
