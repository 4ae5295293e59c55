package talk

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// openLoop is one connection of an open loop, served by one thread: it sends requests when they are due and takes
// answers as they arrive.
type openLoop struct {
	c             *conn
	udp           bool
	request       []byte
	response, got int // bytes of an answer; got of the next one have arrived (TCP)
	begin         time.Time
	first, step   float64 // ns from begin to the first request, and between requests
	limit         uint64  // number of requests on the schedule
	timeout       time.Duration

	n      *tally
	live   *atomic.Uint64
	rest   []byte // of a request that the socket accepted in part (TCP)
	full   bool   // the socket accepts no more
	stuck  uint64 // requests up to here are counted if they found the socket full
	base   uint64 // number of the oldest pending request
	queue  []pendingRequest
	head   int // start of the pending part of queue
	buf    []byte
	margin time.Duration // how much too early to wake the thread, to be on time
	spins  bool
	turn   turn
}

// pendingRequest is a request that waits for its answer. Times are since the start of the run.
type pendingRequest struct {
	due, sent time.Duration
	answered  bool
}

const (
	// sendBurst is how many requests are sent at once before answers are read.
	sendBurst = 16
	// leadIn is the time for the threads to get ready before the first request. It is not part of the schedule.
	leadIn = 2 * time.Millisecond
)

// sendOnSchedule sends one connection's share of the schedule: connection i of n sends the requests i, i+n, …
func (r *run) sendOnSchedule(c *conn, conf RRConfig, i int, n *tally, live *atomic.Uint64) error {
	conns := float64(len(r.conns))
	o := &openLoop{
		c: c, udp: conf.UDP, request: make([]byte, conf.Request), response: conf.Response, begin: r.start,
		first: float64(leadIn) + float64(i)*1e9/conf.Rate, step: conns * 1e9 / conf.Rate, timeout: conf.Timeout,
		n: n, live: live, buf: make([]byte, max(64<<10, conf.Response)),
		// Polling the clock takes a whole CPU; the far end may be on this machine.
		spins: len(r.conns) < runtime.NumCPU(),
	}
	o.limit = conf.Count
	if d := o.upTo(conf.Duration); conf.Duration > 0 && (o.limit == 0 || d < o.limit) {
		o.limit = d
	}
	if !conf.UDP {
		if err := c.noDelay(); err != nil {
			return err
		}
	}
	// Timers on this thread are precise to 1 µs instead of 50 (prctl(2), PR_SET_TIMERSLACK); 0 restores the default.
	if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	}
	err := o.serve(r)
	n.due = o.limit
	if ended := time.Duration(r.ended.Load()); ended > 0 && (conf.Duration == 0 || ended < conf.Duration) {
		n.due = min(n.due, o.upTo(ended)) // cancelled: the rest never became due
	}
	return err
}

// upTo returns the number of requests that are due before a time.
func (o *openLoop) upTo(d time.Duration) uint64 {
	return uint64(math.Ceil(max(0, float64(d)-o.first) / o.step))
}

func (o *openLoop) due(k uint64) time.Duration { return time.Duration(o.first + float64(k)*o.step) }

// serve sends and receives until the schedule is over and every request is answered or lost.
func (o *openLoop) serve(r *run) error {
	for {
		now := time.Since(o.begin)
		sending := r.going() && (o.n.sent < o.limit || o.rest != nil)
		if sending {
			if err := o.sendDue(now); err != nil {
				return fmt.Errorf("request: %w", err)
			}
		}
		received, err := o.receive()
		if r.aborted.Load() {
			o.loseUntil(math.MaxInt64)
			return nil
		}
		if err != nil {
			return fmt.Errorf("response: %w", err)
		}
		now = time.Since(o.begin)
		if o.udp {
			o.loseUntil(now - o.timeout)
		}
		if !sending {
			if len(o.pending()) == 0 {
				return nil
			}
			if over := time.Duration(r.ended.Load()); !r.going() && now >= over+o.timeout {
				o.loseUntil(math.MaxInt64)
				return nil
			}
		}
		if received {
			continue
		}
		if o.turn.due(now) {
			runtime.Gosched()
			continue
		}
		if err := o.wait(now, sending); err != nil {
			return fmt.Errorf("wait: %w", err)
		}
	}
}

// sendDue sends the requests that are due, up to sendBurst.
func (o *openLoop) sendDue(now time.Duration) error {
	o.full = false
	for range sendBurst {
		if o.rest == nil {
			if o.n.sent >= o.limit || o.due(o.n.sent) > now {
				return nil
			}
			if o.udp {
				putNumber(o.request, o.n.sent)
			}
			o.rest = o.request
		}
		// Before the call: on a short path the answer has arrived when it returns.
		now = time.Since(o.begin)
		n, errno := o.c.sendNow(o.rest)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN, unix.ENOBUFS:
			o.full = true
			if o.stuck <= o.n.sent {
				o.stuck = o.n.sent + 1
				o.n.blocked++
			}
			return nil
		default:
			return errno
		}
		if o.rest = o.rest[n:]; len(o.rest) > 0 {
			continue
		}
		o.rest = nil
		o.queue = append(o.queue, pendingRequest{due: o.due(o.n.sent), sent: now})
		o.n.sent++
	}
	return nil
}

