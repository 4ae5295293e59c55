package host

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/machine/tree"
)

// network takes stock of everything that a frame passes between the wire and a guest's tap.
func (m *Machine) network(ctx context.Context, h *facts.Host) {
	h.NICs, h.Bridges, h.Tunnels, h.Taps, h.VFs = []facts.NIC{}, []facts.Bridge{}, []facts.Tunnel{}, []facts.Tap{}, []facts.VF{}
	devices := m.devices(h)
	names := make(map[int]string, len(devices))
	for _, d := range devices {
		names[d.index] = d.name
	}
	ways := m.managementPath(devices)
	nics := m.nics(ctx, h, devices, names)
	for i := range nics {
		nics[i].Management = ways[nics[i].Name]
	}
	h.NICs = nics
	for _, d := range devices {
		switch {
		case d.kind == "bridge":
			h.Bridges = append(h.Bridges, m.bridge(d))
		case isTunnel(d.kind):
			h.Tunnels = append(h.Tunnels, m.tunnel(d, names, devices))
		case d.kind == "macvtap" || d.kind == "tun" || d.kind == "":
			if tap, is := m.tap(d, names); is {
				h.Taps = append(h.Taps, tap)
			}
		}
	}
	m.vfs(h, m.uses(devices, names, ways))
	m.softnet(h)
}

// devices lists the network devices in the order of their indices.
func (m *Machine) devices(h *facts.Host) []device {
	var devices []device
	err := tree.ErrNotLive
	if m.Live() {
		devices, err = m.linkTable()
	}
	if err != nil {
		if !errors.Is(err, tree.ErrNotLive) {
			h.Unseen = append(h.Unseen, facts.Unseen{What: "link table of the kernel (read from sysfs instead)", Why: err.Error()})
		}
		devices = m.recordedDevices()
	}
	parted(devices)
	slices.SortFunc(devices, func(a, b device) int {
		if a.index != b.index {
			return a.index - b.index
		}
		return strings.Compare(a.name, b.name)
	})
	return devices
}

// parted takes away the lower device of those that name each other: the two ends of a veth pair, of which none is below
// the other.
func parted(devices []device) {
	at := make(map[int]int, len(devices))
	for i, d := range devices {
		at[d.index] = i
	}
	for i := range devices {
		if j, known := at[devices[i].lower]; known && devices[j].lower == devices[i].index {
			devices[i].lower, devices[j].lower = 0, 0
		}
	}
}

func (m *Machine) linkTable() ([]device, error) {
	conn, err := dialRoute()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return dumpLinks(conn)
}

// recordedDevices reads from sysfs what of the link table is there.
func (m *Machine) recordedDevices() []device {
	var devices []device
	for _, name := range m.List(tree.ClassNet) {
		dir := m.Folder(path.Join(tree.ClassNet, name)) // nil of a file, such as bonding_masters
		index, is := dir.Text("ifindex")
		if !is {
			dir.Close()
			continue
		}
		flags, _ := strconv.ParseUint(dir.Line("flags"), 0, 32)
		d := device{
			name: name, mac: dir.Line("address"), mtu: dir.Number("mtu", 0), up: flags&1 != 0, carrier: "unknown",
			txQueueLen: dir.Number("tx_queue_len", 0), kind: tree.Variable(dir.Line("uevent"), "DEVTYPE"), lower: dir.Number("iflink", 0), stats: map[string]uint64{},
		}
		d.index, _ = strconv.Atoi(strings.TrimSpace(index))
		if d.lower == d.index {
			d.lower = 0
		}
		if master := dir.Target("master"); master != "" {
			d.master = m.Number(path.Join(tree.ClassNet, master, "ifindex"), 0)
		}
		if d.up {
			switch dir.Line("carrier") {
			case "0":
				d.carrier = "down"
			case "1":
				d.carrier = "up"
			}
		}
		counters := dir.Folder("statistics")
		for _, stat := range linkStats {
			if n, err := strconv.ParseUint(counters.Line(stat), 10, 64); err == nil {
				d.stats[stat] = n
			}
		}
		counters.Close()
		if _, is := dir.Mode("macvtap"); d.kind == "" && is {
			d.kind = "macvtap"
		}
		dir.Close()
		devices = append(devices, d)
	}
	return devices
}
