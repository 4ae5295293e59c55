package talk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"mpps/internal/measure/traffic"
)

// Target is a server and the way to reach it.
type Target struct {
	Netns string `json:"netns,omitempty"` // the client's network namespace
	Addr  string `json:"addr"`            // host:port of the server
	Conns int    `json:"conns,omitempty"` // 0 means 1
	Key   []byte `json:"-"`               // the server's
}

// An Interval is what happened in one part of the run.
type Interval struct {
	Start time.Duration `json:"start"` // since the start of the run
	End   time.Duration `json:"end"`
	Count uint64        `json:"count"` // bytes or transactions
}

// dial opens all connections of a run, or none.
func (t Target) dial(ctx context.Context, h hello) ([]*conn, error) {
	if t.Conns < 0 || t.Conns > 1024 {
		return nil, fmt.Errorf("%w: %d connections, want 1 to 1024", ErrConfig, t.Conns)
	}
	var conns []*conn
	err := traffic.Endpoint{Netns: t.Netns}.Do(func() error {
		d := net.Dialer{Timeout: 10 * time.Second}
		for range max(1, t.Conns) {
			// For a numeric address the socket is made on this thread. A name would be resolved on another thread, in
			// another namespace.
			if _, err := net.ResolveTCPAddr("tcp", t.Addr); t.Netns != "" && err != nil {
				return fmt.Errorf("%w: address %q: %w", ErrConfig, t.Addr, err)
			}
			c, err := d.DialContext(ctx, "tcp", t.Addr)
			if err != nil {
				return err
			}
			token, err := introduce(ctx, c, t.Key, h)
			if err != nil {
				c.Close()
				return err
			}
			b, err := block(c.(*net.TCPConn))
			if err != nil {
				c.Close()
				return err
			}
			b.token = token
			conns = append(conns, b)
		}
		return nil
	})
	if err != nil {
		for _, c := range conns {
			c.close()
		}
		return nil, fmt.Errorf("TCP test with %s: %w", t.Addr, err)
	}
	return conns, nil
}

// Prove returns an error unless a server that has the target's key listens there.
func (t Target) Prove(ctx context.Context) error {
	t.Conns = 1
	conns, err := t.dial(ctx, hello{service: serviceSink, request: 1})
	closeAll(conns)
	return err
}

// A run is one measurement over its connections.
type run struct {
	start time.Time
	conns []*conn
	over  atomic.Bool  // time is up or cancelled: finish
	ended atomic.Int64 // when that was, ns since start

	aborted atomic.Bool // the connections are shut down: no answers will come
	undo    func() bool
	cancel  context.CancelFunc
	done    chan struct{}
}

// grace is how long a far end may take to report what it received, or to answer the last requests.
const grace = 5 * time.Second

// newRun starts a run. patience is how long blocked calls may continue when its time is up.
func newRun(ctx context.Context, d time.Duration, conns []*conn, patience time.Duration) *run {
	r := &run{start: time.Now(), conns: conns, done: make(chan struct{}), cancel: func() {}}
	if d > 0 {
		ctx, r.cancel = context.WithTimeout(ctx, d)
	}
	r.undo = context.AfterFunc(ctx, func() {
		r.finish()
		// Blocked calls get time to finish, then they are aborted.
		wait := patience
		if context.Cause(ctx) == context.Canceled {
			wait = grace / 10
		}
		select {
		case <-time.After(wait):
			r.aborted.Store(true)
			for _, c := range conns {
				c.abort()
			}
		case <-r.done:
		}
	})
	return r
}

// finish ends the run: nothing more is to be started.
func (r *run) finish() {
	r.ended.CompareAndSwap(0, int64(time.Since(r.start)))
	r.over.Store(true)
}

// going reports whether more may be started.
func (r *run) going() bool { return !r.over.Load() }

// each runs f for each connection on its own thread and waits.
func (r *run) each(f func(int, *conn) error) error {
	errs := make([]error, len(r.conns))
	var wait sync.WaitGroup
	for i, c := range r.conns {
		wait.Add(1)
		onThread(func() {
			defer wait.Done()
			if errs[i] = f(i, c); errs[i] != nil {
				r.finish()
			}
		})
	}
	wait.Wait()
	close(r.done)
	r.undo()
	r.cancel()
	return errors.Join(errs...)
}

// sample collects the intervals until the run is done.
func (r *run) sample(live *atomic.Uint64, every time.Duration) <-chan []Interval {
	if every <= 0 {
		every = time.Second
	}
	out := make(chan []Interval, 1)
	go func() {
		var all []Interval
		var last Interval
		var seen uint64
		take := func() {
			n := live.Load()
			last = Interval{Start: last.End, End: time.Since(r.start), Count: n - seen}
			seen = n
			all = append(all, last)
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				take()
			case <-r.done:
				take()
				out <- all
				return
			}
		}
	}()
	return out
}
