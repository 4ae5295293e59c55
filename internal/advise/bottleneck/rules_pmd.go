package bottleneck

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// Thresholds of Open vSwitch's polling threads.
const (
	// share of its cycles that a PMD spends on packets from which on it has no time left: pmd-auto-lb takes the same
	// (lib/dpif-netdev.c, PMD_RXQ_INTERVAL_MAX; ALB_LOAD_THRESHOLD 95), less what an interval's ends blur
	pmdFull = 0.92
	// a PMD below has time for another's queues
	pmdFree = 0.5
	// share of a pool's buffers below which threads' caches cannot be filled: rte_mempool's caches hold up to 512
	// buffers a thread of a pool that has some 10,000 or more
	poolEmpty = 0.02
)

// polled blames Open vSwitch's polling threads, their buffers, and guests that do not empty their rings.
func polled(p *path) (found []suspect) {
	s := p.l.Polled
	if s == nil {
		return nil
	}
	arrived, refused := uint64(0), uint64(0) // at ports of DPDK
	for _, port := range s.Ports {
		if port.Type == "dpdk" {
			arrived, refused = arrived+port.RxPackets, refused+port.RxDropped
		}
	}
	share := shareOf(float64(refused), float64(arrived))
	for pmd := range facts.Each(s.PMDs) {
		f, is := p.busyPMD(s, pmd)
		if !is {
			continue
		}
		if share >= facts.MinLossShare && refused >= facts.MinLostPackets {
			f.lost, f.share = float64(refused), share
			f.show("not taken from dpdk ports", p.rate(f.lost), "packets/s", "dpctl/show -s, RX dropped")
		}
		found = append(found, f)
	}
	found = append(found, p.emptyPools(s, float64(refused), share)...)
	return append(found, p.fullRings(s)...)
}

// pmdThread returns what is known of the thread that polls on a CPU; nil if it was not watched.
func pmdThread(h *facts.Host, l *facts.Load, cpu int) *facts.ThreadLoad {
	return facts.Find(l.Threads, func(t *facts.ThreadLoad) bool {
		return len(t.Affinity) == 1 && t.Affinity[0] == cpu && h.OpenVSwitch != nil &&
			slices.ContainsFunc(h.OpenVSwitch.Threads, func(o facts.OVSThread) bool {
				return o.TID == t.TID && o.Role == "pmd"
			})
	})
}

// busyPMD blames a polling thread that has no time left: because another thread has its CPU, because others with time
// left do not have its queues, or because of its own work. One that waits for its CPU while it finds few packets is
// blamed too: they come late.
func (p *path) busyPMD(s *facts.PolledSwitch, pmd *facts.PMD) (suspect, bool) {
	busy := pmd.Busy()
	f := suspect{kind: PMDFull, object: fmt.Sprintf("PMD on CPU %d", pmd.CPU), strength: 0.85,
		keys: []string{fmt.Sprintf("pmd:%d", pmd.CPU)}}
	f.show("share of its cycles spent on packets", busy, "share", "pmd-stats-show, processing cycles")
	f.show("packets", p.rate(float64(pmd.Packets)), "packets/s", "pmd-stats-show, packets received")
	if t := pmdThread(p.h, p.l, pmd.CPU); t != nil && t.Waited >= minWait {
		f.kind, f.strength = PMDShared, min(0.75+0.4*t.Waited, 0.95)
		f.keys = append(f.keys, cpuKey(pmd.CPU))
		f.show("share of the time that it waited for its CPU", t.Waited, "share", schedstat(t))
		f.say = fmt.Sprintf("the PMD on CPU %d waits %s of the time for its CPU, which others use", pmd.CPU,
			percent(t.Waited))
		if o := p.busiestBeside(t); o != nil {
			f.show(fmt.Sprintf("share of CPU %d that %s used", pmd.CPU, label(o)), o.Ran, "share", schedstat(o))
			f.say = fmt.Sprintf("the PMD on CPU %d waits %s of the time for its CPU, which %s uses for %s", pmd.CPU,
				percent(t.Waited), label(o), percent(o.Ran))
		}
		return f, true
	}
	if busy < pmdFull || p.rate(float64(pmd.Packets)) < minPPS {
		return f, false
	}
	var queues []string
	for _, q := range pmd.Queues {
		if q.Enabled && q.Usage != 0 {
			queues = append(queues, fmt.Sprintf("%s/%d", q.Port, q.Queue))
		}
	}
	for other := range facts.Each(s.PMDs) {
		if b := other.Busy(); len(queues) > 1 && b >= 0 && b < pmdFree && other.Node == pmd.Node && !other.Isolated {
			f.kind, f.strength = PMDImbalance, 0.9
			f.show(fmt.Sprintf("share of its cycles that the PMD on CPU %d spent on packets", other.CPU), b, "share",
				"pmd-stats-show, processing cycles")
			f.say = fmt.Sprintf("the PMD on CPU %d has no time left for %s, while that on CPU %d is idle for %s",
				pmd.CPU, strings.Join(queues[:min(len(queues), 4)], ", "), other.CPU, percent(1-b))
			return f, true
		}
	}
	f.show("cycles a packet", float64(pmd.BusyTSC)/float64(pmd.Packets), "cycles", "pmd-stats-show")
	f.say = fmt.Sprintf("the PMD on CPU %d spends %s of its cycles on packets: it has no time left", pmd.CPU,
		percent(busy))
	return f, true
}

