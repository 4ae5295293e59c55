package link

import (
	"path"
	"strconv"

	"mpps/internal/machine/lanes"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Flags of a tun device as /sys/class/net/X/tun_flags shows them (include/uapi/linux/if_tun.h).
const (
	iffTap        = 0x0002
	iffMultiQueue = 0x0100
)

// tap reads a tap or macvtap device; false where the device is neither. Point-to-point tun devices carry no guests.
func tap(m *tree.Tree, d Device, names map[int]string) (facts.Tap, bool) {
	dir := path.Join(tree.ClassNet, d.Name)
	t := facts.Tap{
		Name: d.Name, Type: "tap", Master: names[d.master], TxQueueLen: d.txQueueLen, Up: d.Up, Stats: d.Stats,
		Owner: m.Number(path.Join(dir, "owner"), -1),
	}
	switch {
	case d.Kind == "macvtap":
		t.Type, t.Lower = "macvtap", names[d.lower]
	default:
		flags, err := strconv.ParseUint(m.Line(path.Join(dir, "tun_flags")), 0, 32)
		if err != nil || flags&iffTap == 0 {
			return facts.Tap{}, false
		}
		t.MultiQueue = flags&iffMultiQueue != 0
	}
	t.RxQueues, t.TxQueues, t.RPS, t.XPS = queues(m, dir)
	if t.Type == "macvtap" {
		t.MultiQueue = d.txQueues > 1
	}
	if m.Live() && t.Type == "tap" {
		// Where the kernel does not tell, the watch behind the steering does.
		t.Classifiers, _ = lanes.Classifiers(lanes.Device{Name: d.Name, Index: d.Index})
	}
	return t, true
}