// receive takes all answers that have arrived, and reports whether there were any.
func (o *openLoop) receive() (received bool, err error) {
	for {
		n, errno := o.c.receiveNow(o.buf)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return received, nil
		case errno != 0:
			return received, errno
		case n == 0 && !o.udp:
			return received, io.EOF
		}
		received = true
		now := time.Since(o.begin)
		if o.udp {
			o.datagram(o.buf[:n], now)
			continue
		}
		for o.got += n; o.got >= o.response; o.got -= o.response {
			if len(o.pending()) == 0 {
				return received, fmt.Errorf("more answers than requests")
			}
			o.recordAnswer(0, now)
			o.trim()
		}
	}
}

// datagram handles an answer over UDP.
func (o *openLoop) datagram(b []byte, now time.Duration) {
	if len(b) != o.response {
		o.n.late++
		return
	}
	k := binary.LittleEndian.Uint64(b)
	if k < o.base || k-o.base >= uint64(len(o.pending())) || o.pending()[k-o.base].answered {
		o.n.late++
		return
	}
	o.recordAnswer(int(k-o.base), now)
	o.trim()
}

// recordAnswer counts the answer to pending request i.
func (o *openLoop) recordAnswer(i int, now time.Duration) {
	u := &o.pending()[i]
	u.answered = true
	o.n.done++
	o.live.Add(1)
	o.n.delays.Record(now - u.due)
	o.n.sinceSent.Record(now - u.sent)
	o.n.last = o.begin.Add(now)
}

// pending returns the requests that wait for their answers, oldest first.
func (o *openLoop) pending() []pendingRequest { return o.queue[o.head:] }

// trim drops answered requests from the front.
func (o *openLoop) trim() {
	for len(o.pending()) > 0 && o.pending()[0].answered {
		o.drop()
	}
}

// loseUntil counts unanswered requests sent up to a time as lost.
func (o *openLoop) loseUntil(before time.Duration) {
	for len(o.pending()) > 0 && o.pending()[0].sent <= before {
		if !o.pending()[0].answered {
			o.n.lost++
		}
		o.drop()
	}
	o.trim()
}

// drop drops the oldest request.
func (o *openLoop) drop() {
	o.base++
	if o.head++; o.head == len(o.queue) || o.head > 1<<12 && o.head > len(o.queue)/2 {
		o.queue = o.queue[:copy(o.queue, o.queue[o.head:])]
		o.head = 0
	}
}

// Bounds of openLoop.margin. The thread wakes up early by about as much as it has been woken late so far, and then
// polls the clock.
const (
	leastMargin = 2 * time.Microsecond
	mostMargin  = 100 * time.Microsecond
)

// wait sleeps until an answer arrives or something is due.
func (o *openLoop) wait(now time.Duration, sending bool) error {
	wake := now + pollInterval
	precise := false
	switch {
	case sending && o.full:
	case sending && o.rest == nil && o.n.sent < o.limit:
		if next := o.due(o.n.sent); next < wake {
			wake, precise = next, true
			if o.spins {
				wake -= o.margin
			}
		}
	case sending:
		return nil
	}
	if o.udp && len(o.pending()) > 0 {
		if lost := o.pending()[0].sent + o.timeout; lost < wake {
			wake, precise = lost, false
		}
	}
	if wake <= now {
		return nil
	}
	fds := []unix.PollFd{{Fd: int32(o.c.fd), Events: unix.POLLIN}}
	if sending && o.full {
		fds[0].Events |= unix.POLLOUT
	}
	ts := unix.NsecToTimespec(int64(wake - now))
	n, err := unix.Ppoll(fds, &ts, nil)
	if err != nil && err != unix.EINTR {
		return err
	}
	if n == 0 && err == nil && precise {
		late := time.Since(o.begin) - wake
		o.margin = min(max(o.margin+(late*5/4-o.margin)/16, leastMargin), mostMargin)
	}
	return nil
}

// span returns how long an open loop took: its schedule, or until the last answer if that was later.
func (r *run) span(c RRConfig, tallies []tally) time.Duration {
	end := c.Duration
	if all := leadIn + time.Duration(float64(c.Count)*float64(len(tallies))/c.Rate*1e9); c.Count > 0 &&
		(end == 0 || all < end) {
		end = all
	}
	if ended := time.Duration(r.ended.Load()); ended > 0 {
		end = min(end, ended)
	}
	for i := range tallies {
		if last := tallies[i].last; !last.IsZero() {
			end = max(end, last.Sub(r.start))
		}
	}
	return end - leadIn
}
