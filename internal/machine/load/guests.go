package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/link"
	"mpps/internal/machine/systemd"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Inside reads files inside guests.
type Inside interface {
	// Selected reports whether a guest is one that may be asked.
	Selected(guest string) bool
	// Files returns the texts of files in a guest by their absolute paths, without those that it does not have.
	Files(ctx context.Context, guest string, names ...string) (map[string]string, error)
}

// guestLook is one reading of the counters inside a guest.
type guestLook struct {
	uptime  float64 // by the guest's clock: the reply arrives late
	times   map[int]cpu.Times
	softnet []facts.Softnet
	devices map[string]map[string]uint64
	irqs    map[string]irq.Counts
	cpus    setting.CPUSet // of irqs
	sockets socketLook
	why     error // reason if there is no reading
}

// Bounds of what a guest reports: more CPUs than KVM gives one, more devices than are read of one otherwise, and the
// years that a clock may be up.
const (
	mostCPUs    = 4096
	mostDevices = 1024
	mostSeconds = 100 * 365 * 24 * 3600
)

// implausible returns why a reading cannot be a guest's; nil: it can. What is computed from it takes time and
// memory for each pair of an interrupt and a CPU, or a device, and cannot be written as JSON where it is infinite.
func (l *guestLook) implausible() error {
	for cpu := range l.times {
		if cpu < 0 || cpu >= mostCPUs {
			return fmt.Errorf("it reports CPU %d, expected 0 to %d", cpu, mostCPUs-1)
		}
	}
	switch {
	case !(l.uptime >= 0 && l.uptime <= mostSeconds):
		return fmt.Errorf("it says that it has been up for %g s", l.uptime)
	case len(l.softnet) > mostCPUs:
		return fmt.Errorf("it reports %d CPUs, and at most %d are read", len(l.softnet), mostCPUs)
	case len(l.devices) > mostDevices:
		return fmt.Errorf("it reports %d network devices, and at most %d are read", len(l.devices), mostDevices)
	}
	return nil
}

// insideFiles are the files with a guest's counters.
var insideFiles = []string{
	"/proc/uptime", "/proc/stat", "/proc/interrupts", "/proc/net/softnet_stat", "/proc/net/dev", "/proc/net/snmp",
	"/proc/net/snmp6", "/proc/net/netstat",
}

// mostInside is how many guests are read each time: each takes some runs of virsh.
const mostInside = 4

// guestsToRead returns the selected guests that run.
func (w *Watch) guestsToRead() []*facts.Guest {
	if w.o.Inside == nil {
		return nil
	}
	var all []*facts.Guest
	for i := range w.h.Guests {
		g := &w.h.Guests[i]
		if g.Managed && g.State == "running" && w.o.Inside.Selected(g.Name) && len(all) < mostInside {
			all = append(all, g)
		}
	}
	return all
}

// readGuests reads the counters inside these guests.
func (w *Watch) readGuests(ctx context.Context) map[string]guestLook {
	all := map[string]guestLook{}
	for _, g := range w.guestsToRead() {
		files, err := w.o.Inside.Files(ctx, g.Name, insideFiles...)
		if err != nil {
			all[g.Name] = guestLook{why: err}
			continue
		}
		all[g.Name] = parseGuest(files)
	}
	return all
}

// parseGuest reads the counters in a guest's files.
func parseGuest(files map[string]string) guestLook {
	var l guestLook
	first, _, _ := strings.Cut(files["/proc/uptime"], " ")
	var err error
	if l.uptime, err = strconv.ParseFloat(first, 64); err != nil {
		l.why = fmt.Errorf("it told no /proc/uptime: %w", err)
		return l
	}
	l.uptime = math.Round(l.uptime*100) / 100 // the kernel counts hundredths
	l.times = cpu.ParseTimes(files["/proc/stat"])
	if l.softnet, err = link.ParseSoftnet(files["/proc/net/softnet_stat"]); err != nil {
		l.why = err
		return l
	}
	l.devices = parseNetDev(files["/proc/net/dev"])
	if l.why = l.implausible(); l.why != nil {
		return l
	}
	l.cpus = setting.CPUs(slices.Collect(maps.Keys(l.times))...).And(irq.CPUsOf(files["/proc/interrupts"]))
	l.irqs = irq.ParseCPUCounts(files["/proc/interrupts"], l.cpus)
	l.sockets.addCounters(files["/proc/net/snmp"], files["/proc/net/netstat"], files["/proc/net/snmp6"])
	return l
}