// busiestBeside returns the thread that ran most on a thread's CPU besides it; nil if none did.
func (p *path) busiestBeside(t *facts.ThreadLoad) (busiest *facts.ThreadLoad) {
	for o := range facts.Each(p.l.Threads) {
		if o.TID != t.TID && cpuOf(o) == cpuOf(t) && (busiest == nil || o.Ran > busiest.Ran) {
			busiest = o
		}
	}
	return busiest
}

// emptyPools blames pools without free buffers: ports receive nothing until some come back.
func (p *path) emptyPools(s *facts.PolledSwitch, lost, share float64) (found []suspect) {
	for _, pool := range s.Pools {
		if pool.Size == 0 || float64(pool.Free) >= poolEmpty*float64(pool.Size) || lost < facts.MinLostPackets {
			continue
		}
		f := suspect{kind: Mbufs, object: "mbuf pool " + pool.Name, strength: 0.92, lost: lost, share: share,
			keys: []string{"mbufs"}, say: fmt.Sprintf("%d of %d packet buffers are free: ports of DPDK have none for "+
				"packets that arrive", pool.Free, pool.Size)}
		f.show("free buffers", float64(pool.Free), "buffers", "netdev-dpdk/get-mempool-info")
		f.show("not taken from dpdk ports", p.rate(lost), "packets/s", "dpctl/show -s, RX dropped")
		found = append(found, f)
	}
	return found
}

// fullRings blames guests that do not empty their vrings.
func (p *path) fullRings(s *facts.PolledSwitch) (found []suspect) {
	for port := range facts.Each(s.Ports) {
		lost := float64(port.TxDropped)
		share := shareOf(lost, float64(port.TxPackets))
		if !strings.HasPrefix(port.Type, "dpdkvhostuser") || lost < facts.MinLostPackets || share < facts.MinLossShare {
			continue
		}
		guest := guestOfPort(p.h, port.Name)
		f := suspect{kind: VhostUserRing, object: "vhost-user port " + port.Name, strength: 0.9, lost: lost,
			share: share, keys: []string{"port:" + port.Name}}
		to := "its guest"
		if guest != "" {
			to = "guest " + guest
			f.keys = append(f.keys, "guest:"+guest)
		}
		f.say = fmt.Sprintf("%s of the packets to %s are dropped at %s: its ring has no room, because the guest does "+
			"not empty it fast enough", percent(share), to, port.Name)
		f.show("dropped at the port", p.rate(lost), "packets/s", "dpctl/show -s, TX dropped")
		f.show("taken by the guest", p.rate(float64(port.TxPackets)), "packets/s", "dpctl/show -s, TX packets")
		found = append(found, f)
	}
	return found
}

// guestOfPort returns the guest whose vrings a port shares; empty if it is not known.
func guestOfPort(h *facts.Host, name string) string {
	for g := range facts.Each(h.Guests) {
		for _, i := range g.NICs() {
			if _, port := h.OpenVSwitch.VhostUserPort(i.Source); port != nil && port.Name == name {
				return g.Name
			}
		}
	}
	return ""
}

// polledPackets returns the packets of the busiest port of Open vSwitch's own datapath, with those lost there.
func (p *path) polledPackets() (n float64) {
	if p.l.Polled != nil {
		for _, port := range p.l.Polled.Ports {
			n = max(n, float64(port.RxPackets+port.RxDropped), float64(port.TxPackets+port.TxDropped))
		}
	}
	return n
}
