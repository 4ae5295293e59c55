package machine

import (
	"maps"

	"mpps/internal/machine/boot"
	"mpps/internal/machine/ethtool"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/kernel"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/link"
	"mpps/internal/machine/netfilter"
	"mpps/internal/machine/ovs"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/vf"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms that read and write values on this machine, by kind. On a recorded tree those that
// need the running kernel return an unknown reading.
func (m *Machine) Mechanisms() setting.Mechanisms {
	all := setting.Mechanisms{
		setting.File:      file{m},
		setting.Directory: directories{m},
		setting.Inside:    m.Inside,
		setting.GuestArg:  m.Inside.Arguments(),
	}
	for _, some := range []setting.Mechanisms{
		libvirt.Mechanisms(m.Tree, m.definitions),
		kernel.Mechanisms(m.Tree),
		boot.Mechanisms(m.Tree),
		ethtool.Mechanisms(m.Tree),
		irq.Mechanisms(m.Tree),
		netfilter.Mechanisms(m.Tree),
		systemd.Mechanisms(m.Tree),
		threads.Mechanisms(m.Tree),
		vf.Mechanisms(m.Tree),
		link.Mechanisms(m.Tree),
		ovs.Mechanisms(m.Tree),
	} {
		maps.Copy(all, some)
	}
	return all
}
