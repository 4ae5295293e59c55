package queuepath

import (
	"slices"

	"mpps/internal/model/setting"
)

// shared reports whether a queue is shared as it has to be where there are more senders than queues: no queue is idle,
// the senders keep to theirs, and either they are as many as everywhere, give or take one, or they send no more
// together than a queue's part, or it is what the steering program was told, be it by weight.
func (j *judge) shared(d *Device, side Side, senders []Queue, q Queue, fair int) bool {
	if j.idleQueues(d, side) > 0 || !j.keep(side, senders, q) {
		return false
	}
	return len(senders) <= fair+1 || steered(d.Lanes, senders, q) ||
		float64(j.at[q].packets)*float64(d.TxQueues) <= 1.1*float64(j.sides[side].packets)
}

// keep reports whether senders keep to a queue.
func (j *judge) keep(side Side, senders []Queue, q Queue) bool {
	for _, origin := range senders {
		if float64(j.at[q].byOrigin[origin]) < 0.9*float64(j.sides[side].byOrigin[origin]) {
			return false
		}
	}
	return true
}

// steered reports whether all senders have the queue from the steering program.
func steered(lanes []setting.Lane, senders []Queue, q Queue) bool {
	for _, from := range senders {
		at := slices.IndexFunc(lanes, func(l setting.Lane) bool { return l.Tap == from.Device })
		if at < 0 || from.Queue < 0 || QueueOf(lanes[at], from.Queue) != q.Queue {
			return false
		}
	}
	return true
}

// crowdOf is the most senders that meet on one queue.
func crowdOf(clashes []clash) int {
	most := 0
	for _, c := range clashes {
		most = max(most, len(c.parties))
	}
	return most
}
