package bottleneck

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// showUse adds the share of a CPU that a thread used to the evidence.
func (s *suspect) showUse(t *facts.ThreadLoad, use float64) {
	s.show("share of a CPU that "+label(t)+" used", use, "share", schedstat(t))
}

// reader returns the thread that most likely reads the overflowing sockets: one whose cgroup is throttled, or the
// measurement's own; nil if none is known. Another full thread proves nothing: the load does not say who owns a socket.
func (p *path) reader() *facts.ThreadLoad {
	var found *facts.ThreadLoad
	for t := range facts.Each(p.l.Threads) {
		throttled := t.Throttle >= minThrottle
		if !(throttled && t.Role == "other" && t.Guest == "") &&
			!(t.Role == "mpps" && (throttled || t.Ran >= 0.3 && t.Ran+t.Waited >= threadFull)) {
			continue
		}
		if found == nil || t.Throttle > found.Throttle || t.Throttle == found.Throttle && t.Ran > found.Ran {
			found = t
		}
	}
	return found
}

// sockets blames overflowing receive buffers on their readers, which wait for a CPU, use all of one, or do not read; if
// they are empty at the end, on the size of the buffers.
func sockets(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atSocket) {
		queued, object := p.l.Sockets.Queued, "UDP socket"
		t := p.reader()
		if one := p.losing(s); one != nil {
			queued, object = one.Queued, socketName("UDP socket", one)
			if one.PID != 0 {
				t = cmp.Or(p.busiestOfProcess(one.PID), t)
			}
		}
		f := suspect{
			kind: Socket, object: object, strength: 0.72, lost: s.packets, share: s.share,
			keys: []string{"socket"},
			say:  fmt.Sprintf("receive buffers lose %s of what reaches them", percent(s.share)),
			evidence: []Evidence{{"lost at receive buffers", p.rate(s.packets), "packets/s", s.source},
				{"fill of the fullest buffer at the end", queued, "share", "/proc/net/udp"}},
		}
		if t != nil && t.Throttle < minThrottle && p.heldBack(t) {
			if c, is := p.heldUp(t, f); is {
				found = append(found, c)
				continue
			}
		}
		explainReader(&f, t, queued)
		if one := p.losing(s); one != nil && f.kind == Socket {
			f.waitsIn(one.Waits)
		}
		found = append(found, f)
	}
	return found
}

// blockedSockets blames readers of sockets whose buffers are full, though they lose little of what all programs
// receive: their own packets are few.
func blockedSockets(p *path) (found []suspect) {
	if len(p.lossesAt(atSocket)) > 0 {
		return nil
	}
	for s := range facts.Each(p.l.Sockets.Losing) {
		if s.Queued < 0.5 || p.rate(float64(s.Drops)) < minOwnLoss {
			continue
		}
		f := suspect{kind: Socket, object: socketName("UDP socket", s), strength: 0.72,
			lost: float64(s.Drops), share: shareOf(float64(s.Drops), float64(p.l.Sockets.UDPIn)),
			keys: []string{fmt.Sprintf("socket:%d", s.Port)},
			say: fmt.Sprintf("receive buffers of port %d lose %s packets a second", s.Port,
				amount(p.rate(float64(s.Drops))))}
		f.show("lost at its receive buffer", p.rate(float64(s.Drops)), "packets/s", "sock_diag")
		f.show("fill of its buffer at the end", s.Queued, "share", "sock_diag")
		t := (*facts.ThreadLoad)(nil)
		if s.PID != 0 {
			t = p.busiestOfProcess(s.PID)
		}
		explainReader(&f, t, s.Queued)
		f.waitsIn(s.Waits)
		found = append(found, f)
	}
	return found
}

// waits are kernel functions in which a thread that does not read may sleep, and what it waits for there.
var waits = map[string]string{
	"pipe_write": "until somebody reads from a pipe", "anon_pipe_write": "until somebody reads from a pipe",
	"fifo_pipe_write": "until somebody reads from a pipe", "hrtimer_nanosleep": "for a time that it has set itself",
	"do_nanosleep": "for a time that it has set itself", "do_signal_stop": "to be continued (SIGCONT)",
	"ptrace_stop": "for a debugger", "sk_stream_wait_memory": "until a TCP connection takes what it sends",
	"sock_alloc_send_pskb": "until a socket takes what it sends", "n_tty_write": "for its terminal",
	"futex_do_wait": "for another thread", "futex_wait_queue": "for another thread", "do_wait": "for a child process",
	"do_exit": "to be taken away", "io_schedule": "for a disk", "folio_wait_bit_common": "for a disk",
}

