package facts

import "slices"

// Sure is how it was found which NIC and queue a vhost thread serves. All threads of a guest are called vhost-<pid>,
// and no file tells which is whose: neither the tap's descriptor (fdinfo has its name, drivers/net/tun.c,
// tun_chr_show_fdinfo) nor vhost's leads to the thread.
type Sure string

// How sure a match is, the surest first. A match that traffic contradicts is no match: such a thread is not placed.
const (
	OnlyOne Sure = "only one" // there is one thread, and one queue
	// and threads of busy NICs ran, those of quiet ones did not
	ByTraffic Sure = "order of creation, confirmed by traffic"
	// as many threads as queues, in the order in which QEMU makes them
	ByOrder    Sure = "order of creation"
	NotByOrder Sure = "order of creation, contradicted by traffic" // a busy NIC's threads did not run, while others did
)

// What counts as busy and as quiet: packets of a tap, and time on a CPU of its threads, within the interval. A packet
// costs a vhost thread a few hundred nanoseconds at the least, so that a busy NIC's threads cannot have run for less
// than busyRun.
const (
	busyPackets  = 200
	quietPackets = 4
	busyRun      = 20_000 // ns
	clearly      = 10     // times as long
)

// Watch compares which taps had packets with which vhost threads ran between two inventories of the same host, and says
// in the second how sure its matches are by that. It takes a busy and a quiet NIC of one guest to tell; queues of one
// NIC are not told apart.
func Watch(before, after *Host) {
	taps := map[string]map[string]uint64{}
	for _, t := range before.Taps {
		taps[t.Name] = t.Stats
	}
	packets := map[string]uint64{}
	for _, t := range after.Taps {
		if was, seen := taps[t.Name]; seen {
			grew := increase(was, t.Stats)
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
		after.Guests[i].watch(packets, ran)
	}
}

// watch judges the threads of one guest. ran is how long threads had run before.
func (g *Guest) watch(packets map[string]uint64, ran map[int]uint64) {
	run := map[string]uint64{}
	for _, t := range g.Threads {
		was, seen := ran[t.TID]
		if t.Role != "vhost" || t.NIC == "" {
			continue
		}
		if !seen || t.RunNS == 0 {
			return // it is new, or the kernel does not count
		}
		run[t.NIC] += Grown(was, t.RunNS)
	}
	var busy, quiet []uint64 // how long the threads of NICs with and without packets ran
	for _, i := range g.NICs() {
		time, served := run[i.MAC]
		count, seen := packets[i.Tap]
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
	case least < busyRun && most >= clearly*busyRun:
		verdict = NotByOrder
	case least >= busyRun && clearly*most < least:
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
