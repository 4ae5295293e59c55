package tcp

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/traffic"
)

func (c *conn) closeWrite() error { return unix.Shutdown(c.fd, unix.SHUT_WR) }

// RRConfig says what RR does.
type RRConfig struct {
	Target
	Duration time.Duration `json:"duration"`
	Count    uint64        `json:"count,omitempty"`    // transactions a connection; 0 for no limit
	Request  int           `json:"request,omitempty"`  // bytes, 0 means 1
	Response int           `json:"response,omitempty"` // bytes, 0 means 1
	Interval time.Duration `json:"interval,omitempty"` // of the samples, 0 means 1 s
}

// RRResult counts transactions: a request sent and its response received, one
// at a time on each connection, as netperf's TCP_RR.
type RRResult struct {
	Transactions uint64        `json:"transactions"`
	Elapsed      time.Duration `json:"elapsed"`
	PerConn      []uint64      `json:"per_conn"`
	Intervals    []Interval    `json:"intervals"`
	Delays       []traffic.Bin `json:"delays"` // of the transactions; see Histogram
	Retransmits  uint64        `json:"retransmits"`
	Cancelled    bool          `json:"cancelled,omitempty"`
}

// PerSecond is the mean rate of transactions.
func (r RRResult) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Transactions) / r.Elapsed.Seconds()
}

// Histogram is the distribution of transaction times.
func (r RRResult) Histogram() *traffic.Histogram { return traffic.FromBins(r.Delays) }

// RR makes transactions until Duration or Count is reached or ctx is done,
// which is not an error. A closed loop: while the far end stalls no request is
// started, so that stalls are under-counted (coordinated omission).
func RR(ctx context.Context, c RRConfig) (RRResult, error) {
	request, response := max(c.Request, 0), max(c.Response, 0)
	if request == 0 {
		request = 1
	}
	if response == 0 {
		response = 1
	}
	if c.Request < 0 || c.Response < 0 || request > maxMessage || response > maxMessage {
		return RRResult{}, fmt.Errorf("%w: request of %d and response of %d bytes, want 1 to %d", ErrConfig, c.Request, c.Response, maxMessage)
	}
	if c.Duration <= 0 && c.Count == 0 {
		return RRResult{}, fmt.Errorf("%w: neither duration nor count is limited", ErrConfig)
	}
	conns, err := c.dial(ctx, hello{service: serviceRR, request: uint32(request), response: uint32(response)})
	if err != nil {
		return RRResult{}, err
	}
	r := RRResult{PerConn: make([]uint64, len(conns))}
	hists := make([]traffic.Histogram, len(conns))
	var live atomic.Uint64
	spare(2 * len(conns)) // the server may be in this process
	run := newRun(ctx, c.Duration, conns)
	sampled := run.sample(&live, c.Interval)
	err = run.each(func(i int, k *conn) error {
		return run.transact(k, make([]byte, request), make([]byte, response), c.Count, &r.PerConn[i], &live, &hists[i])
	})
	r.Elapsed = time.Since(run.start)
	r.Cancelled = ctx.Err() != nil
	r.Intervals = <-sampled
	var all traffic.Histogram
	for i, k := range conns {
		r.Transactions += r.PerConn[i]
		all.Merge(&hists[i])
		if n, err := k.retransmits(); err == nil {
			r.Retransmits += uint64(n)
		}
		k.close()
	}
	r.Delays = all.Bins()
	if err != nil {
		return r, fmt.Errorf("TCP transactions with %s: %w", c.Addr, err)
	}
	return r, nil
}

// transact makes one transaction after the other.
func (r *run) transact(c *conn, request, response []byte, limit uint64, done *uint64, live *atomic.Uint64, h *traffic.Histogram) error {
	if err := c.noDelay(); err != nil {
		return err
	}
	start := time.Now()
	var begin time.Duration
	var turn turn
	for !r.over.Load() && (limit == 0 || *done < limit) {
		if turn.due(begin) {
			runtime.Gosched()
			begin = time.Since(start)
		}
		if err := c.write(request); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if err := c.readFull(response); err != nil {
			return fmt.Errorf("response: %w", err)
		}
		end := time.Since(start)
		h.Record(end - begin)
		begin = end
		*done++
		live.Add(1)
	}
	return nil
}
