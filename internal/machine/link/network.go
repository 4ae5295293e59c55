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
	for _, d := range devices {
		switch {
		case d.Kind == "bridge":
			h.Bridges = append(h.Bridges, bridge(m, d))
		case IsTunnel(d.Kind):
			h.Tunnels = append(h.Tunnels, tunnel(m, d, names, devices))
		case d.Kind == "macvtap" || d.Kind == "tun" || d.Kind == "":
			if tap, is := tap(m, d, names); is {
				h.Taps = append(h.Taps, tap)
			}
		}
	}
	vfs(m, h, uses(m, devices, names, ways))
	softnet(m, h)
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
	separateVethEnds(devices)
	slices.SortFunc(devices, func(a, b Device) int {
		return cmp.Or(a.Index-b.Index, strings.Compare(a.Name, b.Name))
	})
	names = make(map[int]string, len(devices))
	for _, d := range devices {
		names[d.Index] = d.Name
	}
	return devices, names, managementPath(m, devices)
}

// separateVethEnds clears the lower device of devices that name each other: neither end of a veth pair is below the
// other.
func separateVethEnds(devices []Device) {
	at := make(map[int]int, len(devices))
	for i, d := range devices {
		at[d.Index] = i
	}
	for i := range devices {
		if j, known := at[devices[i].lower]; known && devices[j].lower == devices[i].Index {
			devices[i].lower, devices[j].lower = 0, 0
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
	for _, name := range m.List(tree.ClassNet) {
		dir := m.Folder(path.Join(tree.ClassNet, name)) // nil for a file such as bonding_masters
		index, is := dir.Text("ifindex")
		if !is {
			dir.Close()
			continue
		}
		flags, _ := strconv.ParseUint(dir.Line("flags"), 0, 32)
		d := Device{
			Name: name, mac: dir.Line("address"), mtu: dir.Number("mtu", 0), Up: flags&1 != 0, Carrier: "unknown",
			txQueueLen: dir.Number("tx_queue_len", 0), Kind: tree.Variable(dir.Line("uevent"), "DEVTYPE"),
			lower: dir.Number("iflink", 0), Stats: map[string]uint64{},
		}
		d.Index, _ = strconv.Atoi(strings.TrimSpace(index))
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
	return devices
}
