package knob

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// eachVF lists attributes of every virtual function.
func eachVF(attributes ...string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, f := range h.VFs {
			for _, attribute := range attributes {
				all = append(all, setting.Of(setting.VFAttr, f.PF, strconv.Itoa(f.Index), attribute))
			}
		}
		return all
	}
}

// vf is the virtual function that an address speaks of and the guest that has it, nil where it is free; or the reason why
// no knob should touch it.
func (v *View) vf(a setting.Address) (*facts.VF, *facts.Guest, Advice, bool) {
	parts := strings.Split(a.Path, "/")
	for i := range v.VFs {
		f := &v.VFs[i]
		if len(parts) != 3 || f.PF != parts[0] || strconv.Itoa(f.Index) != parts[1] {
			continue
		}
		if f.Guest != "" && !v.Goal.ForGuest(f.Guest) {
			return nil, nil, Skips("the goal is for guest " + v.Goal.Guest), false
		}
		return f, v.guests[f.Guest], Advice{}, true
	}
	return nil, nil, Skips("no such virtual function"), false
}

// ifaceOf is the interface of a guest that is a function, nil where its definition passes it as a plain device.
func ifaceOf(g *facts.Guest, f *facts.VF) *facts.Interface {
	for i := range g.Interfaces {
		if g.Interfaces[i].Type == "hostdev" && g.Interfaces[i].Source == f.PCI {
			return &g.Interfaces[i]
		}
	}
	return nil
}

const (
	freeVF   = "no guest has it: what stands there matters to the next one, which sets its own"
	vfLeft   = "Values survive the guest's shutdown and its removal: set them before each start and after the guest is undefined."
	vfVerify = "ip link show PF, the line of vf N:"
)

// frameOnWire is what a frame takes on the wire beyond its own bytes: preamble, delimiter and gap (IEEE 802.3).
const frameOnWire = 20

var sriovVFRate = &Knob{
	ID: "sriov.vf.rate", Title: "Rate limit of a virtual function", Stage: datapath.SRIOV, Risk: goal.None,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "no limit below the target; 0 is none",
		Why:    "max_tx_rate limits what a guest may send, in Mb/s on the wire. A limit that was meant for another guest or another time caps the packet rate: 1 Mpps of 64-byte frames is 672 Mb/s with preamble and gap.",
		Cost:   "Without a limit one guest can take the whole port from the others.",
		Verify: vfVerify + " max_tx_rate is not shown where there is no limit.",
		Traps: []string{
			"X520 (ixgbe): 11 to 10000, or 0 for no limit; others are an error. Only with the link up at 10G, and a change of the link's speed takes all limits away.",
			"X710 (i40e): 50 to 10000 and more in steps of 50; anything from 1 to 49 silently becomes 50, and min_tx_rate must be 0.",
			"What a guest receives cannot be limited there: only the sender, or a switch, can.",
			vfLeft,
		},
		Sources: []Source{
			{"ixgbe's bounds; link at 10G", "drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.c, ixgbe_ndo_set_vf_bw, ixgbe_check_vf_rate_limit"},
			{"i40e's steps", "drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c, i40e_ndo_set_vf_bw; i40e_main.c, i40e_set_bw_limit (I40E_BW_CREDIT_DIVISOR 50)"},
			{"which cards do what", "founding experience"},
		},
	},
	Where: eachVF("max_tx_rate", "min_tx_rate"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		found, known := number(v.Readings.At(a))
		if strings.HasSuffix(a.Path, "/min_tx_rate") {
			pf := v.nics[f.PF]
			if known && pf != nil && facts.VFMinRate(pf.Driver, int(found)) != nil {
				return Wants(setting.Exact("0"), facts.VFMinRate(pf.Driver, int(found)).Error()).At(Low)
			}
			return Fine("a guaranteed rate holds nothing back")
		}
		frame := v.Goal.Frame
		if frame == 0 {
			frame = 64
		}
		needs := v.Goal.PPS * float64(frame+frameOnWire) * 8 / 1e6
		if needs = max(needs, v.Goal.Bulk/1e6); known && found > 0 && float64(found) < needs {
			return Wants(setting.Exact("0"), fmt.Sprintf("the target is %.0f Mb/s on the wire", needs)).At(High).warn("guest " + g.Name + " can then take the whole port")
		}
		return Fine("no limit below the target")
	},
}

var sriovVFSpoofchk = &Knob{
	ID: "sriov.vf.spoofchk", Title: "A guest cannot send with another's address", Stage: datapath.SRIOV, Risk: goal.Connectivity,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "on, unless the function is trusted",
		Why:    "The card drops frames that a guest sends with another MAC or VLAN than its function's. It costs nothing: the card does it.",
		Cost:   "Bonds with fail_over_mac=none, VRRP with a virtual MAC, and bridges in the guest need it off.",
		Verify: vfVerify + " \"spoof checking on\"; the counter spoof of ip -s link or ethtool -S PF counts what was dropped.",
		Traps: []string{
			"Off together with trust on is how Open vSwitch or DPDK in a guest is meant to be: mpps leaves that pair alone.",
			"Packets that vanish without an error in the guest are often this check: look at dmesg of the host (\"spoofed packets detected\").",
			vfLeft,
		},
		Sources: []Source{
			{"what is dropped", "drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.c, ixgbe_ndo_set_vf_spoofchk; ip-link(8), spoofchk"},
		},
	},
	Where: eachVF("spoofchk"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		switch {
		case !ok:
			return advice
		case g == nil:
			return Fine(freeVF)
		case f.Trust:
			return Fine("trusted: a guest that sends for others needs it off")
		}
		return Wants(setting.Exact("on"), "the guest can send with other guests' addresses").At(Low)
	},
}

