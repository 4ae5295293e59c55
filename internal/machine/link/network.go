// Package link reads network devices over rtnetlink, in sysfs and from their drivers: NICs, virtual functions, bridges,
// tunnels, taps, queues, the management path. It writes their state, root qdisc and queue lanes, and the attributes of
// virtual functions.
package link

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Inventory reads everything that a frame passes between the wire and a guest's tap.
func Inventory(ctx context.Context, m *tree.Tree, h *facts.Host) {
	h.NICs, h.Bridges, h.Tunnels, h.Taps, h.VFs = []facts.NIC{}, []facts.Bridge{}, []facts.Tunnel{}, []facts.Tap{},
		[]facts.VF{}
	devices, names, ways := devices(m, h)
	h.NICs = nics(ctx, m, h, devices, names)
	for i := range h.NICs {
		h.NICs[i].Management = ways[h.NICs[i].Name]
	}
	under := newUnderlays(m, h, devices, names)
	defer under.close()
	for _, d := range devices {
		switch {
		case d.Kind == "bridge":
			h.Bridges = append(h.Bridges, bridge(m, d))
		case IsTunnel(d.Kind):
			h.Tunnels = append(h.Tunnels, tunnel(m, d, under))
		case d.Kind == "macvtap" || d.Kind == "tun" || d.Kind == "":
			if tap, is := tap(m, h, d, devices, names); is {
				h.Taps = append(h.Taps, tap)
			}
		}
	}
	h.Links = links(h, devices, names, under)
	h.Routing = routing(m, h, devices, names)
	addOnlyWay(h)
	vfs(m, h, uses(m, devices, names, ways))
	vdpas(m, h)
	softnet(m, h)
	stack(m, h)
}

// devices returns the network devices sorted by index, their names by index, and the management path.
func devices(m *tree.Tree, h *facts.Host) (devices []Device, names map[int]string, ways map[string]string) {
	err := tree.ErrNotLive
	if m.Live() {
		devices, err = LinkTable()
	}
	if err != nil {
		if !errors.Is(err, tree.ErrNotLive) {
			h.Unseen = append(h.Unseen, facts.Unseen{What: "link table of the kernel (read from sysfs instead)",
				Why: err.Error()})
		}
		devices = recordedDevices(m)
	}
	slices.SortFunc(devices, func(a, b Device) int {
		return cmp.Or(a.Index-b.Index, strings.Compare(a.Name, b.Name))
	})
	names = make(map[int]string, len(devices))
	for _, d := range devices {
		names[d.Index] = d.Name
	}
	return devices, names, managementPath(m, devices)
}

// separateVethEnds makes devices that name each other as lower device each other's peer: neither end of a veth pair is
// below the other. Sysfs does not tell their kind.
func separateVethEnds(devices []Device) {
	at := make(map[int]int, len(devices))
	for i, d := range devices {
		at[d.Index] = i
	}
	for i := range devices {
		one := &devices[i]
		if j, known := at[one.lower]; known && one.lower != 0 && devices[j].lower == one.Index {
			other := &devices[j]
			one.peer, other.peer = other.Index, one.Index
			one.lower, other.lower = 0, 0
			one.Kind, other.Kind = cmp.Or(one.Kind, "veth"), cmp.Or(other.Kind, "veth")
		}
	}
}

// LinkTable reads the kernel's link table.
func LinkTable() ([]Device, error) {
	conn, err := DialRoute()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return DumpLinks(conn)
}

// recordedDevices reads the part of the link table that sysfs has.
func recordedDevices(m *tree.Tree) []Device {
	var devices []Device
	guessed := map[int]bool{}
	for _, name := range m.List(tree.ClassNet) {
		dir := m.Folder(path.Join(tree.ClassNet, name)) // nil for a file such as bonding_masters
		index, is := dir.Text("ifindex")
		if !is {
			dir.Close()
			continue
		}
		flags, _ := strconv.ParseUint(dir.Line("flags"), 0, 32)
		d := Device{
			Name: name, mac: dir.Line("address"), mtu: dir.Number("mtu", 0), Up: flags&unix.IFF_UP != 0,
			Carrier: "unknown", flags: uint32(flags),
			txQueueLen: dir.Number("tx_queue_len", 0), Kind: tree.Variable(dir.Line("uevent"), "DEVTYPE"),
			Stats: map[string]uint64{},
		}
		d.Index, _ = strconv.Atoi(strings.TrimSpace(index))
		if d.lower = recordedLower(m, dir, name); d.lower == 0 {
			d.lower = dir.Number("iflink", d.Index)
			guessed[d.Index] = true
		}
		if d.lower == d.Index {
			d.lower = 0
		}
		if master := dir.Target("master"); master != "" {
			d.master = m.Number(path.Join(tree.ClassNet, master, "ifindex"), 0)
		}
		if d.Up {
			d.Carrier = cmp.Or(map[string]string{"0": "down", "1": "up"}[dir.Line("carrier")], d.Carrier)
		}
		counters := dir.Folder("statistics")
		for _, stat := range linkStats {
			if n, err := strconv.ParseUint(counters.Line(stat), 10, 64); err == nil {
				d.Stats[stat] = n
			}
		}
		counters.Close()
		if _, is := dir.Mode("macvtap"); d.Kind == "" && is {
			d.Kind = "macvtap"
		}
		dir.Close()
		devices = append(devices, d)
	}
	separateVethEnds(devices)
	for i := range devices {
		if d := &devices[i]; guessed[d.Index] && d.lower != 0 && d.isElsewhere(devices) {
			d.lower, d.elsewhere = 0, true
		}
	}
	return devices
}

// recordedLower returns the index of the device below, from the link that a device has to each below it
// (net/core/dev.c, netdev_adjacent_sysfs_add); 0 if there is none but ports.
func recordedLower(m *tree.Tree, dir *tree.Folder, device string) int {
	for _, entry := range dir.Names() {
		name, below := strings.CutPrefix(entry, "lower_")
		at := path.Join(tree.ClassNet, name)
		if below && m.Target(path.Join(at, "master")) != device {
			return m.Number(path.Join(at, "ifindex"), 0)
		}
	}
	return 0
}

// isElsewhere reports whether the device that iflink names is in another namespace: none here has that index, or the
// device is of a kind that sysfs does not tell, such as an end of a veth pair, and the other knows nothing of it.
func (d *Device) isElsewhere(all []Device) bool {
	return d.Kind == "" || !slices.ContainsFunc(all, func(other Device) bool { return other.Index == d.lower })
}
