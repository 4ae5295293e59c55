package knob

import (
	"fmt"

	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Bounds that mpps sets itself: the founding values are the largest that were tried with a gain, and the kernel does
// not bound the first two.
const (
	maxBacklog     = 100_000
	maxBudget      = 50_000
	maxBudgetUsecs = 20_000 // 2 jiffies at HZ=100; the founding 5000 µs is below the kernel's minimum at HZ=250
	maxWeight      = 6000
)

// softirqKnob is a sysctl that is raised, fourfold and up to bound, only while its counter grows.
func softirqKnob(id, title, sysctl string, least, bound int64, grows func(v *View) (uint64, string)) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Softirq, Risk: goal.None, Tiers: viaKernel(), Most: bound,
		Where: fixed(setting.Of(setting.Sysctl, sysctl)),
		Want: func(v *View, a setting.Address) Advice {
			if advice, needed := v.noInterval(); needed {
				return advice
			}
			n, counter := grows(v)
			if n == 0 {
				if !v.busy() {
					return Unsure(fmt.Sprintf("%s did not grow %s, but there was hardly any load: %s", counter,
						v.overInterval(), watchHint))
				}
				return Fine(fmt.Sprintf("%s did not grow %s under load", counter, v.overInterval()))
			}
			now, known := number(v.Readings.At(a))
			if !known {
				return Wants(setting.Least(least), fmt.Sprintf("%s grew by %d %s", counter, n, v.overInterval()))
			}
			if now >= bound {
				return Fine(fmt.Sprintf("%s grew by %d %s, but %d is as far as raising it has ever helped: more CPUs "+
					"must share the work", counter, n, v.overInterval(), now))
			}
			want := min(bound, max(least, 4*now))
			return Wants(setting.Least(want), fmt.Sprintf("%s grew by %d %s", counter, n, v.overInterval())).At(High)
		},
	}
}

// busy reports whether the host received enough packets in the interval to judge it under load.
func (v *View) busy() bool {
	return v.Interval != nil && v.Interval.Seconds > 0 &&
		float64(v.Interval.Processed())/v.Interval.Seconds >= max(1000, v.Goal.PPS/100)
}

func dropped(v *View) (uint64, string)  { return v.Interval.Dropped(), "softnet dropped" }
func squeezed(v *View) (uint64, string) { return v.Interval.Squeezed(), "softnet time_squeeze" }

var (
	softirqBacklog = softirqKnob("softirq.backlog", "Packets waiting for a CPU's softirq",
		"net.core.netdev_max_backlog", 10_000, maxBacklog, dropped)
	softirqBudget = softirqKnob("softirq.budget", "Packets for each round of the softirq",
		"net.core.netdev_budget", 600, maxBudget, squeezed)
	softirqBudgetUsecs = softirqKnob("softirq.budget_usecs", "Time for each round of the softirq",
		"net.core.netdev_budget_usecs", 8000, maxBudgetUsecs, squeezed)
	softirqWeight = softirqKnob("softirq.weight", "Packets for each turn of a device",
		"net.core.dev_weight", 256, maxWeight, squeezed)
)
