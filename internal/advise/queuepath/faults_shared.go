package queuepath

import (
	"slices"
)

// sharedFairly reports whether a queue is shared as it must be with more senders than queues: no queue is idle, the
// senders keep to their queues, and either they are at most one more than a fair share, or the lane program put them
// there, perhaps by weight, or together they send no more than a queue's share.
func (j *judge) sharedFairly(d *Device, side Side, senders []Queue, q Queue, fair int) bool {
	return j.idleQueues(d, side) == 0 && j.keepTo(side, senders, q) &&
		(len(senders) <= fair+1 || d.laneCause(q, senders) == plannedCause ||
			float64(j.loads[q].packets)*float64(d.TxQueues) <= 1.1*float64(j.sides[side].packets))
}

// keepTo reports whether senders send at least 90 % of their packets by a queue.
func (j *judge) keepTo(side Side, senders []Queue, q Queue) bool {
	return !slices.ContainsFunc(senders, func(origin Queue) bool {
		return float64(j.loads[q].byOrigin[origin]) < 0.9*float64(j.sides[side].byOrigin[origin])
	})
}

// mostSenders returns the most senders on one queue.
func mostSenders(clashes []clash) int {
	most := 0
	for _, c := range clashes {
		most = max(most, len(c.parties))
	}
	return most
}
