package bottleneck

import (
	"cmp"
	"slices"
	"time"

	"mpps/internal/model/facts"
)

// LookSchema is the version of a line of mpps top --json.
const LookSchema = "mpps.top/1"

// Look is the path during one interval: every station with its parts, and what holds the path back.
type Look struct {
	Schema    string           `json:"schema"`
	At        time.Time        `json:"time"`
	Host      string           `json:"host"`
	Seconds   float64          `json:"seconds"` // length of the interval
	Method    facts.LoadMethod `json:"method"`
	CostMS    float64          `json:"cost_ms"` // CPU time that watching took
	CPUs      []facts.CPULoad  `json:"cpus"`
	Stations  []Station        `json:"stations"`  // in path order
	Diagnosis *Diagnosis       `json:"diagnosis"` // null: not possible
	Unseen    []facts.Unseen   `json:"unseen"`
}

// Station is one place that packets pass, with its queues, threads or CPUs. It is one object, unlike Stage, which shows
// the busiest object of a stage.
type Station struct {
	// nic, overlay, softirq, netfilter, conntrack, pmd, qdisc, bridge, tap, vhost, emulator, vcpu, guest, socket, vf,
	// veth, beside
	Stage string `json:"stage"`
	Name  string `json:"name"` // "eth0", "rx 3", "vhost-2113", "CPU 4"
	Guest string `json:"guest,omitempty"`

	In  float64 `json:"to_guest_pps"` // packets per second towards guests and applications; −1: not counted here
	Out float64 `json:"to_wire_pps"`  // packets per second towards the wire; −1: not counted here

	Use float64 `json:"use"` // how busy, 0–1; −1: not known
	// what Use is a share of: "10 Gbit/s", "CPU 17", "quota of 0.5 CPUs"; empty: the interval
	Of    string     `json:"of"`
	Waits []Evidence `json:"saturation"`
	Lost  []Evidence `json:"errors"`   // packets per second by counter; some count the same packet twice
	Loss  float64    `json:"lost_pps"` // packets per second lost here, each once as far as is known

	Parts []Station `json:"parts"`
}

// PPS returns the packets per second in both directions; 0 if they are not counted.
func (s *Station) PPS() float64 { return max(s.In, 0) + max(s.Out, 0) }

// Idle reports whether the station did nothing of interest. A polling thread without figures does not count as idle.
func (s *Station) Idle() bool {
	silent := s.Stage == "pmd" && s.Use < 0
	return !silent && s.PPS() < 1 && s.Use < 0.005 && s.Loss == 0 && len(s.Waits)+len(s.Lost) == 0
}

// station returns a station without any figures.
func station(stage, name string) Station {
	return Station{Stage: stage, Name: name, In: -1, Out: -1, Use: -1}
}

// wait adds a figure to the saturation.
func (s *Station) wait(what string, value float64, unit, source string) {
	s.Waits = append(s.Waits, Evidence{what, value, unit, source})
}

// add adds a part. The station's use is that of its busiest part.
func (s *Station) add(part Station) {
	if part.Use > s.Use {
		s.Use, s.Of = part.Use, part.Of
	}
	s.Parts = append(s.Parts, part)
}

// Stations returns all stations of a host in path order: from NICs over softirqs and bridges to guests, each guest
// after the bridge of its tap, then those on no such path.
func Stations(h *facts.Host, l *facts.Load) []Station {
	b := &stations{host: h, load: l, added: map[string]bool{}}
	b.addKind("nic", "nic")
	b.addKind("tunnel", "overlay")
	b.addSoftirqs()
	b.addProfiled("netfilter", "conntrack")
	b.addPolled()
	for _, d := range l.Devices {
		if d.Kind != "bridge" {
			continue
		}
		b.all = append(b.all, b.bridge(d))
		for _, t := range b.tapsOf(d) {
			b.addTap(t)
		}
	}
	for _, d := range l.Devices {
		if d.Kind == "tap" {
			b.addTap(d)
		}
	}
	b.addKind("vf", "vf")
	b.addKind("veth", "veth")
	b.addKind("other", "device")
	b.addOtherGuests()
	b.addSockets("", l.Sockets)
	b.addBeside()
	return b.all
}

// stations collects the stations of a load.
type stations struct {
	host  *facts.Host
	load  *facts.Load
	all   []Station
	added map[string]bool // taps with their namespace, and guests, that all contains
}

// rate converts a count of the interval to a rate per second.
func (b *stations) rate(n uint64) float64 {
	if b.load.Seconds <= 0 {
		return 0
	}
	return float64(n) / b.load.Seconds
}

func (b *stations) addKind(kind, stage string) {
	for _, d := range b.load.Devices {
		if d.Kind == kind {
			b.all = append(b.all, b.device(stage, d))
		}
	}
}

// tapOf returns a tap of the inventory; the zero value if there is none of that name.
func (b *stations) tapOf(d facts.DeviceLoad) facts.Tap {
	if d.Netns != "" { // where the host's names do not count
		n := facts.Find(b.host.Namespaces, func(n *facts.Namespace) bool { return n.Title() == d.Netns })
		if n == nil {
			return facts.Tap{}
		}
		if tap := facts.Find(n.Devices, func(t *facts.Device) bool { return t.Name == d.Name }); tap != nil {
			return facts.Tap{Name: tap.Name, Type: "tap", Master: tap.Master}
		}
		return facts.Tap{}
	}
	if t := facts.Find(b.host.Taps, func(t *facts.Tap) bool { return t.Name == d.Name }); t != nil {
		return *t
	}
	return facts.Tap{}
}

