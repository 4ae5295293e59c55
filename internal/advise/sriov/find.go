package sriov

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Find finds the function that the first words name: PF/N, PF vf N (as in ip link), its PCI address, or its interface
// on the host. rest are the words after the name.
func Find(h *facts.Host, words []string) (f *facts.VF, rest []string, err error) {
	if len(words) == 0 {
		return nil, nil, &Refused{"no virtual function is named", howNamed}
	}
	name, rest := words[0], words[1:]
	if len(rest) >= 2 && rest[0] == "vf" {
		name, rest = name+"/"+rest[1], rest[2:]
	}
	pf, number, byNumber := strings.Cut(name, "/")
	n, bad := strconv.Atoi(number)
	if byNumber && bad != nil {
		return nil, nil, refuse(howNamed, "%s: expected the number of a virtual function behind %s, found %q", name, pf,
			number)
	}
	pci, _ := domain.CanonPCI(name)
	has, isPF := 0, false
	for f := range facts.Each(h.VFs) {
		switch {
		case byNumber && f.PF == pf:
			if f.Index == n {
				return f, rest, nil
			}
			has++
		case !byNumber && (f.PCI != "" && f.PCI == pci || f.NIC != "" && f.NIC == name):
			return f, rest, nil
		}
	}
	for _, nic := range h.NICs {
		isPF = isPF || nic.Name == pf && nic.SRIOV != nil
	}
	switch {
	case byNumber && has > 0:
		return nil, nil, refuse("'mpps sriov list' shows them", "%s has no virtual function %d: it has %d, from 0 on",
			pf, n, has)
	case isPF && (byNumber || name == pf):
		return nil, nil, refuse(howNamed+"; 'mpps sriov create' makes them", "%s: expected a virtual function of %s",
			name, pf)
	}
	return nil, nil, refuse(howNamed+"; 'mpps sriov list' shows them", "there is no virtual function %s here", name)
}

const howNamed = "name it as PF/N, PF vf N, by its PCI address, or by its interface's name"

// nameOf is the name of a function: PF/N.
func nameOf(f *facts.VF) string { return fmt.Sprintf("%s/%d", f.PF, f.Index) }

// attribute is the address of an attribute of a function.
func attribute(f *facts.VF, name string) setting.Address {
	return setting.Of(setting.VFAttr, f.PF, strconv.Itoa(f.Index), name)
}

// port returns the PF of a function, as a port and as a NIC; zero and nil if it is not seen.
func port(h *facts.Host, f *facts.VF) (facts.VFPort, *facts.NIC) {
	n := nicOf(h, f.PF)
	if n == nil {
		return facts.VFPort{}, nil
	}
	return n.VFPort(), n
}

// guestNamed returns the guest with a name, or nil.
func guestNamed(h *facts.Host, name string) *facts.Guest {
	return facts.Find(h.Guests, func(g *facts.Guest) bool { return name != "" && g.Name == name })
}

// values returns the attributes of a function in the form in which they are set.
func values(f *facts.VF) map[string]string {
	return map[string]string{
		"mac": f.MAC, "vlan": strconv.Itoa(f.VLAN), "qos": strconv.Itoa(f.QoS),
		"max_tx_rate": strconv.Itoa(f.MaxTxRate),
		"min_tx_rate": strconv.Itoa(f.MinTxRate), "spoofchk": facts.OnOff(f.SpoofCheck), "trust": facts.OnOff(f.Trust),
		"link_state": f.LinkState,
	}
}

// Attributes returns the addresses of all attributes of a function.
func Attributes(f *facts.VF) []setting.Address {
	return facts.Map(facts.VFAttributes, func(name string) setting.Address { return attribute(f, name) })
}
