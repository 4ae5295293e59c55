package link

import (
	"net/netip"
	"path"
	"strconv"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// vfs reads the VFs of every PF into h.VFs: the functions from sysfs, their settings from the PF's driver over
// rtnetlink. uses is what the host does with each interface.
func vfs(m *tree.Tree, h *facts.Host, uses map[string]hostUse) {
	for _, pf := range h.NICs {
		if pf.SRIOV != nil && pf.SRIOV.Enabled > 0 {
			h.VFs = append(h.VFs, FunctionsOf(m, h, pf, uses)...)
		}
	}
}

// FunctionsOf returns the VFs of one PF. Those of a bus without links to them (netdevsim) are known only from the
// driver.
func FunctionsOf(m *tree.Tree, h *facts.Host, pf facts.NIC, uses map[string]hostUse) []facts.VF {
	settings, counted := vfSettings(m, h, pf)
	device := m.Folder(path.Join(tree.ClassNet, pf.Name, "device"))
	defer device.Close()
	// VFs are siblings of the PF, whatever their bus number (drivers/pci/iov.c, pci_iov_add_virtfn: parent).
	siblings := m.Folder(path.Join(tree.ClassNet, pf.Name) + "/device/..")
	defer siblings.Close()
	all := make([]facts.VF, 0, min(pf.SRIOV.Enabled, maxVFs))
	for i := range min(pf.SRIOV.Enabled, maxVFs) {
		v, pci := facts.VF{Untold: facts.VFAttributes}, device.Target("virtfn"+strconv.Itoa(i))
		s, known := settings[i]
		switch {
		case known:
			v = s.normalized(pf.Driver).settings()
		case pci == "":
			return all // virtfnN are numbered without gaps
		}
		v.PF, v.Index, v.PCI, v.Group = pf.Name, i, pci, -1
		if v.PCI != "" {
			own := siblings.Folder(v.PCI)
			if own == nil {
				own = m.Folder(path.Join(tree.ClassNet, pf.Name, "device", "virtfn"+strconv.Itoa(i)))
			}
			v.Driver = own.Target("driver")
			if group, err := strconv.Atoi(own.Target("iommu_group")); err == nil {
				v.Group = group
			}
			interfaces := own.Folder("net")
			if names := interfaces.Names(); len(names) > 0 {
				use := uses[names[0]]
				v.NIC, v.HostUse, v.OnlyAddress = names[0], use.what, use.address.IsValid()
				rx, tx := queueCounts(own.Entries("net/" + names[0] + "/queues"))
				v.Queues = max(rx, tx)
			} else if interfaces != nil { // see inOtherNamespace in package vf
				v.Holder, v.Elsewhere = facts.OtherNamespace, true
			}
			interfaces.Close()
			own.Close()
		}
		if counted {
			traffic := s.traffic
			v.Traffic = &traffic
		}
		all = append(all, v)
	}
	return all
}

// maxVFs is more than any card has: the capability's count has 16 bits, the largest known card has 2048.
const maxVFs = 4096

// vfSettings returns the settings of a PF's VFs from its driver, by VF number, and whether it counts their traffic. A
// driver without these counters leaves them at 0 (net/core/rtnetlink.c, rtnl_fill_vfinfo). All are 0 before the first
// packet too: then it also returns false.
func vfSettings(m *tree.Tree, h *facts.Host, pf facts.NIC) (settings map[int]virtual, counted bool) {
	settings = map[int]virtual{}
	if !m.Live() {
		return settings, false
	}
	conn, err := DialRoute()
	if err != nil {
		tree.AddUnseen(h, "settings of the VFs of "+pf.Name, err)
		return settings, false
	}
	defer conn.Close()
	vfs, asked, err := linkWithVFs(conn, pf.Index, pf.SRIOV.Enabled, true)
	if err != nil {
		tree.AddUnseen(h, "settings of the VFs of "+pf.Name, tree.Netlink(err))
		return settings, false
	}
	for _, v := range vfs {
		settings[v.index] = v
		counted = counted || asked && v.traffic != facts.VFTraffic{}
	}
	return settings, counted
}

// hostUse is what the host itself does with an interface.
type hostUse struct {
	what    string     // for people
	address netip.Addr // valid if an address is the only use
}

// uses returns what the host itself does with interfaces, by name: those that are ports, are under another device, have
// an address or are on the management path.
func uses(m *tree.Tree, devices []Device, names map[int]string, ways map[string]string) map[string]hostUse {
	uses := map[string]hostUse{}
	if m.Live() {
		for address, index := range addressHolders() {
			known := uses[names[index]].address // show the lowest, so that it is always the same one
			if !address.IsLinkLocalUnicast() && !address.IsLoopback() && (!known.IsValid() || address.Less(known)) {
				uses[names[index]] = hostUse{"has address " + address.String(), address}
			}
		}
	}
	for _, d := range devices {
		if lower := names[d.lower]; lower != "" {
			uses[lower] = hostUse{what: "under " + d.Name}
		}
	}
	for _, d := range devices {
		if master := names[d.master]; master != "" {
			uses[d.Name] = hostUse{what: "port of " + master}
		}
		if why := ways[d.Name]; why != "" {
			uses[d.Name] = hostUse{what: "management path: " + why}
		}
	}
	return uses
}

// Functions adds the NICs that have or can have VFs to h.NICs, and their VFs to h.VFs.
func Functions(m *tree.Tree, h *facts.Host) {
	devices, names, ways := devices(m, h)
	for _, d := range devices {
		if !m.Exists(path.Join(tree.ClassNet, d.Name, "device/sriov_numvfs")) {
			continue
		}
		if n := nic(m, d, names); n.SRIOV != nil {
			n.Management = ways[n.Name]
			h.NICs = append(h.NICs, n)
		}
	}
	vfs(m, h, uses(m, devices, names, ways))
}