// tapsOf returns the taps that are ports of a bridge.
func (b *stations) tapsOf(bridge facts.DeviceLoad) []facts.DeviceLoad {
	return facts.Where(b.load.Devices, func(d facts.DeviceLoad) bool {
		return d.Kind == "tap" && d.Netns == bridge.Netns && b.tapOf(d).Master == bridge.Name
	})
}

func (b *stations) guestOf(tap facts.DeviceLoad) string {
	return cmp.Or(tap.Guest, b.tapOf(tap).Guest)
}

func (b *stations) bridge(d facts.DeviceLoad) Station {
	s := b.device("bridge", d)
	// its own counters have only packets for the host itself (br_pass_frame_up in net/bridge/br_input.c)
	s.In, s.Out = -1, -1
	b.addProfile(&s, "bridge")
	for _, t := range b.tapsOf(d) { // its taps' packets are those that it forwards to and from guests
		to, _ := t.ToProgram()
		s.In = max(s.In, 0) + b.rate(to)
		s.Out = max(s.Out, 0) + b.rate(t.FromProgram())
	}
	return s
}

// addTap adds a tap with its vhost threads, once, and its guest after the guest's last tap.
func (b *stations) addTap(d facts.DeviceLoad) {
	if b.added[d.Netns+"/"+d.Name] {
		return
	}
	b.added[d.Netns+"/"+d.Name] = true
	s := b.device("tap", d)
	s.Guest = b.guestOf(d)
	b.all = append(b.all, s)
	mac := b.mac(s.Guest, d.Name)
	b.addThreads("vhost", s.Guest, func(t *facts.ThreadLoad) bool {
		if slices.Contains(t.Devices, d.Name) && (s.Guest == "" || t.Guest == "" || t.Guest == s.Guest) {
			return true
		}
		return len(t.Devices) == 0 && s.Guest != "" && t.Guest == s.Guest && (t.NIC == mac || t.NIC == "")
	})
	if s.Guest != "" && !slices.ContainsFunc(b.load.Devices, func(o facts.DeviceLoad) bool {
		return o.Kind == "tap" && b.guestOf(o) == s.Guest && !b.added[o.Netns+"/"+o.Name]
	}) {
		b.addGuest(s.Guest)
	}
}

// mac returns the MAC address of the guest's NIC that a tap belongs to.
func (b *stations) mac(guest, tap string) string {
	for _, g := range b.host.Guests {
		if g.Name != guest {
			continue
		}
		for _, n := range g.NICs() {
			if n.Tap == tap {
				return n.MAC
			}
		}
	}
	return "\x00" // matches no thread; an empty one would match threads whose NIC is not known
}

// addOtherGuests adds guests without a tap: with VFs passed through, or a NIC of another kind.
func (b *stations) addOtherGuests() {
	var names []string
	for _, t := range b.load.Threads {
		if t.Guest != "" {
			names = append(names, t.Guest)
		}
	}
	for _, g := range b.load.Guests {
		names = append(names, g.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !b.added["guest "+name] {
			b.addThreads("vhost", name, func(t *facts.ThreadLoad) bool { return t.Guest == name })
			b.addGuest(name)
		}
	}
}

// addGuest adds a guest's threads and what its agent reported, once.
func (b *stations) addGuest(name string) {
	if b.added["guest "+name] {
		return
	}
	b.added["guest "+name] = true
	own := func(t *facts.ThreadLoad) bool { return t.Guest == name }
	b.addThreads("emulator", name, own)
	b.addThreads("vcpu", name, own)
	for g := range facts.Each(b.load.Guests) {
		if g.Name == name {
			b.addInside(g)
		}
	}
}

// addInside adds a guest's own view of itself.
func (b *stations) addInside(g *facts.GuestLoad) {
	in := stations{host: &facts.Host{}, load: &facts.Load{
		Seconds: b.load.Seconds, CPUs: g.CPUs, Devices: g.Devices, Softnet: g.Softnet,
	}, added: map[string]bool{}}
	in.addKind("nic", "guest")
	in.addKind("vf", "guest")
	in.addSoftirqs()
	in.addSockets(g.Name, g.Sockets)
	for _, s := range in.all {
		s.Guest = g.Name
		if s.Stage == "softirq" {
			s.Stage, s.Name = "guest", "softirqs"
		}
		b.all = append(b.all, s)
	}
}

// addSockets adds sockets if they received, lost or queued packets.
func (b *stations) addSockets(guest string, l facts.SocketLoad) {
	s := station("socket", "sockets")
	s.Guest = guest
	s.In, s.Out = b.rate(l.UDPIn), b.rate(l.UDPOut)
	b.addLost(&s, "receive_buffer_errors", l.ReceiveBuffer, true)
	b.addLost(&s, "send_buffer_errors", l.SendBuffer, true)
	b.addLost(&s, "no_port", l.NoPort, true)
	b.addLost(&s, "tcp_listen_drops", l.TCPListen, true)
	b.addLost(&s, "packet_socket_drops", l.PacketDrops, true)
	if l.Queued >= 0.1 {
		s.wait("fullest receive queue", l.Queued, "share", "sock_diag")
	}
	if s.PPS() > 0 || s.Loss > 0 || len(s.Waits) > 0 {
		b.all = append(b.all, s)
	}
}

// addLost adds a counter of lost packets unless it is 0. whole says that no other counter counts the same packets.
func (b *stations) addLost(s *Station, name string, n uint64, whole bool) {
	if n == 0 {
		return
	}
	s.Lost = append(s.Lost, Evidence{What: name, Value: b.rate(n), Unit: "packets/s", Source: s.Name})
	if whole {
		s.Loss += b.rate(n)
	}
}
