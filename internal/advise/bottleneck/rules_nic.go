package bottleneck

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
)

// frameOverhead is what a frame takes on the wire beyond the bytes that NICs count: check sequence, preamble with start
// delimiter, and the gap between frames (IEEE 802.3, 3.1.1 and 4.4.2), bytes.
const frameOverhead = 4 + 8 + 12

// wireBits returns a count as bits on the wire.
func wireBits(bytes, packets uint64) float64 { return float64(bytes+packets*frameOverhead) * 8 }

// bits returns a device's rate on the wire in its busier direction, in bits per second.
func (p *path) bits(d *facts.DeviceLoad) float64 {
	return p.rate(max(wireBits(d.RxBytes, d.RxPackets), wireBits(d.TxBytes, d.TxPackets)))
}

// nics returns the NICs and virtual functions of the load.
func (p *path) nics() []*facts.DeviceLoad {
	var found []*facts.DeviceLoad
	for d := range facts.Each(p.l.Devices) {
		if d.Kind == "nic" || d.Kind == "vf" {
			found = append(found, d)
		}
	}
	return found
}

func lineRate(p *path) (found []suspect) {
	for _, d := range p.nics() {
		if d.SpeedMbps <= 0 {
			continue
		}
		full := p.bits(d) / (float64(d.SpeedMbps) * 1e6)
		if full < 0.95 || full > 1.05 { // above: an emulated NIC, which has no wire
			continue
		}
		f := suspect{
			kind: LineRate, object: deviceName(d), strength: 0.6 + 7*(min(full, 1)-0.95), keys: []string{deviceKey(d)},
			say: fmt.Sprintf("%s carries %s of its %s: the wire is full", deviceName(d), percent(full),
				bitrate(float64(d.SpeedMbps)*1e6)),
		}
		statistics := "/sys/class/net/" + d.Name + "/statistics"
		f.show("share of the line rate of "+deviceName(d), full, "share", statistics+", speed")
		f.show("rate on the wire, with preamble and gap", p.bits(d), "bit/s", statistics)
		found = append(found, f)
	}
	return found
}

func bitrate(bps float64) string { return amount(bps) + "bit/s" }

// pcieCost is what a frame takes on the bus beyond its own bytes: transaction headers and a descriptor in each
// direction, bytes.
const pcieCost = 48

func pcieLink(p *path) (found []suspect) {
	for _, d := range p.nics() {
		n := p.nic(d.Name)
		if n == nil || n.Link == nil {
			continue
		}
		capacity := pcieBits(n.Link.Speed, n.Link.Width)
		if capacity == 0 {
			continue
		}
		rx, tx := d.RxBytes+pcieCost*d.RxPackets, d.TxBytes+pcieCost*d.TxPackets
		use := p.rate(float64(max(rx, tx))*8) / capacity
		if use < 0.85 {
			continue
		}
		f := suspect{
			kind: PCIeLink, object: deviceName(d), strength: min(0.55+2*(use-0.85), 0.85), keys: []string{deviceKey(d)},
			say: fmt.Sprintf("%s uses %s of its PCIe link (%s, %s)", deviceName(d), percent(min(use, 1)), n.Link.Speed,
				count(n.Link.Width, "lane")),
		}
		f.show("share of the PCIe link", use, "share", "/sys/bus/pci/devices/"+n.PCI+"/current_link_speed")
		f.show("capacity of the link", capacity, "bit/s", "/sys/bus/pci/devices/"+n.PCI+"/current_link_width")
		found = append(found, f)
	}
	return found
}

// pcieBits returns what a link carries in each direction in bits per second: transfers × lanes, less the line code
// (8b/10b up to 5 GT/s, 128b/130b above). It returns 0 if the text names no speed.
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

func pauseFrames(p *path) (found []suspect) {
	for _, d := range p.nics() {
		n, name := largestCounter(d.Counters, pauseCounters)
		rate := p.rate(float64(n))
		if rate < 100 || d.TxPackets == 0 {
			continue
		}
		f := suspect{
			kind: PauseFrames, object: deviceName(d), strength: 0.6, keys: []string{deviceKey(d)},
			say: fmt.Sprintf("the switch asked %s %s times a second to stop sending", deviceName(d), amount(rate)),
		}
		if slices.ContainsFunc(d.Qdisc, func(q facts.QdiscLoad) bool { return q.Drops+q.Requeues+q.Backlog > 0 }) {
			f.strength = 0.9
		}
		f.show("pause frames received", rate, "frames/s", "ethtool -S "+d.Name+": "+name)
		found = append(found, f)
	}
	return found
}

