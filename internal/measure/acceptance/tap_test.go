package acceptance

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// watched is the answer of mpps path for a guest whose tap of eight queues received packets, by queue.
func watched(t *testing.T, packets ...uint64) []byte {
	t.Helper()
	p := &queuepath.Path{Observation: queuepath.Observation{Devices: []queuepath.Device{
		{Name: "vnet0", Kind: "tap", Guest: "vm1", RxQueues: 8}, {Name: "ens1f0", Kind: "nic", RxQueues: 4}}}}
	for i, n := range packets {
		tap := queuepath.Queue{Device: "vnet0", Direction: queuepath.Rx, Queue: i}
		nic := queuepath.Queue{Device: "ens1f0", Direction: queuepath.Tx, Queue: i % 4}
		in := queuepath.Queue{Device: "ens1f0", Direction: queuepath.Rx, Queue: i % 4}
		p.Rows = append(p.Rows, queuepath.Row{Origin: tap, From: tap, To: tap, Packets: n},
			queuepath.Row{Origin: tap, From: tap, To: nic, Packets: n},
			queuepath.Row{Origin: in, From: in, To: in, Packets: 1e6}) // answers
	}
	text := must.Get(json.Marshal(map[string]any{"schema": "mpps.path/1", "result": facts.NonNil(p)}))(t)
	return text
}

// TestQueuesThatCarry: where the guest's packets come by one queue the step fails, whatever else passed.
func TestQueuesThatCarry(t *testing.T) {
	step := &Step{ID: "met", Gives: Watched, Queues: 2}
	for name, c := range map[string]struct {
		packets []uint64
		carried int // −1: enough
	}{
		"none":                         {nil, 0},
		"one":                          {[]uint64{100000}, 1},
		"one, and a control channel":   {[]uint64{3, 100000, 999}, 1},
		"two":                          {[]uint64{50000, 50000}, -1},
		"two, of which one has little": {[]uint64{100000, 0, 2000}, -1},
	} {
		o := &Outcomes{}
		must.Do(t, o.Add(step.ID, step.Gives, watched(t, c.packets...)))
		var short *QueueError
		switch err := o.CheckQueues(step); {
		case c.carried < 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.carried >= 0 && (!errors.As(err, &short) || short.Carried != c.carried):
			t.Errorf("%s: %v, expected an error about %d queues", name, err, c.carried)
		case c.carried == 1 && !strings.Contains(err.Error(), "1 of 8 queues"):
			t.Errorf("%s: %v", name, err)
		}
		must.Succeed(t, o.CheckQueues(&Step{ID: "met"}), "%s, no number asked for", name)
	}
	for _, text := range []string{"", "{}", `{"result": []}`} {
		must.Refuse(t, (&Outcomes{}).Add("met", Watched, []byte(text)), "%q was read as a queue path", text)
	}
}

// TestManyQueuesNeedManyQueues: before "many" is measured, the packets of the guest are seen to come by two queues.
func TestManyQueuesNeedManyQueues(t *testing.T) {
	in := whole()
	met := 0
	for _, s := range queues.Steps(in) {
		if s.ID == "met" {
			met = s.Queues
		}
		if s.ID == "many" && met != 2 {
			t.Errorf("many is measured after a look for %d queues, expected 2", met)
		}
	}
	in.Trial, in.Agent = "trex.py", "" // its packets come from the wire
	for _, s := range queues.Steps(in) {
		must.Equal(t, s.Queues, 0, "step %s asks for queues that nobody sends on", s.ID)
	}
}
