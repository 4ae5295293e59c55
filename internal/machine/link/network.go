// Package link reads network devices over rtnetlink, in sysfs and through their drivers: NICs, virtual functions,
// bridges, tunnels, taps, queues, the management path. It writes their state, their root discipline, the lanes of their
// queues and the attributes of virtual functions.
package link

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Inventory takes stock of everything that a frame passes between the wire and a guest's tap.
func Inventory(ctx context.Context, m *tree.Tree, h *facts.Host) {
	h.NICs, h.Bridges, h.Tunnels, h.Taps, h.VFs = []facts.NIC{}, []facts.Bridge{}, []facts.Tunnel{}, []facts.Tap{},
		[]facts.VF{}
	devices := devices(m, h)
	names := make(map[int]string, len(devices))
	for _, d := range devices {
		names[d.Index] = d.Name
	}
	ways := managementPath(m, devices)
	nics := nics(ctx, m, h, devices, names)
	for i := range nics {
		nics[i].Management = ways[nics[i].Name]
	}
	h.NICs = nics
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

// devices lists the network devices in the order of their indices.
func devices(m *tree.Tree, h *facts.Host) []Device {
	var devices []Device
	err := tree.ErrNotLive
	if m.Live() {
		devices, err = LinkTable(m)
	}
	if err != nil {
		if !errors.Is(err, tree.ErrNotLive) {
			h.Unseen = append(h.Unseen, facts.Unseen{What: "link table of the kernel (read from sysfs instead)",
				Why: err.Error()})
		}
		devices = recordedDevices(m)
	}
	parted(devices)
	slices.SortFunc(devices, func(a, b Device) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		return strings.Compare(a.Name, b.Name)
	})
	return devices
}

// parted takes away the lower device of those that name each other: the two ends of a veth pair, of which none is below
// the other.
func parted(devices []Device) {
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

func LinkTable(m *tree.Tree) ([]Device, error) {
	conn, err := DialRoute()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return DumpLinks(conn)
}

// recordedDevices reads from sysfs what of the link table is there.
func recordedDevices(m *tree.Tree) []Device {
	var devices []Device
	for _, name := range m.List(tree.ClassNet) {
		dir := m.Folder(path.Join(tree.ClassNet, name)) // nil of a file, such as bonding_masters
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
			switch dir.Line("carrier") {
			case "0":
				d.Carrier = "down"
			case "1":
				d.Carrier = "up"
			}
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
