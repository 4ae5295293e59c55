package bottleneck

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
)

// perFrame are the bytes of the wire that belong to a frame and that no counter of the kernel has: preamble, delimiter,
// FCS and gap (IEEE 802.3, 12 + 8 + 4).
const perFrame = 24

// bits is a device's rate on the wire in its busier direction, in bits per second.
func (k *look) bits(d *facts.DeviceLoad) float64 {
	rx, tx := d.RxBytes+perFrame*d.RxPackets, d.TxBytes+perFrame*d.TxPackets
	return k.rate(float64(max(rx, tx)) * 8)
}

// hardware are the NICs and functions of the load.
func (k *look) hardware() []*facts.DeviceLoad {
	var found []*facts.DeviceLoad
	for i := range k.l.Devices {
		if d := &k.l.Devices[i]; d.Kind == "nic" || d.Kind == "vf" {
			found = append(found, d)
		}
	}
	return found
}

func lineRate(k *look) (found []suspect) {
	for _, d := range k.hardware() {
		if d.SpeedMbps <= 0 {
			continue
		}
		full := k.bits(d) / (float64(d.SpeedMbps) * 1e6)
		if full < 0.95 || full > 1.05 { // above: an emulated NIC, which has no wire
			continue
		}
		found = append(found, suspect{
			kind: LineRate, object: called(d), strength: 0.6 + 7*(min(full, 1)-0.95),
			keys: []string{"dev:" + called(d)},
			say: fmt.Sprintf("%s carries %s of its %s: the wire is full", called(d), percent(full),
				bitrate(float64(d.SpeedMbps)*1e6)),
			evidence: []Evidence{
				{"share of the line rate of " + called(d), full, "share", "/sys/class/net/" + d.Name +
					"/statistics, speed"},
				{"rate on the wire, with preamble and gap", k.bits(d), "bit/s", "/sys/class/net/" + d.Name +
					"/statistics"},
			},
		})
	}
	return found
}

func bitrate(bps float64) string { return amount(bps) + "bit/s" }

// pcieCost are the bytes of the bus that a frame needs beside itself: headers of the transactions and a descriptor in
// each direction.
const pcieCost = 48

func pcieLink(k *look) (found []suspect) {
	for _, d := range k.hardware() {
		n := k.nic(d.Name)
		if n == nil || n.Link == nil {
			continue
		}
		capacity := pcieBits(n.Link.Speed, n.Link.Width)
		if capacity == 0 {
			continue
		}
		rx, tx := d.RxBytes+pcieCost*d.RxPackets, d.TxBytes+pcieCost*d.TxPackets
		use := k.rate(float64(max(rx, tx))*8) / capacity
		if use < 0.85 {
			continue
		}
		found = append(found, suspect{
			kind: PCIeLink, object: called(d), strength: min(0.55+2*(use-0.85), 0.85),
			keys: []string{"dev:" + called(d)},
			say: fmt.Sprintf("%s uses %s of its PCIe link (%s, %s)", called(d), percent(min(use, 1)), n.Link.Speed,
				some(n.Link.Width, "lane")),
			evidence: []Evidence{
				{"share of the PCIe link", use, "share", "/sys/bus/pci/devices/" + n.PCI + "/current_link_speed"},
				{"capacity of the link", capacity, "bit/s", "/sys/bus/pci/devices/" + n.PCI + "/current_link_width"},
			},
		})
	}
	return found
}

// pcieBits is what a link carries in each direction in bits per second: transfers × lanes, less the line code (8b/10b
// up to 5 GT/s, 128b/130b above). 0 where the text tells no speed.
func pcieBits(speed string, width int) float64 {
	number, _, _ := strings.Cut(strings.TrimSpace(speed), " ")
	gt, err := strconv.ParseFloat(number, 64)
	if err != nil || gt <= 0 || width <= 0 {
		return 0
	}
	code := 128.0 / 130
	if gt <= 5 {
		code = 0.8
	}
	return gt * 1e9 * code * float64(width)
}

func pauseFrames(k *look) (found []suspect) {
	for _, d := range k.hardware() {
		n, name := largest(d.Counters, pauseCounters)
		waits := 0.0
		for _, q := range d.Qdisc {
			waits = max(waits, float64(q.Drops+q.Requeues+q.Backlog))
		}
		if k.rate(float64(n)) < 100 || d.TxPackets == 0 {
			continue
		}
		strength := 0.6
		if waits > 0 {
			strength = 0.9
		}
		found = append(found, suspect{
			kind: PauseFrames, object: called(d), strength: strength, keys: []string{"dev:" + called(d)},
			say: fmt.Sprintf("the switch asked %s %s times a second to stop sending", called(d),
				amount(k.rate(float64(n)))),
			evidence: []Evidence{{"pause frames received", k.rate(float64(n)), "frames/s", "ethtool -S " + d.Name +
				": " + name}},
		})
	}
	return found
}

