package load

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/probe"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
)

// xdpName returns the name of an XDP program by its number; empty if it cannot be determined (without root).
func xdpName(id uint32) string {
	if id == 0 {
		return ""
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return ""
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return ""
	}
	return info.Name
}

// addOwners adds the processes that own sockets and taps that lost packets. It searches the processes only if there are
// such, and stops once that took more CPU time than allowed.
func (w *Watch) addOwners(l *facts.Load, before, after fullLook, allowed time.Duration) {
	sockets, raw := map[string]*facts.LosingSocket{}, map[string]*facts.LosingSocket{} // by links in /proc/PID/fd
	for name, space := range after.spaces {
		addLosing(sockets, "", before.spaces[name].sockets.udp, space.sockets.udp)
		addLosing(raw, name, before.spaces[name].sockets.raw, space.sockets.raw)
	}
	maps.Copy(sockets, raw)
	full, narrow := tcpSockets(before, after)
	maps.Copy(sockets, full)
	maps.Copy(sockets, narrow)
	taking := takingSockets(before, after)
	maps.Copy(sockets, taking)
	taps := losingTaps(l, after)
	if len(sockets)+len(taps) == 0 {
		return
	}
	begun := probe.ThreadTime()
	for _, pid := range w.processes(slices.Sorted(maps.Keys(after.spaces))) {
		name := strconv.Itoa(pid)
		if probe.ThreadTime()-begun > allowed {
			l.Unseen = append(l.Unseen, facts.Unseen{What: "owners of the sockets and taps that lost packets",
				Why: "there was no time to look at all processes; watch longer"})
			break
		}
		for _, fd := range w.tree.List("proc/" + name + "/fd") {
			to := w.tree.Target("proc/" + name + "/fd/" + fd)
			if s := sockets[to]; s != nil && s.PID == 0 {
				s.PID, s.Comm, s.Waits = pid, trust.Name(w.tree, pid, pid), w.sleepsIn(name)
			}
			d := taps[to]
			if len(taps) > 0 && to == "tun" {
				text, _ := w.tree.Read("proc/" + name + "/fdinfo/" + fd) // empty if it has ended
				_, rest, _ := strings.Cut(text, "iff:")
				rest, _, _ = strings.Cut(rest, "\n")
				d = taps["iff:"+strings.TrimSpace(rest)]
			}
			if d != nil && !slices.Contains(d.Held, pid) {
				d.Held, d.HeldWaits = append(d.Held, pid), w.sleepsIn(name)
			}
		}
	}
	for inode, s := range sortedSockets(sockets) {
		into := &l.Sockets.Losing
		switch {
		case full[inode] != nil:
			into = &l.Sockets.Full
		case narrow[inode] != nil:
			into = &l.Sockets.Narrow
		case taking[inode] != nil:
			into = &l.Sockets.Taking
		case raw[inode] != nil:
			into = &l.Sockets.Raw
		}
		*into = append(*into, *s)
	}
}

// addReceivers adds which processes of mpps receive at a device, by the packet sockets that they have bound to it.
func (w *Watch) addReceivers(l *facts.Load, after fullLook) {
	bound := map[string]*facts.DeviceLoad{} // by links in /proc/PID/fd
	for name, space := range after.spaces {
		for inode, p := range space.sockets.packet {
			if d := facts.Find(l.Devices, func(d *facts.DeviceLoad) bool {
				return d.Netns == name && d.Name == space.devices[p.device].name
			}); d != nil {
				bound[socketLink(inode)] = d
			}
		}
	}
	looked := map[int]bool{}
	for _, t := range l.Threads {
		if len(bound) == 0 || t.Role != "mpps" || looked[t.PID] {
			continue
		}
		looked[t.PID] = true
		dir := "proc/" + strconv.Itoa(t.PID) + "/fd"
		for _, fd := range w.tree.List(dir) {
			if d := bound[w.tree.Target(dir+"/"+fd)]; d != nil && !slices.Contains(d.Held, t.PID) {
				d.Held = append(d.Held, t.PID)
			}
		}
	}
}

// processes returns the IDs of all processes, first those in the other watched network namespaces: sockets there mostly
// belong to them, and the search may end before it has seen all.
func (w *Watch) processes(spaces []string) (pids []int) {
	inside := map[string]bool{} // by links in /proc/PID/ns
	for _, name := range spaces {
		var st unix.Stat_t
		if name != "" && unix.Stat(w.spaceFile(name), &st) == nil {
			inside[fmt.Sprintf("net:[%d]", st.Ino)] = true
		}
	}
	var rest []int
	for _, name := range w.tree.List("proc") {
		pid, err := strconv.Atoi(name)
		switch {
		case err != nil:
		case len(inside) > 0 && inside[w.tree.Target("proc/"+name+"/ns/net")]:
			pids = append(pids, pid)
		default:
			rest = append(rest, pid)
		}
	}
	return append(pids, rest...)
}

