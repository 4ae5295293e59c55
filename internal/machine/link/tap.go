package link

import (
	"path"
	"slices"
	"strconv"

	"mpps/internal/machine/lanes"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Flags of a tun device in /sys/class/net/X/tun_flags (include/uapi/linux/if_tun.h).
const (
	iffTap        = 0x0002
	iffMultiQueue = 0x0100
)

// tap reads a tap or macvtap device; false if the device is neither. Point-to-point tun devices carry no guests.
func tap(m *tree.Tree, d Device, devices []Device, names map[int]string) (facts.Tap, bool) {
	dir := path.Join(tree.ClassNet, d.Name)
	t := facts.Tap{
		Name: d.Name, Type: "tap", Master: names[d.master], TxQueueLen: d.txQueueLen, Up: d.Up, Stats: d.Stats,
		XDP:   d.xdp,
		Owner: m.Number(path.Join(dir, "owner"), -1),
	}
	if d.Kind == "macvtap" {
		t.Type, t.Lower, t.MultiQueue = "macvtap", names[d.lower], d.txQueues > 1
		t.Mode, t.Elsewhere = d.mode, d.elsewhere
	} else {
		flags, err := strconv.ParseUint(m.Line(path.Join(dir, "tun_flags")), 0, 32)
		if err != nil || flags&iffTap == 0 {
			return facts.Tap{}, false
		}
		t.MultiQueue = flags&iffMultiQueue != 0
	}
	t.RxQueues, t.TxQueues, t.RPS, t.XPS = queues(m, dir)
	if m.Live() && t.Type == "tap" {
		// If they cannot be read, the check after steering finds them.
		at := lanes.Device{Name: d.Name, Index: d.Index}
		if t.Classifiers, _ = lanes.Classifiers(at); len(t.Classifiers) > 0 && t.Master != facts.OVSDatapath {
			t.Redirects = redirects(at, devices, names)
		}
	}
	return t, true
}

// redirects returns the names of the devices that tc filters send a tap's packets to. What they let arrive at a port
// goes to its master, and at another device to the network layer, like what no filter takes. Open vSwitch has filters
// of its own at its ports (other_config:hw-offload): they do what its flows say.
func redirects(at lanes.Device, devices []Device, names map[int]string) (to []string) {
	out, in, _ := lanes.Redirects(at)
	for _, index := range in {
		if i := slices.IndexFunc(devices, func(d Device) bool { return d.Index == index }); i >= 0 {
			out = append(out, devices[i].master)
		}
	}
	for _, index := range out {
		if name := names[index]; name != "" && !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	return to
}
