package knob

import (
	"fmt"
	"math/bits"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// leastRing is the shortest ring that is planned or tried: at 1 Mpps 256 descriptors last for 256 µs, which an
// interrupt and a round of the softirq take.
const leastRing = 256

// cutRing is a length below that of every driver's default (tg3 has 200): somebody cut such a ring.
const cutRing = 128

// txRingCounters count how often a transmit ring was full; names differ by driver.
var txRingCounters = []string{"tx_restart_queue", "tx_restart", "tx_busy", "tx_queue_stopped", "tx_queue_#_restart"}

var (
	nicRingRx = nicRing("rx", "Receive descriptors per NIC queue", facts.RingFullCounters, "rx_packets")
	nicRingTx = nicRing("tx", "Transmit descriptors per NIC queue", txRingCounters, "tx_packets")
)

// nicRing is a ring that is lengthened while it overflows. A plan never shortens it.
func nicRing(direction, title string, counters []string, passed string) *Knob {
	return &Knob{
		ID: "nic.ring." + direction, Title: title,
		Stage: datapath.NIC, Risk: goal.Blip, After: []string{"nic.channels"},
		Where: eachNIC(func(n *facts.NIC) bool { return n.Rings != nil }, onlyNIC(setting.NICRing, direction)),
		Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
			reading := v.Readings.At(a)
			size, known := number(reading)
			if !known {
				return Fine("judged only against its present size")
			}
			most := ringMost(n, direction, reading)
			if advice, overflows := v.overflow(n, size, most, counters, passed); overflows {
				return advice
			}
			switch {
			case size < cutRing && size < most:
				return onNIC(n, Wants(setting.Least(min(leastRing, most)),
					fmt.Sprintf("%d descriptors last for only %d µs at 1 Mpps", size, size)).At(Low))
			case v.Goal.PPS == 0 && v.Goal.Latency == 0: // bulk: frames are large, bursts long
				return Fine("for bulk data the ring may be as long as it is")
			case !v.underLoad(n.Name):
				return Unsure("it is lengthened only while packets find it full, which shows under load: " + watchHint)
			}
			advice := Fine("nothing overflowed " + v.overInterval() + " under load")
			if direction == "rx" && v.Goal.PPS > 0 {
				advice.Trial = v.shorterRing(n, size)
			}
			return onNIC(n, advice)
		}),
	}
}

// ringMost returns the longest that a ring can be; 0 if the driver does not tell.
func ringMost(n *facts.NIC, direction string, reading setting.Reading) int64 {
	switch {
	case reading.Max != nil:
		return *reading.Max
	case direction == "rx":
		return int64(n.Rings.MaxRx)
	}
	return int64(n.Rings.MaxTx)
}

// overflow returns advice on a ring that packets found full in the interval; false if none did.
func (v *View) overflow(n *facts.NIC, size, most int64, counters []string, passed string) (Advice, bool) {
	if v.Interval == nil || v.Interval.Seconds <= 0 {
		return Advice{}, false
	}
	lost, name := v.maxGrowth(n.Name, counters)
	if lost == 0 {
		return Advice{}, false
	}
	because := fmt.Sprintf("%s grew by %d %s", name, lost, v.overInterval())
	switch {
	case most == 0:
		return Unsure(because + ", but the driver does not tell how long the ring can be"), true
	case size >= most:
		return Fine(because + ", but the ring is at its maximum already: the CPU that serves it is too slow, not the " +
			"ring too short"), true
	}
	through, _ := v.Interval.Counter(n.Name, passed)
	want := min(most, max(2*size, 2*leastRing))
	return onNIC(n, Wants(setting.Least(want), because+": the ring overflows").At(lossSeverity(lost, through))), true
}

// Sizes that a received packet takes in memory besides its own bytes.
const (
	cacheLine       = 64
	descriptorBytes = 32 // i40e, ice; 16 with ixgbe and igb
)

// ringBytes returns what a NIC writes before it comes back to the same buffer: a descriptor and the lines of a packet
// of each descriptor of each queue.
func ringBytes(size, queues, packet int64) int64 {
	return size * queues * ((packet+cacheLine-1)/cacheLine*cacheLine + descriptorBytes)
}

// shorterRing returns a shorter receive ring to try: the longest, a power of two and at least leastRing, whose packets
// fit into the cache that the NIC writes to. It is nil if the present one fits, none does, or that is not known.
func (v *View) shorterRing(n *facts.NIC, size int64) *Trial {
	if !v.underLoad(n.Name) {
		return nil
	}
	packets, _ := v.Interval.Counter(n.Name, "rx_packets")
	bytes, named := v.Interval.Counter(n.Name, "rx_bytes")
	cache, how := v.cacheOf(n)
	if named == "" || packets == 0 || cache == 0 || n.RxQueues == 0 {
		return nil
	}
	packet, queues := int64(bytes/packets), int64(n.RxQueues)
	if ringBytes(size, queues, packet) <= cache {
		return nil
	}
	want := int64(1) << (bits.Len64(uint64(size-1)) - 1) // the next power of two below
	for ; want >= leastRing; want /= 2 {
		if need := ringBytes(want, queues, packet); need <= cache {
			return &Trial{setting.Most(want), fmt.Sprintf("%d descriptors of %s with packets of %d bytes are %s, more "+
				"than %s (%s); those of %d descriptors are %s", size, Count(n.RxQueues, "queue"), packet,
				mebibytes(ringBytes(size, queues, packet)), mebibytes(cache), how, want, mebibytes(need))}
		}
	}
	return nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// ddioWays is the share of the last-level cache that a NIC's writes may take on Intel servers by default: 2 of 11 ways
// on Skylake and Cascade Lake, less on others (Farshin et al., Reexamining Direct Cache Access, USENIX ATC 2020).
const ddioWays = 2.0 / 11

// cacheOf returns how much of the last-level caches of a NIC's node its writes may take, in bytes, and which part that
// is; 0 if unknown. Where the NIC does not write into the cache at all, it is how much may be left there for the CPUs.
func (v *View) cacheOf(n *facts.NIC) (size int64, how string) {
	level := 0
	for _, c := range v.Topology.Caches {
		level = max(level, c.Level)
	}
	node, found := v.Topology.Node(n.Node)
	if !found && len(v.Topology.Nodes) == 1 {
		node, found = v.Topology.Nodes[0], true
	}
	if level < 3 || !found {
		return 0, ""
	}
	for _, c := range v.Topology.Caches {
		if c.Level == level && len(c.CPUs.And(node.CPUs)) > 0 {
			size += int64(c.Size)
		}
	}
	if v.Topology.Vendor == "GenuineIntel" {
		return int64(float64(size) * ddioWays), fmt.Sprintf("2 of 11 ways of node %d's last-level cache, which DDIO "+
			"writes to", node.ID)
	}
	return size, fmt.Sprintf("node %d's last-level cache", node.ID)
}
