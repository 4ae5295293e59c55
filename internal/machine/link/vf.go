package link

import (
	"net/netip"
	"path"
	"strconv"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// vfs reads the virtual functions of every physical one: from sysfs what they are, from the PF's driver through
// rtnetlink what is set for them. uses says what the host does with which interface.
func vfs(m *tree.Tree, h *facts.Host, uses map[string]hostUse) {
	for _, pf := range h.NICs {
		if pf.SRIOV != nil && pf.SRIOV.Enabled > 0 {
			h.VFs = append(h.VFs, FunctionsOf(m, h, pf, uses)...)
		}
	}
}

// FunctionsOf are the virtual functions of one physical one. Those of a bus without links to them (netdevsim) are known
// by what the driver tells alone.
func FunctionsOf(m *tree.Tree, h *facts.Host, pf facts.NIC, uses map[string]hostUse) []facts.VF {
	settings, counted := vfSettings(m, h, pf)
	device := m.Folder(path.Join(tree.ClassNet, pf.Name, "device"))
	defer device.Close()
	// The functions lie beside the physical one, on whatever bus number (drivers/pci/iov.c, pci_iov_add_virtfn:
	// parent).
	beside := m.Folder(path.Join(tree.ClassNet, pf.Name) + "/device/..")
	defer beside.Close()
	all := make([]facts.VF, 0, min(pf.SRIOV.Enabled, maxVFs))
	for i := range min(pf.SRIOV.Enabled, maxVFs) {
		v, pci := facts.VF{Untold: facts.VFAttributes}, device.Target("virtfn"+strconv.Itoa(i))
		s, known := settings[i]
		switch {
		case known:
			v = s.as(pf.Driver).settings()
		case pci == "":
			return all // virtfnN are numbered without gaps
		}
		v.PF, v.Index, v.PCI, v.Group = pf.Name, i, pci, -1
		if v.PCI != "" {
			own := beside.Folder(v.PCI)
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
				v.Queues = queuesIn(own.Entries("net/" + names[0] + "/queues"))
			} else if interfaces != nil { // as in elsewhere
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

// maxVFs is more than a card has: the capability's count has 16 bits, the largest card known has 2048.
const maxVFs = 4096

// queuesIn is the number of a device's queues by its directories in queues/, of the direction that has more.
func queuesIn(names []string) int {
	rx, tx := 0, 0
	for _, name := range names {
		switch {
		case queueNumber(name, "rx-") >= 0:
			rx++
		case queueNumber(name, "tx-") >= 0:
			tx++
		}
	}
	return max(rx, tx)
}

// vfSettings asks the PF's driver for the settings of its VFs, by VF number, and whether it counts their traffic. A
// driver that does not leaves all counters at 0 (net/core/rtnetlink.c, rtnl_fill_vfinfo), as one does before the first
// packet: neither is taken for a count.
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
	address netip.Addr // where it only has an address
}

// uses says what the host itself does with interfaces, by name: those that are ports, lie under others, have an address
// or are the operator's way in.
func uses(m *tree.Tree, devices []Device, names map[int]string, ways map[string]string) map[string]hostUse {
	uses := map[string]hostUse{}
	if m.Live() {
		for address, index := range addressHolders() {
			known := uses[names[index]].address // the lowest is shown: the same one each time
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

// Functions lists the NICs that have or can have virtual functions, and these.
func Functions(m *tree.Tree, h *facts.Host) {
	devices := devices(m, h)
	names := make(map[int]string, len(devices))
	for _, d := range devices {
		names[d.Index] = d.Name
	}
	ways := managementPath(m, devices)
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
