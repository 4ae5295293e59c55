package agent

import (
	"testing"
	"time"

	"mpps/internal/measure/traffic/talk"
	"mpps/internal/must"
)

// TestServersKeepThePace: what servers send, streams, answers and acknowledgements, is within --max-pps, whatever the
// size of a client's segments; a limit that is far away costs nothing to speak of.
func TestServersKeepThePace(t *testing.T) {
	const limit, run = 2000, 1500 * time.Millisecond
	for name, measure := range map[string]func(talk.Target) (packets float64, err error){
		"a stream to the client": func(to talk.Target) (float64, error) {
			r, err := talk.Stream(t.Context(), talk.StreamConfig{Target: to, Duration: run, Reverse: true})
			return float64(r.Bytes) / 65483, err // the MSS of lo
		},
		"a file to the client": func(to talk.Target) (float64, error) {
			r, err := talk.Stream(t.Context(), talk.StreamConfig{Target: to, Duration: run, Reverse: true,
				Sendfile: true, Buffer: 1 << 20})
			return float64(r.Bytes) / 65483, err
		},
		"transactions": func(to talk.Target) (float64, error) {
			r, err := talk.RR(t.Context(), talk.RRConfig{Target: to, Duration: run})
			return float64(r.Transactions), err
		},
		"datagrams": func(to talk.Target) (float64, error) {
			r, err := talk.RR(t.Context(), talk.RRConfig{Target: to, Duration: run, UDP: true})
			return float64(r.Transactions), err
		},
		"connections": func(to talk.Target) (float64, error) {
			r, err := talk.CRR(t.Context(), talk.RRConfig{Target: to, Duration: run})
			return 5 * float64(r.Transactions), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, start(t, Options{Open: true, Limits: &Limits{MaxPPS: limit}}), DialOptions{})
			s := must.Get(c.ServeTCP(t.Context(), "", "127.0.0.1:0"))(t)
			packets, err := measure(s.Target(""))
			// The sockets' buffers are filled first, before anything is known to have been sent.
			if most := limit*run.Seconds()*1.1 + 4*portion; err != nil || packets > most || packets < most/20 {
				t.Errorf("%.0f packets in %v, expected at most %.0f; %v", packets, run, most, err)
			}
		})
	}
}

const portion = 16 // segments that a server sends between two looks at the limit

// TestPaceIsShared: servers get what the generators leave, and together no more.
func TestPaceIsShared(t *testing.T) {
	l := &Limits{MaxPPS: 1000}
	one, other := l.pace(), l.pace()
	if one(1) != 0 && other(0) != 0 {
		t.Log("the credit begins empty")
	}
	one(500)
	if wait := other(0); wait < 400*time.Millisecond || wait > 600*time.Millisecond {
		t.Errorf("after 500 packets of another server: %v, expected half a second", wait)
	}
	l.rate = 1000
	if wait := other(1); wait < time.Second {
		t.Errorf("beside generators that take all: %v", wait)
	}
	must.Hold(t, (&Limits{}).pace() == nil, "a pace without a limit")
}