// waitsIn adds what the only thread of a reader waits for.
func (s *suspect) waitsIn(function string) {
	if function == "" {
		return
	}
	s.say += "; its only thread sleeps in " + function
	if what, known := waits[function]; known {
		s.say += ": it waits " + what
	}
}

// minClosed is the rate, per second, of TCP windows closing from which on slow readers hold the path back.
const minClosed = 1

// slowReaders blames applications that leave the receive queues of their TCP connections full: windows close, and the
// senders wait. Nothing is lost by it.
func slowReaders(p *path) []suspect {
	closed, full := p.rate(float64(p.l.Sockets.WindowsClosed)), p.l.Sockets.Full
	if closed < minClosed || len(full) == 0 {
		return nil
	}
	one := &full[0]
	f := suspect{kind: Socket, object: socketName("TCP socket", one), strength: 0.72,
		keys: []string{"socket:tcp"}, say: fmt.Sprintf("windows of TCP connections close %s times a second, and their "+
			"senders wait", amount(closed)),
		evidence: []Evidence{{"windows that were closed", closed, "times/s", "/proc/net/netstat, TCPToZeroWindowAdv"},
			{"fill of the fullest receive queue at the end", one.Queued, "share", "sock_diag"}},
		advice: "a faster application, or more of its threads; a longer buffer (net.ipv4.tcp_rmem) helps only bursts",
	}
	var t *facts.ThreadLoad
	if one.PID != 0 {
		t = p.busiestOfProcess(one.PID)
	}
	if t != nil && p.heldBack(t) {
		if c, is := p.heldUp(t, f); is {
			return []suspect{c}
		}
	}
	explainReader(&f, t, one.Queued)
	if f.kind == Socket {
		f.waitsIn(one.Waits)
	}
	return []suspect{f}
}

// unread returns a TCP connection that nobody reads; nil if there is none. On a path with traffic it proves nothing:
// programs may leave connections unread.
func (p *path) unread() *facts.LosingSocket {
	return facts.Find(p.l.Sockets.Full, func(s *facts.LosingSocket) bool { return s.Unread })
}

// neverRead blames the program of a connection that nobody reads, on a path that has no other traffic.
func neverRead(s *facts.LosingSocket) suspect {
	f := suspect{kind: Socket, object: socketName("TCP socket", s), strength: 0.72, keys: []string{"socket:tcp"},
		say: fmt.Sprintf("the receive queue of a TCP connection is %s full, and nothing was read from it meanwhile: "+
			"its sender waits", percent(s.Queued)),
		advice: "see what the program does: it holds the connection and does not read"}
	f.show("fill of its receive queue", s.Queued, "share", "sock_diag")
	f.waitsIn(s.Waits)
	return f
}

// socketName names a socket by its program, where that is known.
func socketName(kind string, s *facts.LosingSocket) string {
	if s.PID == 0 {
		return fmt.Sprintf("%s (port %d)", kind, s.Port)
	}
	return fmt.Sprintf("%s (%d), port %d", s.Comm, s.PID, s.Port)
}

// narrowSockets blames receive buffers whose size a program has set and that hold no more than one round trip brings:
// the sender waits for room, and nothing is lost. The connection must carry a large part of the traffic.
func narrowSockets(p *path) []suspect {
	most := 0.0
	for d := range facts.Each(p.l.Devices) {
		most = max(most, p.bits(d))
	}
	for s := range facts.Each(p.l.Sockets.Narrow) {
		rate := p.rate(float64(s.Received))
		if 8*rate < 0.3*most {
			continue
		}
		f := suspect{kind: SocketBuffer, object: socketName("TCP socket", s), strength: 0.8,
			keys: []string{"socket:tcp"},
			say: fmt.Sprintf("a TCP connection has a receive buffer of %s bytes, which its program asked for: no more "+
				"comes in a round trip", amount(float64(s.Buffer))),
			advice: "do not set SO_RCVBUF: the buffer grows by itself then (net.ipv4.tcp_rmem)"}
		f.show("receive buffer", float64(s.Buffer), "bytes", "sock_diag")
		f.show("bytes received", rate, "bytes/s", "sock_diag, tcpi_bytes_received")
		f.show("round trip", s.RTT, "s", "sock_diag, tcpi_rtt")
		return []suspect{f}
	}
	return nil
}

