package link

import (
	"path"
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
func tap(m *tree.Tree, d Device, names map[int]string) (facts.Tap, bool) {
	dir := path.Join(tree.ClassNet, d.Name)
	t := facts.Tap{
		Name: d.Name, Type: "tap", Master: names[d.master], TxQueueLen: d.txQueueLen, Up: d.Up, Stats: d.Stats,
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
		if t.Classifiers, _ = lanes.Classifiers(at); len(t.Classifiers) > 0 && t.Master == "" {
			to, _ := lanes.Redirects(at)
			t.Redirects = facts.Map(to, func(index int) string { return names[index] })
		}
	}
	return t, true
}
