package queuepath

import (
	"slices"

	"mpps/internal/model/setting"
)

// What a collision on a NIC with mpps's lane program comes from.
const (
	planned = "planned" // windows that do not fit
	astray  = "astray"  // lanes that do not arrive
)

// carried tells how senders that have lanes came to a queue: by their windows, or elsewhere. Empty where one of them
// has none: then it is the kernel's choice that brought it there.
func (d *Device) carried(q Queue, senders []Queue) string {
	cause := planned
	for _, from := range senders {
		at := slices.IndexFunc(d.Lanes, func(l setting.Lane) bool { return l.Tap == from.Device })
		switch {
		case at < 0 || from.Queue < 0:
			return ""
		case QueueOf(d.Lanes[at], from.Queue) != q.Queue:
			cause = astray
		}
	}
	if len(senders) == 0 {
		return ""
	}
	return cause
}

// devicesFirst is the first device of some queues.
func devicesFirst(queues []Queue) string {
	if len(queues) == 0 {
		return "TAP"
	}
	return queues[0].Device
}
