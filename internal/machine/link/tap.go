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
func tap(m *tree.Tree, h *facts.Host, d Device, devices []Device, names map[int]string) (facts.Tap, bool) {
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
		f, err := filtersOf(d, devices, names)
		if err != nil {
			tree.AddUnseen(h, "tc filters of taps", err)
		}
		// Open vSwitch has its own filters at its ports (other_config:hw-offload): they do what its flows say.
		if t.Classifiers = f.kinds; t.Master != facts.OVSDatapath {
			t.Redirects = f.to
		}
	}
	return t, true
}

// filtersOf reads a tap's tc filters, and the names of the devices that they send its packets to. What they let arrive
// at a port goes to its master, and at another device to the network layer, like what no filter takes.
func filtersOf(d Device, devices []Device, names map[int]string) (f filters, err error) {
	at := lanes.Device{Name: d.Name, Index: d.Index}
	if f.kinds, err = lanes.Classifiers(at); len(f.kinds) == 0 {
		return f, err
	}
	out, in, err := lanes.Redirects(at)
	for _, index := range in {
		if i := slices.IndexFunc(devices, func(d Device) bool { return d.Index == index }); i >= 0 {
			out = append(out, devices[i].master)
		}
	}
	for _, index := range out {
		if name := names[index]; name != "" && !slices.Contains(f.to, name) {
			f.to = append(f.to, name)
		}
	}
	return f, err
}
