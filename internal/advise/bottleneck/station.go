package bottleneck

import (
	"cmp"
	"slices"
	"time"

	"mpps/internal/model/facts"
)

// LookSchema is the version of a line of mpps top --json.
const LookSchema = "mpps.top/1"

// Look is the path at one moment: every station with its parts, and what holds the path back, from one interval.
type Look struct {
	Schema    string           `json:"schema"`
	At        time.Time        `json:"time"`
	Host      string           `json:"host"`
	Seconds   float64          `json:"seconds"` // that were watched
	Method    facts.LoadMethod `json:"method"`
	CostMS    float64          `json:"cost_ms"` // CPU time that watching took
	CPUs      []facts.CPULoad  `json:"cpus"`
	Stations  []Station        `json:"stations"`  // in path order
	Diagnosis *Diagnosis       `json:"diagnosis"` // null: could not be told
	Unseen    []facts.Unseen   `json:"unseen"`
}

// Station is one place that packets pass, with the queues, threads or CPUs that it is made of. Unlike Stage, which has
// the busiest object of a stage, it is one object.
type Station struct {
	// nic, overlay, softirq, netfilter, conntrack, qdisc, bridge, tap, vhost, emulator, vcpu, guest, socket, vf, veth,
	// beside
	Stage string `json:"stage"`
	Name  string `json:"name"` // "eth0", "rx 3", "vhost-2113", "CPU 4"
	Guest string `json:"guest,omitempty"`

	In  float64 `json:"to_guest_pps"` // packets per second towards guests and applications; −1: not counted here
	Out float64 `json:"to_wire_pps"`  // packets per second towards the wire; −1: not counted here

	Use float64 `json:"use"` // how busy, 0–1; −1: not known
	// what Use is a share of: "10 Gbit/s", "CPU 17", "quota of 0.5 CPUs"; empty: of its interval
	Of    string     `json:"of"`
	Waits []Evidence `json:"saturation"`
	Lost  []Evidence `json:"errors"`   // packets per second by counter; some count the same packet twice
	Loss  float64    `json:"lost_pps"` // packets per second that went no further here, each once as far as is known

	Parts []Station `json:"parts"`
}

// PPS is how many packets per second pass in both directions; 0 where it is not counted.
func (s *Station) PPS() float64 { return max(s.In, 0) + max(s.Out, 0) }

// Idle reports whether nothing happened there that anybody would look at.
func (s *Station) Idle() bool {
	return s.PPS() < 1 && s.Use < 0.005 && s.Loss == 0 && len(s.Waits)+len(s.Lost) == 0
}

// station is one of a stage of which nothing is known yet.
func station(stage, name string) Station {
	return Station{Stage: stage, Name: name, In: -1, Out: -1, Use: -1}
}

// Stations are all places of a host's path in path order: from NICs over softirqs and bridges to guests, each guest's
// behind the bridge that its tap is on, then what is on no such path.
func Stations(h *facts.Host, l *facts.Load) []Station {
	b := &stations{host: h, load: l, drawn: map[string]bool{}}
	b.kind("nic", "nic")
	b.kind("tunnel", "overlay")
	b.softirqs()
	b.profiled("netfilter", "conntrack")
	for _, d := range l.Devices {
		if d.Kind != "bridge" {
			continue
		}
		b.all = append(b.all, b.bridge(d))
		for _, p := range l.Devices {
			if p.Kind == "tap" && d.Netns == p.Netns && b.master(p.Name) == d.Name {
				b.tap(p)
			}
		}
	}
	for _, d := range l.Devices {
		if d.Kind == "tap" {
			b.tap(d)
		}
	}
	b.kind("vf", "vf")
	b.kind("veth", "veth")
	b.kind("other", "device")
	b.guests()
	b.sockets("", "sockets", l.Sockets)
	b.beside()
	return b.all
}

// stations collects them.
type stations struct {
	host  *facts.Host
	load  *facts.Load
	all   []Station
	drawn map[string]bool // devices with their namespace, and threads' guests, that stand already
}

// rate is a count of the interval per second.
func (b *stations) rate(n uint64) float64 {
	if b.load.Seconds <= 0 {
		return 0
	}
	return float64(n) / b.load.Seconds
}

func (b *stations) kind(kind, stage string) {
	for _, d := range b.load.Devices {
		if d.Kind == kind {
			b.all = append(b.all, b.device(stage, d))
		}
	}
}

func (b *stations) master(tap string) string {
	for i := range b.host.Taps {
		if b.host.Taps[i].Name == tap {
			return b.host.Taps[i].Master
		}
	}
	return ""
}

func (b *stations) bridge(d facts.DeviceLoad) Station {
	s := b.device("bridge", d)
	s.In, s.Out = -1, -1 // it counts only what is for the host itself (br_pass_frame_up in net/bridge/br_input.c)
	b.spent(&s, "bridge")
	for _, p := range b.load.Devices { // what its taps take and give is what it forwards to and from guests
		if p.Kind == "tap" && p.Netns == d.Netns && b.master(p.Name) == d.Name {
			s.In = max(s.In, 0) + b.rate(p.TxPackets)
			s.Out = max(s.Out, 0) + b.rate(p.RxPackets)
		}
	}
	return s
}