func linkErrors(k *look) (found []suspect) {
	for _, s := range k.lost(atDamage) {
		found = append(found, suspect{
			kind: LinkErrors, object: called(s.device), strength: 0.9, lost: s.packets, share: s.share,
			keys:     []string{"dev:" + called(s.device)},
			say:      fmt.Sprintf("%s of the frames of %s arrive damaged", percent(s.share), called(s.device)),
			evidence: []Evidence{{"damaged frames", k.rate(s.packets), "packets/s", s.source}},
		})
	}
	return found
}

// vfRate looks for a function that sends at its limit: at its interface on the host, or at its guest's.
func vfRate(k *look) (found []suspect) {
	for _, vf := range k.h.VFs {
		if vf.MaxTxRate <= 0 {
			continue
		}
		var at *facts.DeviceLoad
		seconds := k.seconds
		for _, d := range k.hardware() {
			if vf.NIC != "" && d.Name == vf.NIC {
				at = d
			}
		}
		for i := range k.l.Guests {
			g := &k.l.Guests[i]
			inside := k.seconds
			if g.Seconds > 0 { // it was looked at by its own clock
				inside = g.Seconds
			}
			for j := range g.Devices {
				if d := &g.Devices[j]; vf.Guest == g.Name && (d.Kind == "nic" || d.Kind == "vf") &&
					(at == nil || float64(d.TxPackets)/inside > float64(at.TxPackets)/seconds) {
					at, seconds = d, inside
				}
			}
		}
		if at == nil {
			continue
		}
		rate := float64(at.TxBytes+perFrame*at.TxPackets) * 8 / seconds
		full := rate / (float64(vf.MaxTxRate) * 1e6)
		if full < 0.85 || full > 1.1 {
			continue
		}
		object := fmt.Sprintf("%s VF %d", vf.PF, vf.Index)
		if vf.Guest != "" {
			object += " (" + vf.Guest + ")"
		}
		found = append(found, suspect{
			kind: VFRate, object: object, strength: min(0.75+2*max(full-0.85, 0), 0.95),
			keys: []string{"dev:" + called(at), "guest:" + vf.Guest, "dev:" + vf.PF},
			say:  fmt.Sprintf("%s sends %s, and its limit is %d Mbit/s", object, bitrate(rate), vf.MaxTxRate),
			evidence: []Evidence{
				{"rate that it sends", rate, "bit/s", "statistics of " + called(at)},
				{"limit of the function", float64(vf.MaxTxRate) * 1e6, "bit/s", "ip link show dev " + vf.PF},
			},
		})
	}
	return found
}

// rxRing names the ring only where the CPUs that empty it have time: else it is full because of them.
func rxRing(k *look) (found []suspect) {
	for _, s := range k.lost(atRing) {
		d := s.device
		worst, known := 0.0, false
		for _, cpu := range k.servers(d) {
			if c := k.cpus[cpu]; c != nil {
				worst, known = max(worst, 1-c.Idle), true
			}
		}
		if !known {
			for _, c := range k.l.CPUs {
				worst = max(worst, k.handling(c.CPU))
			}
		}
		f := suspect{
			kind: RxRing, object: called(d), strength: 0.75, lost: s.packets, share: s.share,
			keys: []string{"dev:" + called(d)},
			say: fmt.Sprintf("%s has no free receive descriptor for %s of its packets, while the CPUs that empty "+
				"the ring are at most %s busy", called(d), percent(s.share), percent(worst)),
			evidence: []Evidence{
				{"packets without a descriptor", k.rate(s.packets), "packets/s", s.source},
				{"share of the busiest CPU that serves it", worst, "share", "/proc/stat"},
			},
		}
		switch n := k.nic(d.Name); {
		case worst > 0.97:
			f.strength = 0.55
		case n != nil && n.Rings != nil && n.Rings.Rx > 0 && n.Rings.Rx < min(256, n.Rings.MaxRx):
			f.strength = 0.93
			f.evidence = append(f.evidence, Evidence{"receive descriptors per queue", float64(n.Rings.Rx),
				"descriptors", "ethtool -g " + d.Name})
		case worst < 0.8:
			f.strength = 0.85
		}
		for _, cpu := range k.servers(d) {
			f.keys = append(f.keys, fmt.Sprintf("cpu:%d", cpu))
		}
		found = append(found, f)
	}
	return found
}

// servers are the CPUs where a device's packets are received: as they were seen, else where its interrupts go.
func (k *look) servers(d *facts.DeviceLoad) []int {
	seen := map[int]bool{}
	var list []int
	add := func(cpus []int) {
		for _, c := range cpus {
			if !seen[c] {
				seen[c] = true
				list = append(list, c)
			}
		}
	}
	for _, q := range d.Queues {
		if q.Direction == "rx" && (q.Packets > 0 || d.RxPackets == 0) {
			add(q.CPUs)
		}
	}
	if n := k.nic(d.Name); n != nil && len(list) == 0 {
		for _, irq := range n.IRQs {
			add(irq.Effective)
		}
	}
	return list
}
