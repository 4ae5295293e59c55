package talk

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"mpps/internal/measure/traffic"
)

// RRConfig configures RR.
type RRConfig struct {
	Target
	Duration time.Duration `json:"duration"`
	Count    uint64        `json:"count,omitempty"`    // transactions per connection; 0 for no limit
	Request  int           `json:"request,omitempty"`  // bytes, 0 means 1
	Response int           `json:"response,omitempty"` // bytes, 0 means 1
	Interval time.Duration `json:"interval,omitempty"` // of the samples; 0 means 1 s
	UDP      bool          `json:"udp,omitempty"`
	// Rate is how many requests per second are sent over all connections, on a schedule that does not wait for answers:
	// an open loop. 0 is a closed loop: the next request follows the answer. Over UDP an open loop needs 8 bytes for
	// the request number.
	Rate float64 `json:"rate,omitempty"`
	// Timeout is the time after which a request counts as lost: over UDP always, over TCP only in an open loop when the
	// run is over. 0 means 1 s.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// RRResult counts transactions: a request sent and its response received. A closed loop makes them one at a time on
// each connection, as netperf's TCP_RR and UDP_RR.
type RRResult struct {
	Transactions uint64        `json:"transactions"` // answered
	Sent         uint64        `json:"sent"`         // requests; Transactions + Lost
	Lost         uint64        `json:"lost"`         // not answered within the timeout
	Late         uint64        `json:"late"`         // answers after the timeout, and duplicates
	Elapsed      time.Duration `json:"elapsed"`      // until the last answer or the end of the schedule
	PerConn      []uint64      `json:"per_conn"`
	Intervals    []Interval    `json:"intervals"`
	// of the transactions; see Histogram. In an open loop, from when the request was due
	Delays      []traffic.Bin `json:"delays"`
	Retransmits uint64        `json:"retransmits"`
	Cancelled   bool          `json:"cancelled,omitempty"`

	// Only in an open loop:
	SinceSent []traffic.Bin `json:"since_sent,omitempty"` // delays from when the request was really sent
	Due       uint64        `json:"due,omitempty"`        // requests on the schedule of the run
	Blocked   uint64        `json:"blocked,omitempty"`    // requests that were due while the socket was full
}

// PerSecond returns the mean rate of transactions.
func (r RRResult) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Transactions) / r.Elapsed.Seconds()
}

// tally holds the counts of one connection.
type tally struct {
	sent, done, lost, late uint64
	due, blocked           uint64
	last                   time.Time // of the last answer, open loops only
	delays, sinceSent      traffic.Histogram
}

func (c *RRConfig) check() error {
	most := maxMessage
	if c.UDP {
		most = MaxDatagram
	}
	c.Request, c.Response = cmp.Or(c.Request, 1), cmp.Or(c.Response, 1)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	switch {
	case c.Request < 0 || c.Response < 0 || c.Request > most || c.Response > most:
		return fmt.Errorf("%w: request of %d and response of %d bytes, want 1 to %d", ErrConfig, c.Request, c.Response,
			most)
	case c.UDP && c.Rate > 0 && min(c.Request, c.Response) < NumberBytes:
		return fmt.Errorf("%w: request of %d and response of %d bytes, want %d or more for the number of a request",
			ErrConfig, c.Request, c.Response, NumberBytes)
	case c.Rate < 0 || math.IsNaN(c.Rate) || math.IsInf(c.Rate, 0):
		return fmt.Errorf("%w: rate of %g transactions/s", ErrConfig, c.Rate)
	case c.Timeout < 0:
		return fmt.Errorf("%w: timeout of %v", ErrConfig, c.Timeout)
	case c.Duration <= 0 && c.Count == 0:
		return fmt.Errorf("%w: neither duration nor count is limited", ErrConfig)
	}
	return nil
}

// RR makes transactions until Duration or Count is reached or ctx is done, which is not an error. In a closed loop no
// request is sent while the far end stalls, so stalls are under-counted (coordinated omission); an open loop measures
// delays from its schedule.
func RR(ctx context.Context, c RRConfig) (RRResult, error) {
	if err := c.check(); err != nil {
		return RRResult{}, err
	}
	h := hello{service: serviceRR, request: uint32(c.Request), response: uint32(c.Response)}
	var conns, control []*conn
	var err error
	if c.UDP {
		h.service = serviceUDPRR
		conns, control, err = c.dialUDP(ctx, h)
	} else {
		conns, err = c.dial(ctx, h)
	}
	if err != nil {
		return RRResult{}, err
	}
	defer closeAll(control)
	defer closeAll(conns)
	tallies := make([]tally, len(conns))
	var live atomic.Uint64
	reserveProcs(2 * len(conns)) // the server may be in this process
	run := newRun(ctx, c.Duration, conns, max(grace, c.Timeout+grace/10))
	sampled := run.sample(&live, c.Interval)
	err = run.each(func(i int, k *conn) error {
		switch {
		case c.Rate > 0:
			return run.sendOnSchedule(k, c, i, &tallies[i], &live)
		case c.UDP:
			return run.transactUDP(k, make([]byte, c.Request), make([]byte, c.Response), c.Count, c.Timeout,
				&tallies[i], &live)
		}
		return run.transact(k, make([]byte, c.Request), make([]byte, c.Response), c.Count, &tallies[i], &live)
	})
	r := RRResult{Elapsed: time.Since(run.start), Cancelled: ctx.Err() != nil, Intervals: <-sampled}
	r.sum(tallies)
	if c.Rate > 0 {
		r.Elapsed = run.span(c, tallies)
	}
	for _, k := range conns {
		if n, err := k.retransmits(); err == nil && !c.UDP {
			r.Retransmits += uint64(n)
		}
	}
	if err != nil {
		return r, fmt.Errorf("transactions with %s: %w", c.Addr, err)
	}
	return r, nil
}

// sum adds up the counts of the connections.
func (r *RRResult) sum(tallies []tally) {
	var delays, sinceSent traffic.Histogram
	for i := range tallies {
		t := &tallies[i]
		r.Sent, r.Transactions, r.Lost, r.Late = r.Sent+t.sent, r.Transactions+t.done, r.Lost+t.lost, r.Late+t.late
		r.Due, r.Blocked = r.Due+t.due, r.Blocked+t.blocked
		r.PerConn = append(r.PerConn, t.done)
		delays.Merge(&t.delays)
		sinceSent.Merge(&t.sinceSent)
	}
	r.Delays, r.SinceSent = delays.Bins(), sinceSent.Bins()
}

// transact makes one transaction after the other.
func (r *run) transact(c *conn, request, response []byte, limit uint64, n *tally, live *atomic.Uint64) error {
	if err := c.noDelay(); err != nil {
		return err
	}
	return r.closedLoop(limit, n, live, func() error {
		if err := c.write(request); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if err := c.readFull(response); err != nil {
			return fmt.Errorf("response: %w", err)
		}
		return nil
	})
}

// closedLoop makes one transaction after the other, up to limit (0: none).
func (r *run) closedLoop(limit uint64, n *tally, live *atomic.Uint64, transaction func() error) error {
	start := time.Now()
	var begin time.Duration
	var turn turn
	for r.going() && (limit == 0 || n.done < limit) {
		if turn.due(begin) {
			runtime.Gosched()
			begin = time.Since(start)
		}
		if err := transaction(); err != nil {
			return err
		}
		end := time.Since(start)
		n.delays.Record(end - begin)
		begin = end
		n.sent++
		n.done++
		live.Add(1)
	}
	return nil
}
