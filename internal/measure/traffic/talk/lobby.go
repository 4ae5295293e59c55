package talk

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// lobbySeats is how many connections of a Lobby may wait at once.
const lobbySeats = 128

// A Lobby bounds the connections that have not proven who they are: how many there are, and for how long. If it is
// full, the oldest connection of the address that has the most is closed, so that whoever opens thousands loses his
// own. Addresses of IPv6 count by their first 64 bits: the others are the machine's to choose (RFC 4291, 2.5.1). The
// zero Lobby is ready for use.
type Lobby struct {
	mu      sync.Mutex
	closed  bool
	waiting []*waiting // oldest first
}

type waiting struct {
	conn  net.Conn
	from  netip.Addr
	timer *time.Timer
}

// Enter admits a connection. leave must be called once the connection has proven who it is, or has failed to; it
// reports whether the connection is still open. A connection that stays longer than within is closed.
func (l *Lobby) Enter(c net.Conn, within time.Duration) (leave func() bool) {
	w := &waiting{conn: c}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		w.from = networkOf(a.AddrPort().Addr().Unmap())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return func() bool { return false }
	}
	if len(l.waiting) >= lobbySeats {
		l.remove(l.mostFrequent()).conn.Close()
	}
	w.timer = time.AfterFunc(within, func() { l.expel(w) })
	l.waiting = append(l.waiting, w)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.remove(w) != nil
	}
}

// networkOf returns the address with which others of the same machine are counted.
func networkOf(a netip.Addr) netip.Addr {
	if a.Is6() {
		if network, err := a.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
}

// mostFrequent returns the oldest connection of the address that has the most.
func (l *Lobby) mostFrequent() *waiting {
	counts := map[netip.Addr]int{}
	for _, w := range l.waiting {
		counts[w.from]++
	}
	most := l.waiting[0]
	for _, w := range l.waiting {
		if counts[w.from] > counts[most.from] {
			most = w
		}
	}
	return most
}

// remove takes a connection out of the list, and returns nil if it is not in there.
func (l *Lobby) remove(w *waiting) *waiting {
	for i, other := range l.waiting {
		if other == w {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			w.timer.Stop()
			return w
		}
	}
	return nil
}

func (l *Lobby) expel(w *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.remove(w) != nil {
		w.conn.Close()
	}
}

// Close closes the connections that wait, and every later one.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, w := range l.waiting {
		w.timer.Stop()
		w.conn.Close()
	}
	l.waiting = nil
}
