package load

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/link"
	"mpps/internal/machine/nicctl"
	"mpps/internal/machine/probe"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// spaceLook has the counters of one network namespace.
type spaceLook struct {
	devices map[int]deviceLook // by index
	sockets socketLook
	tracked trackLook
	stack   map[string]uint64 // by reach.Counter.Key
	asked   time.Time         // which devices are shared
	took    time.Duration     // reading them
}

// deviceLook has the counters of one device.
type deviceLook struct {
	name, kind string // kind as in facts.DeviceLoad
	driver     string
	xdp        string            // name of its XDP program
	stats      map[string]uint64 // of the kernel
	own        map[string]uint64 // the driver's own
	qdiscs     map[string]qdiscLook
	shared     bool // as in facts.DeviceLoad
	macvtap    bool
}

// readSpace reads the counters of a network namespace; nil: there is no earlier look.
func (w *Watch) readSpace(name string, before *fullLook) (spaceLook, []facts.Unseen) {
	now := spaceLook{devices: map[int]deviceLook{}}
	begun := time.Now()
	var missed []facts.Unseen
	where := ""
	if name != "" {
		where = " of network namespace " + name
	}
	missing := func(what string, err error) {
		if err != nil {
			missed = append(missed, facts.Unseen{What: what + where, Why: err.Error()})
		}
	}
	missing("devices", w.inNetns(name, func() error {
		if name != "" { // on another thread
			begun := probe.ThreadTime()
			defer func() { w.cost += probe.ThreadTime() - begun }()
		}
		links, err := link.LinkTable()
		if err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		shared, err := now.askShared(name, links, before)
		missing("MAC addresses that devices take frames for", err)
		for _, link := range links {
			d := deviceLook{name: link.Name, kind: w.kind(name, link), stats: link.Stats, shared: shared[link.Index],
				macvtap: link.Kind == "macvtap",
				xdp:     xdpName(link.XDPProgram), qdiscs: map[string]qdiscLook{}}
			if link.Kind == "" || link.Kind == "veth" {
				if driver, err := nicctl.ReadDriver(socket, link.Name); err == nil {
					d.driver, d.own = driver.Name, nicctl.Statistics(socket, link.Name, driver.Statistics)
				}
				if d.kind == "" && d.driver == "tun" {
					d.kind = "tap"
				}
			}
			now.devices[link.Index] = d
		}
		missing("queue disciplines", readQdiscs(now.devices))
		sockets, err := readSockets(w.tree)
		missing("sockets", err)
		if sockets.established <= maxCompared || before != nil && sockets.closed > before.spaces[name].sockets.closed {
			missing("receive queues of TCP", sockets.diagnoseTCP())
		}
		now.sockets = sockets
		now.tracked, err = readTracked(w.tree)
		missing("tracked connections", err)
		now.stack = link.ReadStack(w.tree, "proc/thread-self/net", stackCounters)
		return nil
	}))
	now.took = time.Since(begun)
	return now, missed
}

// askShared returns which devices take frames for other MAC addresses, by index. It asks once a minute, since each
// device takes its own netlink request, and reuses the earlier look's answers in between.
func (s *spaceLook) askShared(netns string, links []link.Device, before *fullLook) (map[int]bool, error) {
	if before != nil {
		if last := before.spaces[netns]; time.Since(last.asked) < time.Minute {
			shared := map[int]bool{}
			for index, d := range last.devices {
				shared[index] = d.shared
			}
			s.asked = last.asked
			return shared, nil
		}
	}
	s.asked = time.Now()
	return link.Shared(links)
}

// kind returns a device's role on the path; empty if it has none.
func (w *Watch) kind(netns string, d link.Device) string {
	switch {
	case d.Kind == "bridge" || d.Kind == "openvswitch":
		return "bridge"
	case link.IsTunnel(d.Kind):
		return "tunnel"
	case d.Kind == "tun" || d.Kind == "macvtap":
		return "tap"
	case d.Kind == "veth":
		return "veth"
	case d.Name == "lo":
		return ""
	case d.Kind != "":
		return "other"
	}
	if netns == "" {
		for i := range w.h.NICs {
			if n := &w.h.NICs[i]; n.Name == d.Name && n.PhysFn != "" {
				return "vf"
			}
		}
		if w.tree.Exists(path.Join(tree.ClassNet, d.Name, "device", "physfn")) {
			return "vf"
		}
	}
	return "nic"
}

