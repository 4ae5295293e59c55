package sriov

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Set is one attribute of a function and the value to set.
type Set struct{ Attribute, Value string }

// attributeWords maps the words for attributes that users know, among them those of ip link and of libvirt, to
// setting.VFAttr.
var attributeWords = map[string]string{
	"mac": "mac", "vlan": "vlan", "qos": "qos", "priority": "qos",
	"rate": "max_tx_rate", "max-rate": "max_tx_rate", "max_tx_rate": "max_tx_rate", "max-tx-rate": "max_tx_rate",
	"tx-rate": "max_tx_rate", "min-rate": "min_tx_rate", "min_tx_rate": "min_tx_rate", "min-tx-rate": "min_tx_rate",
	"spoofchk": "spoofchk", "trust": "trust", "state": "link_state", "link-state": "link_state",
	"link_state": "link_state",
}

// knobs are the knob that explains an attribute, its title in a plan, and the risk of changing it.
var knobs = map[string]struct {
	id, title string
	risk      goal.Risk
}{
	"mac":         {"sriov.vf.mac", "MAC address of a virtual function", goal.Connectivity},
	"vlan":        {"sriov.vf.vlan", "VLAN of a virtual function", goal.Connectivity},
	"qos":         {"sriov.vf.vlan", "Priority of a virtual function's VLAN", goal.None},
	"max_tx_rate": {"sriov.vf.rate", "Rate limit of a virtual function", goal.None},
	"min_tx_rate": {"sriov.vf.rate", "Guaranteed rate of a virtual function", goal.None},
	"spoofchk":    {"sriov.vf.spoofchk", "Check of a virtual function's addresses", goal.Security},
	"trust":       {"sriov.vf.trust", "Trust in a virtual function", goal.Security},
	"link_state":  {"sriov.vf.link_state", "Link of a virtual function", goal.Connectivity},
}

// ParseSets parses ATTRIBUTE VALUE pairs. Values are converted to the form that the kernel reports; PlanSet checks
// whether the driver accepts them.
func ParseSets(words []string) ([]Set, error) {
	if len(words) == 0 {
		return nil, &Refused{"nothing is to be set", "name an attribute and its value, such as: rate 100"}
	}
	var all []Set
	for len(words) > 0 {
		word := strings.ToLower(words[0])
		name, known := attributeWords[word]
		switch {
		case ingress(word):
			return nil, &Refused{word + ": what a virtual function receives cannot be limited",
				"no card drops for one function what the wire has already carried: limit the sender ('mpps sriov set " +
					"VF rate' at the sender's function), or the port of the switch"}
		case word == "proto" || word == "vlan-proto":
			return nil, &Refused{word + ": mpps sets VLANs of 802.1Q only", "802.1ad is taken by ice (double VLAN " +
				"mode), mlx4 and bnxt_en: ip link set PF vf N vlan V proto 802.1ad"}
		case !known:
			return nil, refuse("expected mac, vlan, qos, rate, min-rate, spoofchk, trust or state",
				"%s is no attribute of a virtual function", words[0])
		case len(words) == 1:
			return nil, &Refused{word + ": no value", "name an attribute and its value, such as: rate 100"}
		}
		if slices.ContainsFunc(all, func(s Set) bool { return s.Attribute == name }) {
			return nil, &Refused{word + " is given twice", ""}
		}
		value, err := setting.Kinds[setting.VFAttr].Canonical(words[1])
		if err != nil {
			return nil, refuse("", "%s: %v", word, err)
		}
		if mac, err := net.ParseMAC(value); name == "mac" && err == nil {
			value = mac.String()
		}
		if n, err := strconv.ParseUint(value, 10, 32); err == nil && name != "mac" {
			value = strconv.FormatUint(n, 10) // 007
		}
		if err := (facts.VFPort{}).Check(facts.VF{}, name, value); err != nil {
			return nil, refuse("", "%s: %v", word, err)
		}
		all, words = append(all, Set{name, value}), words[2:]
	}
	return all, nil
}

func ingress(word string) bool {
	return slices.Contains([]string{"rx-rate", "rx_rate", "max_rx_rate", "max-rx-rate", "min_rx_rate", "min-rx-rate",
		"ingress", "inbound", "average", "peak", "burst"}, word)
}

// Addresses returns what must be read before PlanSet.
func Addresses(f *facts.VF, sets []Set) []setting.Address {
	all := make([]setting.Address, len(sets))
	for i, s := range sets {
		all[i] = attribute(f, s.Attribute)
	}
	return all
}