// fullListeners blames programs that accept TCP connections too slowly: requests for new ones are dropped. No drop
// reason shows these while the queue of the listening socket is full.
func fullListeners(p *path) []suspect {
	lost, received := float64(p.l.Sockets.TCPListen), 0.0
	for _, l := range p.l.Local {
		received += float64(l.Received)
	}
	share := shareOf(lost, max(received-lost, 0))
	if share < facts.MinLossShare || p.rate(lost) < minOwnLoss {
		return nil
	}
	f := suspect{kind: Socket, object: "listening TCP socket", strength: 0.85, lost: lost, share: share,
		keys: []string{"socket:listen"},
		say: fmt.Sprintf("%s requests for new TCP connections a second are dropped: a program does not accept as "+
			"many, and its queue is full", amount(p.rate(lost))),
		advice: "have the program accept faster; a longer queue (its backlog, net.core.somaxconn) helps only bursts",
	}
	f.show("requests that are dropped", p.rate(lost), "packets/s", "/proc/net/netstat, ListenDrops")
	return []suspect{f}
}

// packetSocketName names a packet socket by its program, where that is known.
func packetSocketName(s *facts.LosingSocket) string {
	if s.PID == 0 {
		return "packet socket"
	}
	return fmt.Sprintf("packet socket of %s (%d)", s.Comm, s.PID)
}

// takenIn reports whether packet sockets take all packets of a namespace that has no address and a single device, so
// that it forwards none (unlike one with a bridge): what its network layer drops are copies.
func (p *path) takenIn(netns string) bool {
	sent, edges := 0.0, 0
	for d := range facts.Each(p.l.Devices) {
		if d.Netns == netns && edge(d) {
			sent, edges = sent+float64(d.TxPackets), edges+1
		}
	}
	in := p.receivedIn(netns)
	taking := slices.ContainsFunc(p.l.Sockets.Taking, func(s facts.LosingSocket) bool { return s.Netns == netns })
	return taking && in > 0 && edges == 1 && sent < minOfOurs*in
}

// explainReader adds to a suspect with overflowing receive buffers what their reader does. t is nil if it is unknown.
func explainReader(f *suspect, t *facts.ThreadLoad, queued float64) {
	switch {
	case t != nil && t.Throttle >= minThrottle:
		f.strength, f.object = 0.9, label(t)
		f.say += fmt.Sprintf(": the cgroup of %s is held back %s of the time", label(t), percent(t.Throttle))
		f.advice = "raise or take away the quota: cpu.max of its cgroup"
		f.show("share of the time that its cgroup was throttled", t.Throttle, "share", "cpu.stat")
	case queued < 0.1 && (t == nil || t.Ran < 0.8):
		f.kind, f.strength = SocketBuffer, 0.76
		f.say += ", though the application has read them empty at the end: bursts are longer than the buffer"
		if t != nil && t.Waited >= minWait { // then packets that come steadily are a burst too
			f.strength = 0.6
			f.say += fmt.Sprintf(", or become too long while %s waits for a CPU (%s of the time)", label(t),
				percent(t.Waited))
			f.show("share of the time that "+label(t)+" waited for a CPU", t.Waited, "share", schedstat(t))
		}
	case t != nil:
		f.strength, f.object = 0.9, label(t)
		f.say += fmt.Sprintf(": %s is at %s of a CPU", label(t), percent(t.Ran))
		switch {
		case t.Waited >= minWait:
			f.strength = 0.75
			f.say += fmt.Sprintf(" and waits for one %s of the time", percent(t.Waited))
		case t.Ran < 0.5:
			f.say += ", and does not come to read"
		}
		f.showUse(t, t.Ran)
	case queued >= 0.5:
		f.strength = 0.86
		f.say += ", and they are still full at the end: the application does not read fast enough"
	}
	if t != nil && t.Role == "mpps" && f.kind == Socket {
		f.kind, f.object = Receiver, label(t)
		f.say += ": that is the measurement's own receiver"
	}
}

// losing returns the UDP socket with the highest loss, if it has most of a loss; nil if none is known.
func (p *path) losing(s loss) *facts.LosingSocket {
	if all := p.l.Sockets.Losing; len(all) > 0 && float64(all[0].Drops) >= s.packets/2 {
		return &all[0]
	}
	return nil
}

// busiestOfProcess returns the thread of a process that needs most of a CPU; nil if none is in the load.
func (p *path) busiestOfProcess(pids ...int) *facts.ThreadLoad {
	return most(facts.Each(p.l.Threads), func(t *facts.ThreadLoad) float64 {
		if !slices.Contains(pids, t.PID) {
			return -1
		}
		return demand(t)
	})
}

