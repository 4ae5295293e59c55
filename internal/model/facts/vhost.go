package facts

import "slices"

// Sure is how the NIC and queue of a vhost thread were identified. All threads of a guest are named vhost-<pid>, and no
// file links one to its queue: neither the tap's descriptor (fdinfo has its name, drivers/net/tun.c,
// tun_chr_show_fdinfo) nor vhost's.
type Sure string

// Certainty of a match, highest first. A match that traffic contradicts is not used: such a thread is not placed.
const (
	OnlyOne Sure = "only one" // one thread, one queue
	// and threads of busy NICs ran while those of quiet ones did not
	ByTraffic Sure = "order of creation, confirmed by traffic"
	// as many threads as queues, in QEMU's creation order
	ByOrder    Sure = "order of creation"
	NotByOrder Sure = "order of creation, contradicted by traffic" // a busy NIC's threads did not run while others did
)

// Thresholds for busy and quiet: packets of a tap, and CPU time of its threads, within the interval. A packet costs a
// vhost thread at least a few hundred nanoseconds, so the threads of a busy NIC run for at least busyRun.
const (
	busyPackets  = 200
	quietPackets = 4
	busyRun      = 20_000 // ns
	clearFactor  = 10     // times as long
)

// ConfirmByTraffic compares which taps had packets with which vhost threads ran between two inventories of the same
// host, and updates the certainty of the matches in the second. It needs a busy and a quiet NIC of one guest. It does
// not distinguish the queues of one NIC.
func ConfirmByTraffic(before, after *Host) {
	taps := map[string]map[string]uint64{}
	for _, t := range before.Taps {
		taps[t.Name] = t.Stats
	}
	packets := map[string]uint64{}
	for _, t := range after.Taps {
		if was, seen := taps[t.Name]; seen {
			grew := increases(was, t.Stats)
			packets[t.Name] = grew["rx_packets"] + grew["tx_packets"]
		}
	}
	ran := map[int]uint64{}
	for _, g := range before.Guests {
		for _, t := range g.Threads {
			ran[t.TID] = t.RunNS
		}
	}
	for i := range after.Guests {
		after.Guests[i].confirmByTraffic(packets, ran)
	}
}

// confirmByTraffic judges the threads of one guest. ran is their earlier CPU time.
func (g *Guest) confirmByTraffic(packets map[string]uint64, ran map[int]uint64) {
	run := map[string]uint64{}
	for _, t := range g.Threads {
		was, seen := ran[t.TID]
		if t.Role != "vhost" || t.NIC == "" {
			continue
		}
		if !seen || t.RunNS == 0 {
			return // new, or the kernel does not count
		}
		run[t.NIC] += Increase(was, t.RunNS)
	}
	var busy, quiet []uint64 // CPU time of the threads of NICs with and without packets
	for _, i := range g.NICs() {
		time, served := run[i.MAC]
		count, seen := packets[g.TapHere(&i)]
		switch {
		case !served || !seen:
		case count >= busyPackets:
			busy = append(busy, time)
		case count <= quietPackets:
			quiet = append(quiet, time)
		}
	}
	if len(busy) == 0 || len(quiet) == 0 {
		return // no evidence
	}
	verdict := Sure("")
	switch least, most := slices.Min(busy), slices.Max(quiet); {
	case least < busyRun && most >= clearFactor*busyRun:
		verdict = NotByOrder
	case least >= busyRun && clearFactor*most < least:
		verdict = ByTraffic
	default:
		return
	}
	for j := range g.Threads {
		if t := &g.Threads[j]; t.Role == "vhost" && t.Sure == ByOrder {
			t.Sure = verdict
		}
	}
}