// devicesBetween returns the load of a namespace's devices between two readings.
func (w *Watch) devicesBetween(netns string, before, after spaceLook, irqs []facts.IRQRun) []facts.DeviceLoad {
	all := []facts.DeviceLoad{}
	for _, index := range slices.Sorted(maps.Keys(after.devices)) {
		b := after.devices[index]
		a, was := before.devices[index]
		if b.kind == "" || was && a.name != b.name && a.kind != b.kind {
			continue
		}
		grown := func(name string) uint64 { return facts.Increase(a.stats[name], b.stats[name]) }
		d := facts.DeviceLoad{
			Name: b.name, Kind: b.kind, Netns: netns, XDP: b.xdp, Shared: b.shared, Macvtap: b.macvtap,
			RxPackets: grown("rx_packets"), TxPackets: grown("tx_packets"),
			RxBytes: grown("rx_bytes"), TxBytes: grown("tx_bytes"), Counters: map[string]uint64{}, SpeedMbps: -1,
			Queues: queuesBetween(a.own, b.own), Qdisc: qdiscsBetween(a.qdiscs, b.qdiscs),
		}
		for name := range b.stats {
			switch name {
			case "rx_packets", "tx_packets", "rx_bytes", "tx_bytes":
			default:
				if n := grown(name); n > 0 {
					d.Counters[name] = n
				}
			}
		}
		for name, n := range b.own {
			if _, kernels := b.stats[name]; kernels {
				continue
			}
			if _, unit, ofQueue := nicctl.OfQueue(name); ofQueue && (unit == "packets" || unit == "bytes" ||
				unit == "cnt") {
				continue
			}
			if n := facts.Increase(a.own[name], n); n > 0 {
				d.Counters[name] = n
			}
		}
		if netns == "" {
			w.addHostFacts(&d, irqs)
		} else {
			w.addGuest(&d)
		}
		all = append(all, d)
	}
	return all
}

// addHostFacts adds the host's facts of a device in its own namespace: guest, speed, interrupts.
func (w *Watch) addHostFacts(d *facts.DeviceLoad, irqs []facts.IRQRun) {
	for i := range w.h.Guests {
		for _, nic := range w.h.Guests[i].NICs() {
			if tap := w.h.Guests[i].TapHere(&nic); tap != "" && tap == d.Name {
				d.Guest = w.h.Guests[i].Name
			}
		}
	}
	for i := range w.h.NICs {
		n := &w.h.NICs[i]
		if n.Name != d.Name {
			continue
		}
		d.SpeedMbps = n.Speed
		if d.SpeedMbps == 0 {
			d.SpeedMbps = -1
		}
		addQueueCPUs(d, n, irqs)
	}
}

// addQueueCPUs sets the CPUs that handled the interrupts of a NIC's queues. The interrupt's name has the queue
// (TxRx-3, rx-3, input.3) and the directions; both if it has none.
func addQueueCPUs(d *facts.DeviceLoad, n *facts.NIC, irqs []facts.IRQRun) {
	for _, irq := range n.IRQs {
		at := slices.IndexFunc(irqs, func(r facts.IRQRun) bool { return r.Number == irq.Number })
		digits := len(irq.On)
		for digits > 0 && irq.On[digits-1] >= '0' && irq.On[digits-1] <= '9' {
			digits--
		}
		var queue int
		if at < 0 || digits == len(irq.On) || !threads.ScanNumber(irq.On, irq.On[:digits], &queue) {
			continue
		}
		cpus := setting.CPUs(slices.Collect(maps.Keys(irqs[at].Counts))...)
		word := strings.ToLower(irq.On)
		rx, tx := strings.Contains(word, "rx") || strings.Contains(word, "input"), strings.Contains(word, "tx") ||
			strings.Contains(word, "output")
		for _, way := range []string{"rx", "tx"} {
			if rx != tx && (way == "rx") != rx {
				continue
			}
			q := slices.IndexFunc(d.Queues, func(q facts.QueueLoad) bool {
				return q.Direction == way && q.Index == queue
			})
			if q < 0 {
				d.Queues = append(d.Queues, facts.QueueLoad{Direction: way, Index: queue, CPUs: cpus})
				continue
			}
			d.Queues[q].CPUs = cpus
		}
	}
	sortQueues(d.Queues)
}

func sortQueues(queues []facts.QueueLoad) {
	slices.SortFunc(queues, func(a, b facts.QueueLoad) int {
		return cmp.Or(strings.Compare(a.Direction, b.Direction), cmp.Compare(a.Index, b.Index))
	})
}

// queuesBetween returns the load of a driver's queues between two readings.
func queuesBetween(before, after map[string]uint64) []facts.QueueLoad {
	was, is := nicctl.ByQueue(before), nicctl.ByQueue(after)
	all := []facts.QueueLoad{}
	for q, b := range is {
		a := was[q]
		all = append(all, facts.QueueLoad{
			Direction: q.Direction, Index: q.Number, Packets: facts.Increase(a.Packets, b.Packets),
			Drops:   facts.Increase(a.Drops, b.Drops),
			Stopped: facts.Increase(a.Stopped, b.Stopped), CPUs: setting.CPUSet{},
		})
	}
	sortQueues(all)
	return all
}