// heldUp returns what takes the CPU that a reader waits for, as the suspect for the reader's losses.
func (p *path) heldUp(t *facts.ThreadLoad, lost suspect) (suspect, bool) {
	f, is := p.contention(t)
	if !is {
		return f, false
	}
	f.stage = cmp.Or(lost.stage, About(lost.kind).Stage)
	f.lost, f.share = lost.lost, lost.share
	f.keys = append(f.keys, lost.keys...)
	f.evidence = append(f.evidence, lost.evidence...)
	f.say += ": " + lost.say
	if !p.waiting(t) { // it may sleep by itself
		f.strength = min(f.strength, 0.7)
	}
	if f.kind == CPUHog {
		f.knobs = []string{"placement.reserve", "boot.isolcpus"}
	}
	return f, true
}

// packetSockets blames the measurement's receiver if its AF_PACKET ring overflows.
func packetSockets(p *path) (found []suspect) {
	for s := range facts.Each(p.l.Sockets.Taking) {
		lost := float64(s.Drops)
		share := shareOf(lost, max(p.receivedIn(s.Netns)-lost, 0))
		if !p.takenIn(s.Netns) || share < facts.MinLossShare || p.rate(lost) < minOwnLoss {
			continue
		}
		f := suspect{kind: Socket, object: packetSocketName(s), strength: 0.8, lost: lost, share: share,
			keys: []string{"packet-socket:" + s.Netns},
			say: fmt.Sprintf("a packet socket loses %s of what arrives: the namespace has no address, and the socket "+
				"takes its packets", percent(share)),
			advice: "a faster application, more of its threads (PACKET_FANOUT), a ring (PACKET_RX_RING) or AF_XDP"}
		f.show("lost at its receive buffer", p.rate(lost), "packets/s", "sock_diag")
		if t := p.busiestOfProcess(s.PID); s.PID != 0 && t != nil && (t.Throttle >= minThrottle || p.heldBack(t)) {
			if c, is := p.heldUp(t, f); is && t.Throttle < minThrottle {
				found = append(found, c)
				continue
			}
			explainReader(&f, t, 1)
		}
		f.waitsIn(s.Waits)
		found = append(found, f)
	}
	for _, s := range p.lossesAt(atPacket) {
		t := most(facts.Each(p.l.Threads), func(t *facts.ThreadLoad) float64 {
			if use := t.Ran + t.Throttle; t.Role == "mpps" && use >= 0.1 {
				return use
			}
			return -1
		})
		if t == nil || s.share < 0.01 {
			continue // packets that only a capture misses are not lost
		}
		f := suspect{
			kind: Receiver, object: label(t), strength: 0.85, lost: s.packets, share: s.share,
			keys: []string{"packet-socket"},
			say:  fmt.Sprintf("the measurement's receiver loses %s of the packets that reach it", percent(s.share)),
		}
		f.show("lost at its socket", p.rate(s.packets), "packets/s", s.source)
		f.showUse(t, t.Ran)
		found = append(found, f)
	}
	return found
}

// sends reports whether a thread may be one that sends test packets.
func sends(t *facts.ThreadLoad) bool { return t.Role == "pktgen" || t.Role == "mpps" }

// generators blames senders that cannot send faster. They rank last: only if nothing on the path is full.
func generators(p *path) (found []suspect) {
	for t := range facts.Each(p.l.Threads) {
		if !sends(t) {
			continue
		}
		at := cpuOf(t)
		f := suspect{kind: Generator, object: label(t), keys: []string{cpuKey(at)}}
		f.showUse(t, t.Ran)
		switch {
		case t.Throttle >= minThrottle:
			f.strength = 0.9
			f.say = fmt.Sprintf("the generator %s is held back by its cgroup %s of the time", label(t),
				percent(t.Throttle))
			f.show("share of the time that its cgroup was throttled", t.Throttle, "share", "cpu.stat")
		case t.Waited >= 0.2 && t.Ran+t.Waited >= threadFull:
			f.strength = 0.82
			f.say = fmt.Sprintf("the generator %s waits %s of the time for CPU %d", label(t), percent(t.Waited), at)
			f.show("share of the time that it waited for a CPU", t.Waited, "share", schedstat(t))
		case t.Ran >= threadFull, t.Ran >= 0.5 && t.Ran+t.Waited >= threadFull:
			f.strength = 0.78
			f.say = fmt.Sprintf("the generator %s is at %s of CPU %d, and nothing behind it is full", label(t),
				percent(t.Ran), at)
			if share := p.softirqUse(at); share >= 0.3 { // packets are received in their sender's time
				f.strength = 0.68
				f.say += fmt.Sprintf("; %s of that CPU is the path's own", percent(share))
			}
		default:
			continue
		}
		found = append(found, f)
	}
	return keepStrongest(found)
}