func linkErrors(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atDamage) {
		found = append(found, suspect{
			kind: LinkErrors, object: deviceName(s.device), strength: 0.9, lost: s.packets, share: s.share,
			keys:     []string{deviceKey(s.device)},
			say:      fmt.Sprintf("%s of the frames of %s arrive damaged", percent(s.share), deviceName(s.device)),
			evidence: []Evidence{{"damaged frames", p.rate(s.packets), "packets/s", s.source}},
		})
	}
	return found
}

// vfRate blames virtual functions that send at their rate limit, as seen at the host's interface or inside the guest.
func vfRate(p *path) (found []suspect) {
	for _, vf := range p.h.VFs {
		if vf.MaxTxRate <= 0 {
			continue
		}
		var at *facts.DeviceLoad
		seconds := p.seconds
		for _, d := range p.nics() {
			if vf.NIC != "" && d.Name == vf.NIC {
				at = d
			}
		}
		for g := range facts.Each(p.l.Guests) {
			inside := p.seconds
			if g.Seconds > 0 { // measured by the guest's own clock
				inside = g.Seconds
			}
			for d := range facts.Each(g.Devices) {
				if vf.Guest == g.Name && (d.Kind == "nic" || d.Kind == "vf") &&
					(at == nil || float64(d.TxPackets)/inside > float64(at.TxPackets)/seconds) {
					at, seconds = d, inside
				}
			}
		}
		if at == nil {
			continue
		}
		rate := wireBits(at.TxBytes, at.TxPackets) / seconds
		full := rate / (float64(vf.MaxTxRate) * 1e6)
		if full < 0.85 || full > 1.1 {
			continue
		}
		object := fmt.Sprintf("%s VF %d", vf.PF, vf.Index)
		if vf.Guest != "" {
			object += " (" + vf.Guest + ")"
		}
		f := suspect{
			kind: VFRate, object: object, strength: min(0.75+2*(full-0.85), 0.95),
			keys: []string{deviceKey(at), "guest:" + vf.Guest, "dev:" + vf.PF},
			say:  fmt.Sprintf("%s sends %s, and its limit is %d Mbit/s", object, bitrate(rate), vf.MaxTxRate),
		}
		f.show("rate that it sends", rate, "bit/s", "statistics of "+deviceName(at))
		f.show("limit of the function", float64(vf.MaxTxRate)*1e6, "bit/s", "ip link show dev "+vf.PF)
		found = append(found, f)
	}
	return found
}

// rxRing blames a ring only weakly if the CPUs that empty it have no time: then it is full because of them.
func rxRing(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atRing) {
		d := s.device
		cpus := p.servingCPUs(d)
		worst, known := 0.0, false
		for _, cpu := range cpus {
			if c := p.cpus[cpu]; c != nil {
				worst, known = max(worst, 1-c.Idle), true
			}
		}
		if !known {
			for _, c := range p.l.CPUs {
				worst = max(worst, p.softirqUse(c.CPU))
			}
		}
		f := suspect{
			kind: RxRing, object: deviceName(d), strength: 0.75, lost: s.packets, share: s.share,
			keys: []string{deviceKey(d)},
			say: fmt.Sprintf("%s has no free receive descriptor for %s of its packets, while the CPUs that empty "+
				"the ring are at most %s busy", deviceName(d), percent(s.share), percent(worst)),
		}
		f.show("packets without a descriptor", p.rate(s.packets), "packets/s", s.source)
		f.show("share of the busiest CPU that serves it", worst, "share", "/proc/stat")
		switch n := p.nic(d.Name); {
		case worst > 0.97:
			f.strength = 0.55
		case n != nil && n.Rings != nil && n.Rings.Rx > 0 && n.Rings.Rx < min(256, n.Rings.MaxRx):
			f.strength = 0.93
			f.show("receive descriptors per queue", float64(n.Rings.Rx), "descriptors", "ethtool -g "+d.Name)
		case worst < 0.8:
			f.strength = 0.85
		}
		for _, cpu := range cpus {
			f.keys = append(f.keys, cpuKey(cpu))
		}
		found = append(found, f)
	}
	return found
}

// servingCPUs returns the CPUs that receive a device's packets: those observed, else those that its interrupts go to.
func (p *path) servingCPUs(d *facts.DeviceLoad) []int {
	var list []int
	add := func(cpus []int) {
		for _, c := range cpus {
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	for _, q := range d.Queues {
		if q.Direction == "rx" && (q.Packets > 0 || d.RxPackets == 0) {
			add(q.CPUs)
		}
	}
	if n := p.nic(d.Name); n != nil && len(list) == 0 {
		for _, irq := range n.IRQs {
			add(irq.Effective)
		}
	}
	return list
}