// tap adds a tap with what serves it and the guest behind it; once.
func (b *stations) tap(d facts.DeviceLoad) {
	key := d.Netns + "/" + d.Name
	if b.drawn[key] {
		return
	}
	b.drawn[key] = true
	s := b.device("tap", d)
	s.Guest = cmp.Or(d.Guest, b.guestOf(d.Name))
	b.all = append(b.all, s)
	mac := b.mac(s.Guest, d.Name)
	b.threads("vhost", s.Guest, func(t *facts.ThreadLoad) bool {
		if slices.Contains(t.Devices, d.Name) {
			return true
		}
		return len(t.Devices) == 0 && s.Guest != "" && t.Guest == s.Guest && (t.NIC == mac || t.NIC == "")
	})
	if s.Guest != "" && b.lastTap(s.Guest, d) {
		b.guest(s.Guest)
	}
}

// lastTap reports whether no other tap of the guest is still to be drawn.
func (b *stations) lastTap(guest string, at facts.DeviceLoad) bool {
	for _, d := range b.load.Devices {
		if d.Kind == "tap" && cmp.Or(d.Guest, b.guestOf(d.Name)) == guest && !b.drawn[d.Netns+"/"+d.Name] {
			return false
		}
	}
	return true
}

func (b *stations) guestOf(tap string) string {
	for i := range b.host.Taps {
		if b.host.Taps[i].Name == tap {
			return b.host.Taps[i].Guest
		}
	}
	return ""
}

// mac is the address of the guest's NIC that a tap is of.
func (b *stations) mac(guest, tap string) string {
	for i := range b.host.Guests {
		if b.host.Guests[i].Name != guest {
			continue
		}
		for _, n := range b.host.Guests[i].NICs() {
			if n.Tap == tap {
				return n.MAC
			}
		}
	}
	return "\x00" // of none: an empty one would be that of every thread whose NIC is not known
}

// guests adds those that have no tap here: with functions passed through, or a NIC of another kind.
func (b *stations) guests() {
	var names []string
	for _, t := range b.load.Threads {
		if t.Guest != "" {
			names = append(names, t.Guest)
		}
	}
	for i := range b.load.Guests {
		names = append(names, b.load.Guests[i].Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !b.drawn["guest "+name] {
			b.threads("vhost", name, func(t *facts.ThreadLoad) bool { return t.Guest == name })
			b.guest(name)
		}
	}
}

// guest adds the threads of a guest and what it told of its inside; once.
func (b *stations) guest(name string) {
	if b.drawn["guest "+name] {
		return
	}
	b.drawn["guest "+name] = true
	own := func(t *facts.ThreadLoad) bool { return t.Guest == name }
	b.threads("emulator", name, own)
	b.threads("vcpu", name, own)
	for i := range b.load.Guests {
		if g := &b.load.Guests[i]; g.Name == name {
			b.inside(g)
		}
	}
}

// inside adds a guest as it sees itself.
func (b *stations) inside(g *facts.GuestLoad) {
	in := stations{host: &facts.Host{}, load: &facts.Load{
		Seconds: b.load.Seconds, CPUs: g.CPUs, Devices: g.Devices, Softnet: g.Softnet,
	}, drawn: map[string]bool{}}
	in.kind("nic", "guest")
	in.kind("vf", "guest")
	in.softirqs()
	in.sockets(g.Name, "sockets", g.Sockets)
	for _, s := range in.all {
		s.Guest = g.Name
		if s.Stage == "softirq" {
			s.Stage, s.Name = "guest", "softirqs"
		}
		b.all = append(b.all, s)
	}
}

// sockets adds them where they lost packets or have them waiting.
func (b *stations) sockets(guest, name string, l facts.SocketLoad) {
	s := station("socket", name)
	s.Guest = guest
	s.In, s.Out = b.rate(l.UDPIn), b.rate(l.UDPOut)
	for _, c := range []struct {
		name string
		n    uint64
	}{{"receive_buffer_errors", l.ReceiveBuffer}, {"send_buffer_errors", l.SendBuffer}, {"no_port", l.NoPort},
		{"tcp_listen_drops", l.TCPListen}, {"packet_socket_drops", l.PacketDrops}} {
		b.lost(&s, c.name, c.n, true)
	}
	if l.Queued >= 0.1 {
		s.Waits = append(s.Waits, Evidence{What: "fullest receive queue", Value: l.Queued, Unit: "share",
			Source: "sock_diag"})
	}
	if s.PPS() > 0 || s.Loss > 0 || len(s.Waits) > 0 {
		b.all = append(b.all, s)
	}
}

// lost adds a counter of lost packets that moved; whole says that no other counter counts the same packets.
func (b *stations) lost(s *Station, name string, n uint64, whole bool) {
	if n == 0 {
		return
	}
	s.Lost = append(s.Lost, Evidence{What: name, Value: b.rate(n), Unit: "packets/s", Source: s.Name})
	if whole {
		s.Loss += b.rate(n)
	}
}