// PlanSet plans attributes of a function, in an order that the driver accepts. It refuses values that the driver is
// known to reject, MAC addresses of other devices, and values that libvirt overwrites at the guest's next start.
func PlanSet(h *facts.Host, f *facts.VF, sets []Set) ([]plan.Change, error) {
	p, nic := port(h, f)
	now := *f
	all := &changes{h: h}
	for _, s := range inOrder(f, sets) {
		a := attribute(f, s.Attribute)
		if err := conflict(h, f, s); err != nil {
			return nil, err
		}
		if found := h.Readings.At(a); !found.Same(setting.Value(s.Value)) {
			if err := p.Check(now, s.Attribute, s.Value); err != nil {
				return nil, refuse(refusedAdvice(p, s), "%s of %s: %v", s.Attribute, nameOf(f), err)
			}
		}
		now = with(now, s)
		k := knobs[s.Attribute]
		if s.Attribute == "trust" && s.Value == "off" || s.Attribute == "spoofchk" && s.Value == "on" {
			k.risk = goal.Connectivity
		}
		c := all.add(k.id, k.title, a, setting.Exact(s.Value), k.risk, "asked for by name")
		c.For = setFor(h, f)
		c.Warning = warning(h, p, nic, f, s)
		if g := guestNamed(h, f.Guest); s.Attribute == "mac" && g != nil && g.Active() && !c.Want.Met(c.From) {
			c.Needs = setting.RestartOf(g.Name) // or reloading the driver in it
		}
	}
	return all.result()
}

// setFor returns the guest that a function is set for: the one with the reservation, the one that runs with it, or the
// only one whose definition names it. Empty: whoever has it.
func setFor(h *facts.Host, f *facts.VF) string {
	if r := reservationOf(h, f); r != nil {
		return r.Guest
	}
	if g := runsWith(h, f); g != nil {
		return g.Name
	}
	only := ""
	for i := range h.Guests {
		switch g := &h.Guests[i]; {
		case f.PCI == "" || !slices.Contains(g.Hostdevs, f.PCI):
		case only != "":
			return ""
		default:
			only = g.Name
		}
	}
	return only
}

// inOrder sorts attributes so that each is accepted: the guaranteed rate comes first if the limit drops below its
// current value, so that it never exceeds the limit.
func inOrder(f *facts.VF, sets []Set) []Set {
	sets = slices.Clone(sets)
	lower := slices.ContainsFunc(sets, func(s Set) bool {
		n, err := strconv.Atoi(s.Value)
		return s.Attribute == "max_tx_rate" && err == nil && n > 0 && n < f.MinTxRate
	})
	place := func(s Set) int {
		if lower && s.Attribute == "min_tx_rate" {
			return -1
		}
		return slices.Index(facts.VFAttributes, s.Attribute)
	}
	slices.SortStableFunc(sets, func(a, b Set) int { return place(a) - place(b) })
	return sets
}

// with returns a function with one attribute set.
func with(f facts.VF, s Set) facts.VF {
	n, _ := strconv.Atoi(s.Value)
	switch s.Attribute {
	case "mac":
		f.MAC = s.Value
	case "vlan":
		f.VLAN = n
	case "qos":
		f.QoS = n
	case "max_tx_rate":
		f.MaxTxRate = n
	case "min_tx_rate":
		f.MinTxRate = n
	case "spoofchk":
		f.SpoofCheck = s.Value == "on"
	case "trust":
		f.Trust = s.Value == "on"
	case "link_state":
		f.LinkState = s.Value
	}
	return f
}

// refusedAdvice returns what to do about a value that the driver rejects.
func refusedAdvice(p facts.VFPort, s Set) string {
	switch {
	case (s.Attribute == "max_tx_rate" || s.Attribute == "min_tx_rate") && p.Carrier == "down":
		return "bring the physical function up and plug the cable in, then repeat"
	case s.Attribute == "min_tx_rate":
		return "limit the other functions instead (rate)"
	}
	return "'mpps explain " + knobs[s.Attribute].id + "' tells what each driver takes"
}

// warning returns what a user who sets an attribute should know; empty: nothing.
func warning(h *facts.Host, p facts.VFPort, nic *facts.NIC, f *facts.VF, s Set) string {
	cleared, pooled := facts.VFRateCleared(p.Driver), poolGuest(h, f)
	switch {
	case pooled != "":
		return fmt.Sprintf("guest %s has it from a pool: at its next start it may have another function, without this",
			pooled)
	case nic != nil && !nic.Up:
		return fmt.Sprintf("%s is down: its functions carry nothing until it is up", nic.Name)
	case s.Attribute == "max_tx_rate" && s.Value != "0" && cleared != "":
		return fmt.Sprintf("%s takes the limit away %s; mpps-restore.service sets it again", p.Driver, cleared)
	case s.Attribute == "trust" && s.Value == "on":
		return "the guest may then change the function's MAC address and ask for the port's other packets"
	case s.Attribute == "spoofchk" && s.Value == "off":
		return "the guest may then send with any address"
	case s.Attribute == "qos" && s.Value != "0":
		for _, g := range h.Guests {
			if i := interfaceOf(&g, f); i != nil && i.VLAN != 0 {
				return fmt.Sprintf("libvirt takes it back to 0 at each start of %s, with the VLAN; "+
					"mpps-restore.service sets it again", g.Name)
			}
		}
	}
	return ""
}