// parseNetDev reads /proc/net/dev (net/core/net-procfs.c, dev_seq_printf_stats). Some columns are sums of a device's
// counters: drop is dropped plus missed.
func parseNetDev(text string) map[string]map[string]uint64 {
	columns := []string{
		"rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "rx_fifo_errors", "rx_frame_errors", "rx_compressed",
		"multicast",
		"tx_bytes", "tx_packets", "tx_errors", "tx_dropped", "tx_fifo_errors", "collisions", "tx_carrier_errors",
		"tx_compressed",
	}
	all := map[string]map[string]uint64{}
	for line := range strings.Lines(text) {
		name, rest, found := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !found || len(fields) < len(columns) {
			continue
		}
		stats := map[string]uint64{}
		for i, column := range columns {
			stats[column], _ = strconv.ParseUint(fields[i], 10, 64)
		}
		all[strings.TrimSpace(name)] = stats
	}
	return all
}

// virtioQueue matches the name of a virtio NIC's queue interrupt: no other virtio device has queues with these names.
var virtioQueue = regexp.MustCompile(`^virtio\d+-(input|output)\.\d+$`)

// guestsBetween adds the load inside guests between two readings.
func (w *Watch) guestsBetween(before, after map[string]guestLook, l *facts.Load) {
	for _, g := range w.guestsToRead() {
		a, b := before[g.Name], after[g.Name]
		why := b.why
		if a.why != nil {
			why = a.why
		}
		if why == nil && b.uptime <= a.uptime {
			why = errors.New("it was restarted")
		}
		if why != nil {
			l.Unseen = append(l.Unseen, facts.Unseen{What: "the inside of guest " + g.Name, Why: why.Error()})
			continue
		}
		l.Guests = append(l.Guests, guestBetween(g, a, b))
	}
}

func guestBetween(g *facts.Guest, a, b guestLook) facts.GuestLoad {
	cpus := slices.Sorted(maps.Keys(b.times))
	load := facts.GuestLoad{
		Name: g.Name, Seconds: b.uptime - a.uptime, CPUs: cpusBetween(a.times, b.times, cpus),
		Softnet: facts.SoftnetBetween(a.softnet, b.softnet),
		Devices: []facts.DeviceLoad{}, IRQs: []map[int]uint64{}, Service: map[string]bool{},
	}
	addSockets(&load.Sockets, a.sockets, b.sockets)
	for _, name := range slices.Sorted(maps.Keys(b.devices)) {
		if name == "lo" {
			continue
		}
		d := facts.DeviceLoad{Name: name, Kind: "nic", Guest: g.Name, Counters: map[string]uint64{}, SpeedMbps: -1,
			Queues: []facts.QueueLoad{}, Qdisc: []facts.QdiscLoad{}}
		for counter, n := range b.devices[name] {
			n = facts.Increase(a.devices[name][counter], n)
			switch counter {
			case "rx_packets":
				d.RxPackets = n
			case "tx_packets":
				d.TxPackets = n
			case "rx_bytes":
				d.RxBytes = n
			case "tx_bytes":
				d.TxBytes = n
			default:
				if n > 0 {
					d.Counters[counter] = n
				}
			}
		}
		load.Devices = append(load.Devices, d)
	}
	if !a.cpus.Equal(b.cpus) { // one came or went meanwhile
		a.irqs, b.irqs = nil, nil
	}
	for _, irq := range irq.CountsBetween(a.irqs, b.irqs, b.cpus) {
		if irq.Number >= 0 && (virtioQueue.MatchString(irq.Name) ||
			slices.ContainsFunc(load.Devices,
				func(d facts.DeviceLoad) bool { return strings.HasPrefix(irq.Name, d.Name) })) {
			load.IRQs = append(load.IRQs, irq.Counts)
		}
	}
	if g.Inside != nil && g.Inside.Host != nil {
		for at, r := range g.Inside.Host.Readings {
			if at.Kind == setting.Service && r.State != setting.Unknown {
				load.Service[at.Path] = r.Value == systemd.Running
			}
		}
	}
	return load
}
