package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"mpps/internal/advise/queuepath"
)

// minQueueShare is the share of a guest's packets below which a queue of its tap carries none of the load: the
// agent's control connection and ARP take their own queue.
const minQueueShare = 0.01

// TapQueues returns how many queues of the guest's taps carried packets that the guest sent, and how many the widest of
// these taps has. A guest in a network namespace has a veth pair for a tap.
func TapQueues(p *queuepath.Path) (carried, have int) {
	packets := map[queuepath.Queue]uint64{}
	var total uint64
	for _, r := range p.Rows {
		d := p.Device(r.Origin.Device)
		if !r.First() || r.Origin.Direction != queuepath.Rx || d == nil ||
			!slices.Contains([]string{"tap", "macvtap", "veth"}, d.Kind) {
			continue
		}
		packets[r.Origin] += r.Packets
		total += r.Packets
	}
	for queue, n := range packets {
		if float64(n) >= minQueueShare*float64(total) && n > 0 {
			carried++
			have = max(have, p.Device(queue.Device).RxQueues)
		}
	}
	return carried, have
}

// QueueError means that the guest's packets came by fewer queues than a step needs.
type QueueError struct {
	Carried, Have, Least int
}

func (e *QueueError) Error() string {
	if e.Carried == 0 {
		return "no packet of the guest was seen on its tap"
	}
	return fmt.Sprintf("the guest's packets came by %d of %d queues of its tap, expected %d or more: with one queue "+
		"in use there is nothing to keep apart", e.Carried, e.Have, e.Least)
}

// CheckQueues returns a QueueError unless a step that watched packets saw as many queues as it needs.
func (o *Outcomes) CheckQueues(s *Step) error {
	p := o.Paths[s.ID]
	if s.Queues == 0 || p == nil {
		return nil
	}
	if carried, have := TapQueues(p); carried < s.Queues {
		return &QueueError{carried, have, s.Queues}
	}
	return nil
}

// decodePath reads an answer of mpps path.
func decodePath(reader io.Reader) (*queuepath.Path, error) {
	var answer struct {
		Result *queuepath.Path `json:"result"`
	}
	if err := json.NewDecoder(reader).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Result == nil {
		return nil, errors.New("found no result, expected an answer of mpps path")
	}
	return answer.Result, nil
}
