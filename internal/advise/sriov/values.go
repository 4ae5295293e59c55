package sriov

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// chooseAttributes chooses the attributes of the function: the requested ones, and otherwise those of a new function,
// since the values of its last user are still set.
func (g *Gift) chooseAttributes(h *facts.Host) error {
	for _, s := range g.request.Sets {
		switch {
		case s.Attribute == "mac":
			return refuse("--mac gives the guest's NIC its address", "mac is no attribute to be given here")
		case g.Form == facts.ByNetwork && s.Attribute != "vlan":
			return refuse("--as interface gives the guest its own function; or set all functions of the pool: "+
				"'mpps sriov set'",
				"%s cannot be set in a pool: which function guest %s gets is known only when it starts", s.Attribute,
				g.Guest)
		case g.Form == facts.ByInterface && s.Attribute == "qos" && s.Value != "0":
			return refuse("--as hostdev: then mpps sets VLAN and priority, and libvirt leaves them alone",
				"qos %s does not stay on an interface: libvirt writes the VLAN with priority 0 when the guest starts",
				s.Value)
		}
	}
	if g.Form == facts.ByNetwork {
		return g.checkVLAN(g.request.requested("vlan"))
	}
	vf := functionOf(h, g.PCI)
	fresh := facts.VFDefaults(g.pf.Driver)
	var sets []Set
	for _, name := range facts.VFAttributes {
		to := g.request.requested(name)
		switch {
		case g.Form == facts.ByInterface && name == "mac":
			continue // libvirt's, from the definition
		case g.Form == facts.ByInterface && (name == "vlan" || name == "qos"):
			to = "" // so is the VLAN; but if the definition has none, libvirt leaves the old one
		case name == "mac":
			to = g.MAC
		}
		if to = cmp.Or(to, fresh[name]); to != "" {
			sets = append(sets, Set{name, to})
		}
	}
	now := *vf
	for _, s := range inOrder(vf, sets) {
		because := "as a function has it that was just made: what stood there was somebody else's"
		if asked := g.setsItself(s.Attribute); asked || s.Attribute == "mac" {
			if err := g.pf.VFPort().Check(now, s.Attribute, s.Value); err != nil {
				return refuse(refusedAdvice(g.pf.VFPort(), s), "%s of %s: %v", s.Attribute, nameOf(vf), err)
			}
			because = words.Either(!asked, "a hostdev has no address of its own in the definition", "asked for by name")
			if text := warning(h, g.pf.VFPort(), g.pf, vf, s); text != "" && asked {
				g.note("attribute", s.Attribute+" "+s.Value+": "+text, "")
			}
		}
		g.values = append(g.values, value{s, because})
		now = with(now, s)
	}
	if g.Form == facts.ByInterface {
		return g.checkVLAN(g.request.requested("vlan"))
	}
	return nil
}

// setsItself reports whether an attribute is requested that mpps, not libvirt, sets.
func (g *Gift) setsItself(name string) bool {
	return g.request.requested(name) != "" && !(g.Form == facts.ByInterface && (name == "vlan" || name == "qos"))
}

// checkVLAN checks a VLAN that libvirt will set.
func (g *Gift) checkVLAN(to string) error {
	if to == "" || to == "0" {
		return nil
	}
	if n, err := strconv.Atoi(to); err != nil || n < 1 || n > 4094 {
		return refuse("0 is none", "expected a VLAN from 1 to 4094, found %q", to)
	}
	if takes, _, source := facts.VFSettable(g.pf.Driver, "vlan"); !takes {
		return refuse("", "%s cannot set the VLAN of a virtual function (%s)", g.pf.Driver, source)
	}
	return nil
}

// promiscuous are the PF drivers that give a trusted function all frames of the port:
// ixgbe_sriov.c, ixgbe_update_vf_xcast_mode (IXGBEVF_XCAST_MODE_PROMISC; not of 82599); i40e_virtchnl_pf.c and
// ice_virtchnl.c, *_vc_cfg_promiscuous_mode_msg; mlx5/core/eswitch.c, esw_update_vport_rx_mode (promisc only of trusted
// vports); bnxt.c, bnxt_promisc_ok; hns3pf/hclge_main.c, hclge_sync_promisc_mode; qed/qed_sriov.c,
// qed_iov_pre_update_vport.
var promiscuous = []string{"ixgbe", "i40e", "ice", "mlx5_core", "bnxt_en", "hns3", "qede"}

// nested matches definitions that enable nested virtualization: <feature policy='require' name='vmx'/>.
var nested = regexp.MustCompile(`<feature\s[^>]*policy=['"](?:require|force)['"][^>]*name=['"](?:vmx|svm)['"]`)

// checkBridge refuses a function for a guest with a bridge inside, unless the function can carry it.
func (g *Gift) checkBridge() error {
	if !g.request.Bridge {
		if nested.MatchString(g.guest.Definition) {
			g.note("nested", fmt.Sprintf("guest %s has virtualisation of its own: a bridge for guests in it gets "+
				"nothing through a virtual function", g.Guest), "--inside-bridge says what does; or give its guests "+
				"functions of their own")
		}
		return nil
	}
	trusted := g.request.requested("trust") == "on" && g.request.requested("spoofchk") == "off"
	able := slices.Contains(promiscuous, g.pf.Driver)
	const instead = "virtio with vhost on a bridge of the host (--pps says what it carries), or macvtap; Open " +
		"vSwitch in the guest works where it sends with the function's own address"
	switch {
	case trusted && able:
		g.note("bridge", fmt.Sprintf("a bridge in guest %s has all frames of the port only with promiscuous mode in "+
			"the guest, and other functions of %s may lose theirs to it", g.Guest, g.PF),
			"X520 (82599) does not offer it even to a trusted function")
	case g.request.Force:
		g.note("bridge", fmt.Sprintf("the card delivers only frames for %s's own address: a bridge in the guest "+
			"carries nothing of others", g.Guest), instead)
	case able:
		return refuse("--trust on --spoofchk off lets the guest have all frames ("+g.pf.Driver+
			" takes promiscuous mode from a trusted function); better: "+instead,
			"a virtual function carries no bridge in the guest: the card drops frames from and for other addresses "+
				"than its own")
	default:
		return refuse(instead, "a virtual function of %s carries no bridge in the guest: the card drops frames for "+
			"other addresses than its own, also with trust on", g.pf.Driver)
	}
	return nil
}
