package bottleneck

import (
	"fmt"

	"mpps/internal/model/facts"
)

// reader is the thread that most likely reads the sockets that overflow: one whose cgroup is held back, or the
// measurement's own; nil where it is not known. That another thread is full proves nothing: who holds a socket is not
// seen.
func (k *look) reader() *facts.ThreadLoad {
	var found *facts.ThreadLoad
	for i := range k.l.Threads {
		t := &k.l.Threads[i]
		held := t.Role == "other" && t.Guest == "" && t.Throttle >= heldBack
		if !held && (t.Role != "mpps" || t.Ran+t.Waited < threadFull && t.Throttle < heldBack || t.Ran < 0.3 &&
			t.Throttle < heldBack) {
			continue
		}
		if found == nil || t.Throttle > found.Throttle || t.Throttle == found.Throttle && t.Ran > found.Ran {
			found = t
		}
	}
	return found
}

// sockets are receive buffers that overflow: those that are empty again at the end are too short, those that stay full
// are not read.
func sockets(k *look) (found []suspect) {
	for _, s := range k.lost(atSocket) {
		f := suspect{
			kind: Socket, object: "UDP socket", strength: 0.72, lost: s.packets, share: s.share,
			keys: []string{"socket"},
			say:  fmt.Sprintf("receive buffers lose %s of what reaches them", percent(s.share)),
			evidence: []Evidence{{"lost at receive buffers", k.rate(s.packets), "packets/s", s.source},
				{"fill of the fullest buffer at the end", k.l.Sockets.Queued, "share", "/proc/net/udp"}},
		}
		t := k.reader()
		switch {
		case t != nil && t.Throttle >= heldBack:
			f.strength, f.object = 0.9, label(t)
			f.say += fmt.Sprintf(": the cgroup of %s is held back %s of the time", label(t), percent(t.Throttle))
			f.evidence = append(f.evidence, Evidence{"share of the time that its cgroup was throttled", t.Throttle,
				"share", "cpu.stat"})
		case k.l.Sockets.Queued < 0.1 && (t == nil || t.Ran < 0.8):
			f.kind, f.strength = SocketBuffer, 0.76
			f.say += ", though the application has read them empty at the end: bursts are longer than the buffer"
		case t != nil:
			f.strength, f.object = 0.9, label(t)
			f.say += fmt.Sprintf(": %s is at %s of a CPU", label(t), percent(t.Ran))
			f.evidence = append(f.evidence, Evidence{"share of a CPU that " + label(t) + " used", t.Ran, "share",
				schedstat(t)})
		case k.l.Sockets.Queued >= 0.5:
			f.strength = 0.86
			f.say += ", and they are still full at the end: the application does not read fast enough"
		}
		if t != nil && t.Role == "mpps" && f.kind == Socket {
			f.kind, f.object = Receiver, label(t)
			f.say += ": that is the measurement's own receiver"
		}
		found = append(found, f)
	}
	return found
}

// packetSockets are rings of AF_PACKET sockets that overflow: a measurement's receiver, or somebody who looks on.
func packetSockets(k *look) (found []suspect) {
	for _, s := range k.lost(atPacket) {
		var t *facts.ThreadLoad
		for i := range k.l.Threads {
			if o := &k.l.Threads[i]; o.Role == "mpps" && o.Ran+o.Throttle >= 0.1 &&
				(t == nil || o.Ran+o.Throttle > t.Ran+t.Throttle) {
				t = o
			}
		}
		if t == nil || s.share < 0.01 {
			continue // what a bystander does not get is lost to nobody else
		}
		found = append(found, suspect{
			kind: Receiver, object: label(t), strength: 0.85, lost: s.packets, share: s.share,
			keys: []string{"packet-socket"},
			say:  fmt.Sprintf("the measurement's receiver loses %s of the packets that reach it", percent(s.share)),
			evidence: []Evidence{
				{"lost at its socket", k.rate(s.packets), "packets/s", s.source},
				{"share of a CPU that " + label(t) + " used", t.Ran, "share", schedstat(t)},
			},
		})
	}
	return found
}

// generators are senders that cannot send any faster. They are named only where nothing of the path is full.
func generators(k *look) (found []suspect) {
	for i := range k.l.Threads {
		t := &k.l.Threads[i]
		if t.Role != "pktgen" && t.Role != "mpps" {
			continue
		}
		at := where(t)
		f := suspect{
			kind: Generator, object: label(t), keys: []string{fmt.Sprintf("cpu:%d", at)},
			evidence: []Evidence{{"share of a CPU that " + label(t) + " used", t.Ran, "share", schedstat(t)}},
		}
		switch {
		case t.Throttle >= heldBack:
			f.strength = 0.9
			f.say = fmt.Sprintf("the generator %s is held back by its cgroup %s of the time", label(t),
				percent(t.Throttle))
			f.evidence = append(f.evidence, Evidence{"share of the time that its cgroup was throttled", t.Throttle,
				"share", "cpu.stat"})
		case t.Waited >= 0.2 && t.Ran+t.Waited >= threadFull:
			f.strength = 0.82
			f.say = fmt.Sprintf("the generator %s waits %s of the time for CPU %d", label(t), percent(t.Waited), at)
			f.evidence = append(f.evidence, Evidence{"share of the time that it waited for a CPU", t.Waited, "share",
				schedstat(t)})
		case t.Ran >= threadFull, t.Ran >= 0.5 && t.Ran+t.Waited >= threadFull:
			f.strength = 0.78
			f.say = fmt.Sprintf("the generator %s is at %s of CPU %d, and nothing behind it is full", label(t),
				percent(t.Ran), at)
			if share := k.handling(at); share >= 0.3 { // a packet is received in the time of who sends it
				f.strength = 0.68
				f.say += fmt.Sprintf("; %s of that CPU is the path's own", percent(share))
			}
		default:
			continue
		}
		found = append(found, f)
	}
	return strongest(found)
}