// addLosing adds the sockets that lost packets between two looks, by links in /proc/PID/fd.
func addLosing(all map[string]*facts.LosingSocket, netns string, before, after map[uint32]udpLook) {
	for inode, b := range after {
		if drops := b.drops - before[inode].drops; drops >= facts.MinLostPackets && drops < 1<<31 { // it wraps
			all[socketLink(inode)] = &facts.LosingSocket{Netns: netns, Port: b.port, Drops: uint64(drops),
				Queued: b.queued}
		}
	}
}

// losingTaps returns the taps of programs, not guests, that lost packets. The key is "iff:NAME" as in the descriptor's
// fdinfo, or for a macvtap its file tapN, with the device's index (drivers/net/macvtap.c, macvtap_device_event).
func losingTaps(l *facts.Load, after fullLook) map[string]*facts.DeviceLoad {
	taps := map[string]*facts.DeviceLoad{}
	for d := range facts.Each(l.Devices) {
		if _, lost := d.ToProgram(); d.Kind != "tap" || d.Guest != "" || lost < facts.MinLostPackets {
			continue
		}
		if !d.Macvtap {
			taps["iff:"+d.Name] = d
			continue
		}
		for index, device := range after.spaces[d.Netns].devices {
			if device.name == d.Name {
				taps["tap"+strconv.Itoa(index)] = d
			}
		}
	}
	return taps
}

// sleepsIn returns the function of the kernel in which the only thread of a process sleeps; empty if it has several,
// runs, or waits for packets or events.
func (w *Watch) sleepsIn(pid string) string {
	if len(w.tree.List("proc/"+pid+"/task")) != 1 {
		return ""
	}
	text, _ := w.tree.Read("proc/" + pid + "/wchan") // empty if it has ended
	at := strings.TrimSpace(text)
	for _, reads := range []string{"__skb_wait_for_more_packets", "sk_wait_data", "wait_woken", "poll", "ep_poll",
		"do_poll", "do_select", "do_sys_poll", "schedule_hrtimeout"} {
		if strings.HasPrefix(at, reads) {
			return ""
		}
	}
	if at == "0" { // it runs, or this process may not see it
		return ""
	}
	return at
}

// maxFull is the most TCP sockets with full receive queues that are reported.
const maxFull = 8

// tcpSockets returns the TCP sockets with the fullest receive queues, and those of the others with a narrow buffer, by
// links in /proc/PID/fd.
func tcpSockets(before, after fullLook) (full, narrow map[string]*facts.LosingSocket) {
	full, narrow = map[string]*facts.LosingSocket{}, map[string]*facts.LosingSocket{}
	seconds := after.at.Sub(before.at).Seconds()
	for name, space := range after.spaces {
		earlier := before.spaces[name].sockets
		for inode, b := range space.sockets.tcp {
			a, known := earlier.tcp[inode]
			s := &facts.LosingSocket{Port: b.port, Queued: b.queued}
			unread := known && b.unread > 0 && b.unread == a.unread && b.received == a.received
			switch {
			case b.queued >= 0.5 && (unread || space.sockets.closed > earlier.closed):
				s.Unread = unread
				full[socketLink(inode)] = s
			case known && seconds > 0 && b.narrow(a, seconds):
				s.Buffer, s.Received, s.RTT = uint64(b.buffer), b.received-a.received, float64(b.rtt)/1e6
				narrow[socketLink(inode)] = s
			}
		}
	}
	for _, all := range []map[string]*facts.LosingSocket{full, narrow} {
		n := 0
		for inode := range sortedSockets(all) {
			if n++; n > maxFull {
				delete(all, inode)
			}
		}
	}
	return full, narrow
}

// takingSockets returns the AF_PACKET sockets that receive all packets in namespaces without an address, by links in
// /proc/PID/fd.
func takingSockets(before, after fullLook) map[string]*facts.LosingSocket {
	all := map[string]*facts.LosingSocket{}
	for name, space := range after.spaces {
		if !space.sockets.bare {
			continue
		}
		for inode, b := range space.sockets.packet {
			if a, known := before.spaces[name].sockets.packet[inode]; known && a.all && b.all {
				all[socketLink(inode)] = &facts.LosingSocket{Netns: name, Drops: facts.Increase(a.drops, b.drops)}
			}
		}
	}
	return all
}

func socketLink(inode uint32) string { return "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]" }

// sortedSockets yields sockets, the highest loss first, then the most bytes received, then the fullest queue.
func sortedSockets(all map[string]*facts.LosingSocket) iter.Seq2[string, *facts.LosingSocket] {
	inodes := slices.SortedFunc(maps.Keys(all), func(x, y string) int {
		a, b := all[x], all[y]
		return cmp.Or(cmp.Compare(b.Drops, a.Drops), cmp.Compare(b.Received, a.Received),
			cmp.Compare(b.Queued, a.Queued), cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.PID, b.PID), cmp.Compare(x, y))
	})
	return func(yield func(string, *facts.LosingSocket) bool) {
		for _, inode := range inodes {
			if !yield(inode, all[inode]) {
				return
			}
		}
	}
}
