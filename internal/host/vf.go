package host

import (
	"path"
	"strconv"

	"mpps/internal/facts"
)

// vfs reads the virtual functions of every physical one: from sysfs what they are and who has them, from the PF's
// driver through rtnetlink what is set for them.
func (m *Machine) vfs(h *facts.Host) {
	for _, pf := range h.NICs {
		if pf.SRIOV == nil || pf.SRIOV.Enabled == 0 {
			continue
		}
		settings := m.vfSettings(h, pf)
		for i := range pf.SRIOV.Total {
			dir := path.Join(classNet, pf.Name, "device", "virtfn"+strconv.Itoa(i))
			pci := m.link(dir)
			if pci == "" {
				break // virtfnN are numbered without gaps
			}
			v := facts.VF{
				PF: pf.Name, Index: i, PCI: pci, Group: -1, Driver: m.link(path.Join(dir, "driver")),
			}
			if group, err := strconv.Atoi(m.link(path.Join(dir, "iommu_group"))); err == nil {
				v.Group = group
			}
			if names := m.list(path.Join(dir, "net")); len(names) > 0 {
				v.NIC = names[0]
			}
			if s, known := settings[i]; known {
				s = s.as(pf.Driver)
				v.MAC, v.VLAN, v.QoS, v.MaxTxRate, v.MinTxRate = s.mac, s.vlan, s.qos, s.maxRate, s.minRate
				v.SpoofCheck, v.Trust, v.LinkState = s.spoofCheck, s.trust, s.linkState
			}
			h.VFs = append(h.VFs, v)
		}
	}
}

// vfSettings asks the PF's driver for the settings of its VFs, by VF number.
func (m *Machine) vfSettings(h *facts.Host, pf facts.NIC) map[int]virtual {
	settings := map[int]virtual{}
	if !m.live {
		return settings
	}
	conn, err := dialRoute()
	if err != nil {
		unseen(h, "settings of the VFs of "+pf.Name, err)
		return settings
	}
	defer conn.Close()
	vfs, err := linkWithVFs(conn, pf.Index)
	if err != nil {
		unseen(h, "settings of the VFs of "+pf.Name, describe(err))
		return settings
	}
	for _, v := range vfs {
		settings[v.index] = v
	}
	return settings
}
