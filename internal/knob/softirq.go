package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// Bounds that mpps sets itself: the founding values are the most that was tried with gain, and the kernel has no upper
// bounds of its own for the first two.
const (
	maxBacklog     = 100_000
	maxBudget      = 50_000
	maxBudgetUsecs = 20_000 // 2 jiffies at HZ=100; the founding 5000 µs is below the kernel's minimum at HZ=250
	maxWeight      = 6000
)

// softirqKnob is a sysctl that is raised, fourfold and within a bound, only while its counter grows.
func softirqKnob(id, title, sysctl string, least, bound int64, grows func(v *View) (uint64, string), doc Doc) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Softirq, Risk: goal.None, Tiers: viaKernel(), Most: bound, Doc: doc,
		Where: fixed(setting.Of(setting.Sysctl, sysctl)),
		Want: func(v *View, a setting.Address) Advice {
			if advice, needed := v.needsInterval(); needed {
				return advice
			}
			n, counter := grows(v)
			if n == 0 {
				if !v.busy() {
					return Unsure(fmt.Sprintf("%s did not grow %s, but there was hardly any load: %s", counter, v.over(), watch))
				}
				return Fine(fmt.Sprintf("%s did not grow %s under load", counter, v.over()))
			}
			now, known := number(v.Readings.At(a))
			if !known {
				return Wants(setting.Least(least), fmt.Sprintf("%s grew by %d %s", counter, n, v.over()))
			}
			if now >= bound {
				return Fine(fmt.Sprintf("%s grew by %d %s, but %d is as far as raising it has ever helped: more CPUs must share the work", counter, n, v.over(), now))
			}
			want := min(bound, max(least, 4*now))
			return Wants(setting.Least(want), fmt.Sprintf("%s grew by %d %s", counter, n, v.over())).At(High)
		},
	}
}

// busy tells whether the host took in enough packets while mpps watched to say anything about load.
func (v *View) busy() bool {
	return v.Interval != nil && v.Interval.Seconds > 0 && float64(v.Interval.Processed())/v.Interval.Seconds >= max(1000, v.Goal.PPS/100)
}

func dropped(v *View) (uint64, string)  { return v.Interval.Dropped(), "softnet dropped" }
func squeezed(v *View) (uint64, string) { return v.Interval.Squeezed(), "softnet time_squeeze" }

var softirqBacklog = softirqKnob("softirq.backlog", "Packets waiting for a CPU's softirq", "net.core.netdev_max_backlog", 10_000, maxBacklog, dropped, Doc{
	Want: "four times as much, up to 100,000, while softnet dropped grows; else as it is",
	Why: "Packets that one CPU hands to another (RPS), and those of devices without NAPI (veth, tunnels, loopback, old vhost paths), wait in a queue of each CPU. When it is full they are dropped, which softnet_stat counts. " +
		"NICs with NAPI do not use this queue: for them the ring is what overflows.",
	Cost:   "Memory for waiting packets and, when the CPU is too slow for good, only a longer wait before the same loss.",
	Verify: "The second column of /proc/net/softnet_stat stops growing under load.",
	Traps: []string{
		"Totals since boot prove nothing: a burst last week still stands in them. mpps looks at an interval only.",
		"Raising it \"to be safe\" hides that one CPU does all the work.",
	},
	Sources: []Source{
		{"where packets are dropped", "net/core/dev.c, enqueue_to_backlog"},
		{"columns", "net/core/net-procfs.c, softnet_seq_show"},
		{"up to 100000", "founding measurements"},
	},
})

var softirqBudget = softirqKnob("softirq.budget", "Packets for each round of the softirq", "net.core.netdev_budget", 600, maxBudget, squeezed, Doc{
	Want:   "four times as much, up to 50,000, while time_squeeze grows; else as it is",
	Why:    "A round of NET_RX ends after this many packets or after netdev_budget_usecs, whichever is first; what remains waits for the next round or for ksoftirqd, which competes with everything else. time_squeeze counts such ends.",
	Cost:   "Other softirqs and tasks of that CPU wait longer: on a CPU with a vCPU the guest feels it.",
	Verify: "The third column of /proc/net/softnet_stat (time_squeeze) grows no more, or less.",
	Traps: []string{
		"The kernel sets no bounds here: a typing error of many digits is taken. mpps goes to 50000 at most.",
		"time_squeeze grows by a few on every busy host; it matters when it grows with losses.",
		"Raising the budget alone changes nothing when the time runs out first (netdev_budget_usecs).",
	},
	Sources: []Source{
		{"end of a round", "net/core/dev.c, net_rx_action"},
		{"no bounds", "net/core/sysctl_net_core.c: netdev_budget, proc_dointvec"},
		{"up to 50000", "founding measurements"},
	},
})

var softirqBudgetUsecs = softirqKnob("softirq.budget_usecs", "Time for each round of the softirq", "net.core.netdev_budget_usecs", 8000, maxBudgetUsecs, squeezed, Doc{
	Want:   "four times as much, up to 20,000 µs, while time_squeeze grows; else as it is",
	Why:    "The other end of a round: after this many microseconds the softirq lets go, however many packets wait.",
	Cost:   "Tasks on that CPU wait up to this long.",
	Verify: "time_squeeze in /proc/net/softnet_stat grows no more, or less; the sysctl reads back as written.",
	Traps: []string{
		"The often quoted 5000 is refused with EINVAL by newer kernels at HZ=250: the minimum is two jiffies, 2000 at HZ=1000, 8000 at HZ=250, 20000 at HZ=100. It is also the default, so the value is never lowered here.",
		"The time is checked in jiffies: values between two jiffies round up.",
	},
	Sources: []Source{
		{"minimum of two jiffies", "net/core/sysctl_net_core.c, netdev_budget_usecs_min = 2 * USEC_PER_SEC / HZ; also in stable kernels since March 2025"},
		{"the default is the minimum", "net/core/hotdata.c: .netdev_budget_usecs = 2 * USEC_PER_SEC / HZ"},
		{"5000", "founding measurements, on a kernel without the minimum"},
	},
})

var softirqWeight = softirqKnob("softirq.weight", "Packets for each turn of a device", "net.core.dev_weight", 256, maxWeight, squeezed, Doc{
	Want:   "four times as much, up to 6,000, while time_squeeze grows; else as it is",
	Why:    "How many packets the backlog device (veth, RPS, tunnels) handles in one turn before other devices have theirs. A larger weight means fewer turns for the same packets.",
	Cost:   "Other devices on the CPU wait longer for their turn.",
	Verify: "time_squeeze grows less with the same load.",
	Traps: []string{
		"Drivers' own NAPI weight is 64 whatever stands here; only the backlog and qdisc processing follow it (times dev_weight_rx_bias and dev_weight_tx_bias).",
	},
	Sources: []Source{
		{"what follows it", "net/core/sysctl_net_core.c, proc_do_dev_weight; net/core/dev.c, process_backlog"},
		{"up to 6000", "founding measurements"},
	},
})
