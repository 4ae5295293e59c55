package link

import (
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/ethtool"
	"mpps/internal/machine/lanes"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// IsTunnel reports whether devices of a kind sit between a bridge and a NIC: tunnels, VLANs, bonds.
func IsTunnel(kind string) bool { return slices.Contains(facts.TunnelTypes, kind) }

// tunnel reads a tunnel, VLAN or bond. Lower is the device that it is bound to, or a bond's ports. A VXLAN or GRE
// device without one, and every GENEVE device, sends along the route to the remote end.
func tunnel(m *tree.Tree, d Device, u *underlays) facts.Tunnel {
	t := facts.Tunnel{
		Name: d.Name, Type: d.Kind, Lower: u.names[d.lower], Master: u.names[d.master], Up: d.Up,
		Underlay: u.of(d), External: d.tunnel.external, Elsewhere: d.elsewhere, MTU: d.mtu,
		InUDP: d.gre.encap != 0,
	}
	if d.Kind == "bond" {
		var ports []string
		for _, port := range u.devices {
			if port.master == d.Index {
				ports = append(ports, port.Name)
			}
		}
		t.Lower = strings.Join(ports, ",")
	}
	t.RxQueues, t.TxQueues = queueCounts(m.List(path.Join(tree.ClassNet, d.Name, "queues")))
	if t.Lockless, t.LocklessBy = lockless(m, d); !t.Lockless {
		t.LockedBy, t.Made = d.gre.lockedBy(), d.made(t.Lower)
	}
	if m.Live() {
		// If they cannot be read, the check after steering finds them.
		t.Classifiers, _ = lanes.ClassifiersOut(lanes.Device{Name: d.Name, Index: d.Index})
	}
	return t
}

// lockless reports whether a device transmits without taking its queue's lock, and how that is known. Up to Linux 6.11
// it is a feature (tx-lockless, NETIF_F_LLTX); 6.12 made it a private flag (commit 00d066a4d4ed), which follows from
// the driver: vxlan, geneve, vlan and bond set it on every device, GRE on most (greOptions.lockedBy). An option
// that was changed since leaves it as it was made (ipgre_link_update), which is not seen.
func lockless(m *tree.Tree, d Device) (bool, string) {
	if m.Live() {
		if e, err := ethtool.Dial(); err == nil {
			defer e.Close()
			if features, err := e.Features(d.Name); err == nil {
				for _, f := range features {
					if f.Name == "tx-lockless" {
						return f.On, "feature"
					}
				}
				return d.gre.lockedBy() == "", "driver"
			}
		}
	}
	return false, ""
}