var sriovVFMAC = &Knob{
	ID: "sriov.vf.mac", Title: "A virtual function has its guest's MAC address", Stage: datapath.SRIOV, Risk: goal.Connectivity,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "the address in the guest's definition",
		Why:    "An address that the host has set cannot be changed from within the guest. Without one the guest's driver makes one up at each start, and switches, DHCP and licences see another machine each time.",
		Cost:   "The guest cannot change it, which bonds in the guest may want.",
		Verify: vfVerify + " link/ether and the address of the guest's interface.",
		Traps: []string{
			"00:00:00:00:00:00 means that nobody set one, not that it is off.",
			"A MAC set while the guest runs takes effect when its driver is loaded anew.",
			"libvirt sets it for <interface type='hostdev'>, not for <hostdev>.",
			"A trusted function's guest may change it (igb, ixgbe, i40e, ice alike), and what it chose stands in the place of the host's, also after trust is taken away: set it again.",
			vfLeft,
		},
		Sources: []Source{
			{"set by the host, fixed for the guest unless trusted", "drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.c, ixgbe_set_vf_mac_addr; igb/igb_main.c, igb_set_vf_mac_addr; i40e/i40e_virtchnl_pf.c, i40e_check_vf_permission; ice/ice_virtchnl.c, ice_can_vf_change_mac; ip-link(8), vf NUM mac"},
			{"tamper-proof", "founding experience; a guest that tries, test/sriov"},
		},
	},
	Where: eachVF("mac"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		if i := ifaceOf(g, f); i != nil && i.MAC != "" {
			return Wants(setting.Exact(i.MAC), "the definition of "+g.Name+" names this address").At(Medium)
		}
		if r := v.Readings.At(a); r.State == setting.Known && r.Value == "00:00:00:00:00:00" {
			return Unsure("nobody set an address, and the definition of " + g.Name + " names none: the guest makes one up at each start")
		}
		return Fine("set, and fixed for the guest")
	},
}

var sriovVFTrust = &Knob{
	ID: "sriov.vf.trust", Title: "No virtual function is trusted without need", Stage: datapath.SRIOV, Risk: goal.Connectivity,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "off while no guest has the function",
		Why:    "A trusted function may go promiscuous, take in all multicast and change its own MAC: on some cards it then sees other guests' packets. Trust that was given to one guest stays for the next.",
		Cost:   "Guests that bridge or bond over the function need it: they are left as they are while they have it.",
		Verify: vfVerify + " \"trust off\".",
		Traps: []string{
			"More than about 30 multicast groups on an Intel function need trust, or the surplus is dropped without a word.",
			"On i40e trust also lifts the limit on the number of MAC filters.",
			vfLeft,
		},
		Sources: []Source{
			{"what a trusted function may do", "drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c, i40e_check_vf_permission, i40e_ndo_set_vf_trust"},
		},
	},
	Where: eachVF("trust"),
	Want: func(v *View, a setting.Address) Advice {
		_, g, advice, ok := v.vf(a)
		switch {
		case !ok:
			return advice
		case g != nil:
			return Fine("as whoever gave the function to " + g.Name + " wanted it")
		}
		return Wants(setting.Exact("off"), "no guest has the function: the next one would get the trust of the last").At(Low)
	},
}

var sriovVFVLAN = &Knob{
	ID: "sriov.vf.vlan", Title: "A virtual function is in its guest's VLAN", Stage: datapath.SRIOV, Risk: goal.Connectivity,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "the VLAN in the guest's definition",
		Why:    "With a VLAN on the function the card tags what the guest sends and strips what it receives: the guest knows nothing of it and cannot leave it. A tag that was left by another guest puts this one into the wrong network.",
		Cost:   "The guest cannot use VLANs of its own on that function.",
		Verify: vfVerify + " \"vlan N\" is not shown where there is none.",
		Traps: []string{
			"0 is none: the guest then sends what tags it likes.",
			"Changing it resets the function under a running guest on i40e.",
			vfLeft,
		},
		Sources: []Source{
			{"port VLAN", "drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.c, ixgbe_ndo_set_vf_vlan; i40e_virtchnl_pf.c, i40e_ndo_set_vf_port_vlan"},
		},
	},
	Where: eachVF("vlan"),
	Want: func(v *View, a setting.Address) Advice {
		f, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		i := ifaceOf(g, f)
		if i == nil {
			return Fine("the definition of " + g.Name + " names no VLAN for it")
		}
		return Wants(setting.Exact(strconv.Itoa(i.VLAN)), "the definition of "+g.Name+" puts it there").At(High)
	},
}

var sriovVFLinkState = &Knob{
	ID: "sriov.vf.link_state", Title: "A virtual function's link follows the port's", Stage: datapath.SRIOV, Risk: goal.Connectivity,
	Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "auto or enable",
		Why:    "auto shows the guest the port's own link. enable shows a link that is always up, which lets functions of one port talk to each other without a cable; disable cuts the guest off.",
		Cost:   "None.",
		Verify: vfVerify + " \"link-state auto\".",
		Traps: []string{
			"With enable a bond in the guest never sees that the cable is out.",
			"ixgbe offers it only from 5.18 on (366fd1000995); igb not at all.",
			vfLeft,
		},
		Sources: []Source{
			{"the three states", "include/uapi/linux/if_link.h, IFLA_VF_LINK_STATE_AUTO, _ENABLE, _DISABLE; ip-link(8), state"},
		},
	},
	Where: eachVF("link_state"),
	Want: func(v *View, a setting.Address) Advice {
		_, g, advice, ok := v.vf(a)
		if !ok {
			return advice
		}
		if g == nil {
			return Fine(freeVF)
		}
		return Wants(setting.Any("auto", "enable"), "the guest is cut off").At(High)
	},
}
