package host

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/facts"
)

// nativeEndian is the byte order of netlink headers and structures.
var nativeEndian = binary.NativeEndian

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
	err := errNotLive
	if m.live {
		devices, err = m.linkTable()
	}
	if err != nil {
		if !errors.Is(err, errNotLive) {
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

// classNet is where network devices are.
const classNet = "sys/class/net"

// recordedDevices reads from sysfs what of the link table is there.
func (m *Machine) recordedDevices() []device {
	var devices []device
	for _, name := range m.list(classNet) {
		dir := m.folder(path.Join(classNet, name)) // nil of a file, such as bonding_masters
		index, is := dir.text("ifindex")
		if !is {
			dir.close()
			continue
		}
		flags, _ := strconv.ParseUint(dir.line("flags"), 0, 32)
		d := device{
			name: name, mac: dir.line("address"), mtu: dir.number("mtu", 0), up: flags&1 != 0, carrier: "unknown",
			txQueueLen: dir.number("tx_queue_len", 0), kind: uevent(dir.line("uevent"), "DEVTYPE"), lower: dir.number("iflink", 0), stats: map[string]uint64{},
		}
		d.index, _ = strconv.Atoi(strings.TrimSpace(index))
		if d.lower == d.index {
			d.lower = 0
		}
		if master := dir.link("master"); master != "" {
			d.master = m.number(path.Join(classNet, master, "ifindex"), 0)
		}
		if d.up {
			switch dir.line("carrier") {
			case "0":
				d.carrier = "down"
			case "1":
				d.carrier = "up"
			}
		}
		counters := dir.folder("statistics")
		for _, stat := range linkStats {
			if n, err := strconv.ParseUint(counters.line(stat), 10, 64); err == nil {
				d.stats[stat] = n
			}
		}
		counters.close()
		if _, is := dir.mode("macvtap"); d.kind == "" && is {
			d.kind = "macvtap"
		}
		dir.close()
		devices = append(devices, d)
	}
	return devices
}

// uevent is one variable of a uevent file.
func uevent(text, variable string) string {
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && name == variable {
			return value
		}
	}
	return ""
}

// below is the machine seen from a directory under its root: reads in it resolve no path above it, and cost one open
// each instead of one for every element of the path.
func (m *Machine) below(dir string) (*Machine, error) {
	root, err := subtree(m.root, dir)
	if err != nil {
		return nil, err
	}
	return &Machine{root: root, path: path.Join(m.path, dir), live: m.live}, nil
}

// unseen notes something that could not be seen, once, with the plain reason where it is a matter of privilege.
func unseen(h *facts.Host, what string, err error) {
	note(h, facts.Unseen{What: what, Why: plainly(err)})
}

func note(h *facts.Host, u facts.Unseen) {
	if !slices.Contains(h.Unseen, u) {
		h.Unseen = append(h.Unseen, u)
	}
}

// plainly words an error, by the privilege that is missing where that is all.
func plainly(err error) string {
	if unprivileged(err) {
		return "needs root"
	}
	return err.Error()
}

// unprivileged tells whether an error may be gone as root.
func unprivileged(err error) bool { return errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 }
