package queuepath

import (
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// The causes of collisions on a NIC with mpps's lane program.
const (
	plannedCause = "planned" // windows that do not fit
	astrayCause  = "astray"  // lanes that leave by other queues than planned
)

// laneCause returns why senders with lanes share a queue: their windows, or lanes gone astray. It returns "" if one of
// them has no lane: then the kernel chose the queue.
func (d *Device) laneCause(q Queue, senders []Queue) string {
	cause := plannedCause
	for _, from := range senders {
		lane := facts.Find(d.Lanes, func(l *setting.Lane) bool { return l.Tap == from.Device })
		switch {
		case lane == nil || from.Queue < 0:
			return ""
		case QueueOf(*lane, from.Queue) != q.Queue:
			cause = astrayCause
		}
	}
	if len(senders) == 0 {
		return ""
	}
	return cause
}

// firstDevice returns the device of the first of some queues.
func firstDevice(queues []Queue) string {
	if len(queues) == 0 {
		return "TAP"
	}
	return queues[0].Device
}
