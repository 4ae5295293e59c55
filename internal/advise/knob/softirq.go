package knob

import (
	"fmt"
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Bounds that mpps sets itself: the kernel does not bound the first two (net/core/sysctl_net_core.c).
const (
	maxBacklog     = 100_000
	maxBudget      = 50_000
	maxBudgetUsecs = 20_000 // 2 jiffies at HZ=100, the least that such a kernel takes
	maxWeight      = 6000
)

var (
	netdevBacklog     = setting.Of(setting.Sysctl, "net.core.netdev_max_backlog")
	netdevBudget      = setting.Of(setting.Sysctl, "net.core.netdev_budget")
	netdevBudgetUsecs = setting.Of(setting.Sysctl, "net.core.netdev_budget_usecs")
	devWeight         = setting.Of(setting.Sysctl, "net.core.dev_weight")
)

// softirqKnob is a sysctl that is raised, fourfold and up to bound, only for evidence of an interval under load.
func softirqKnob(id, title string, at setting.Address, bound int64, want func(v *View, now int64) Advice) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Softirq, Risk: goal.None, Tiers: viaKernel(), Most: bound,
		Where: fixed(at),
		Want: func(v *View, a setting.Address) Advice {
			if advice, needed := v.noInterval(); needed {
				return advice
			}
			now, known := number(v.Readings.At(a))
			if !known {
				return Fine("judged only against its present value")
			}
			return want(v, now)
		},
	}
}

// raise is advice to raise a value of softirqKnob fourfold, to least at least and bound at most.
func raise(now, least, bound int64, because string) Advice {
	if now >= bound {
		return Fine(fmt.Sprintf("%s, but %d is as far as mpps raises it: more CPUs must share the work", because, now))
	}
	return Wants(setting.Least(min(bound, max(least, 4*now))), because)
}

// quiet is the answer where nothing points at a softirq setting: fine under load, unsure without.
func (v *View) quiet(what string) Advice {
	if v.Interval.Seconds <= 0 || float64(v.Interval.Processed())/v.Interval.Seconds < max(1000, v.Goal.PPS/100) {
		return Unsure(fmt.Sprintf("%s %s, but there was hardly any load: %s", what, v.overInterval(), watchHint))
	}
	return Fine(fmt.Sprintf("%s %s under load", what, v.overInterval()))
}

// lossSeverity is High for a loss that is more than noise, otherwise Low.
func lossSeverity(lost, passed uint64) Severity {
	if facts.LossMatters(float64(lost), float64(passed)) {
		return High
	}
	return Low
}

var softirqBacklog = softirqKnob("softirq.backlog", "Packets waiting for a CPU's softirq", netdevBacklog, maxBacklog,
	func(v *View, now int64) Advice {
		lost := v.Interval.Dropped()
		if lost == 0 {
			return v.quiet("softnet dropped did not grow")
		}
		return raise(now, 10_000, maxBacklog, fmt.Sprintf("softnet dropped grew by %d %s", lost, v.overInterval())).
			At(lossSeverity(lost, v.Interval.Processed()))
	})

// shortRounds are the CPUs on which rounds of NET_RX end too early (facts.Softnet.RoundsTooShort).
type shortRounds struct {
	rows    []facts.Softnet
	cut     int  // CPUs on which any round was cut short
	unknown bool // whether they are too short cannot be determined: neither the rounds nor the budget is known
}

func (v *View) shortRounds() (s shortRounds) {
	budget, _ := number(v.Readings.At(netdevBudget))
	for _, row := range v.Interval.Softnet {
		if row.Squeezed == 0 {
			continue
		}
		s.cut++
		switch too, known := row.RoundsTooShort(float64(budget), float64(row.Dropped+v.ringLosses(row.CPU))); {
		case !known:
			s.unknown = true
		case too:
			s.rows = append(s.rows, row)
		}
	}
	return s
}

// ringLosses returns the packets that found a full ring on the NICs that a CPU serves. A NIC whose interrupts' CPUs are
// not known counts for every CPU.
func (v *View) ringLosses(cpu int) (lost uint64) {
	for i := range v.NICs {
		n := &v.NICs[i]
		var serving setting.CPUSet
		for _, irq := range n.IRQs {
			serving = serving.Or(irq.Effective)
		}
		if len(serving) == 0 || serving.Has(cpu) {
			grown, _ := v.maxGrowth(n.Name, facts.RingFullCounters)
			lost += grown
		}
	}
	return lost
}

// judge returns why rounds are left as they are; ok if longer ones could help, with the CPUs.
func (s shortRounds) judge(v *View) (cpus setting.CPUSet, advice Advice, ok bool) {
	switch {
	case s.cut == 0:
		return nil, v.quiet("softnet time_squeeze did not grow"), false
	case s.unknown && len(s.rows) == 0:
		return nil, Unsure("rounds were cut short, but how many there were was not recorded (/proc/softirqs)"), false
	case len(s.rows) == 0:
		return nil, Fine(fmt.Sprintf("rounds were cut short on %s %s, but not most of them with packets lost: the "+
			"next round works off what is left", Count(s.cut, "CPU"), v.overInterval())), false
	}
	for _, row := range s.rows {
		cpus = cpus.Or(setting.CPUs(row.CPU))
	}
	if who := v.guestThreadOn(cpus); who != "" {
		return nil, Fine(fmt.Sprintf("rounds on CPU %s are too short for their packets, but %s may run there, and "+
			"longer ones would take its time: give the interrupts dedicated CPUs first (nic.irq_affinity)", cpus,
			who)), false
	}
	return cpus, Advice{}, true
}

// guestThreadOn returns a vCPU or vhost thread that may run on one of some CPUs: "vhost of vm1"; empty if none may. A
// running guest whose threads are not known may run anywhere.
func (v *View) guestThreadOn(cpus setting.CPUSet) string {
	for i := range v.Guests {
		g := &v.Guests[i]
		if g.State != "running" {
			continue
		}
		vcpus := pinnedCPUs(g)
		for _, t := range g.Threads {
			switch t.Role {
			case "vcpu":
				vcpus = vcpus.Or(t.Affinity)
			case "vhost":
				if at := v.threadCPUs(g, t); len(at) == 0 || len(at.And(cpus)) > 0 {
					return "vhost of " + g.Name
				}
			}
		}
		unpinned := len(g.Pins) < g.VCPUs || slices.ContainsFunc(g.VCPUPins(), func(p setting.CPUSet) bool {
			return len(p) == 0
		})
		if len(vcpus.And(cpus)) > 0 || unpinned && !slices.ContainsFunc(g.Threads, isVCPU) {
			return "a vCPU of " + g.Name
		}
	}
	return ""
}

func isVCPU(t facts.Thread) bool { return t.Role == "vcpu" && len(t.Affinity) > 0 }

// byTime reports whether rounds end because their time is over, with less than half of the budget used.
func byTime(row facts.Softnet, budget int64) bool {
	return budget > 0 && row.PerRound() < float64(budget)/2
}

// roundsKnob raises one of the two limits of a round, on CPUs where that limit ends them.
func roundsKnob(id, title string, at setting.Address, least, bound int64, ofTime bool) *Knob {
	return softirqKnob(id, title, at, bound, func(v *View, now int64) Advice {
		short := v.shortRounds()
		cpus, advice, ok := short.judge(v)
		if !ok {
			return advice
		}
		budget, _ := number(v.Readings.At(netdevBudget))
		ended := slices.DeleteFunc(short.rows, func(row facts.Softnet) bool { return byTime(row, budget) != ofTime })
		if len(ended) == 0 {
			return Fine(fmt.Sprintf("rounds on CPU %s end because of their other limit", cpus))
		}
		severity := Low // a round's cost is shared by many packets already
		if ended[0].PerRound() < facts.EnoughPerRound {
			severity = High
		}
		return raise(now, least, bound, fmt.Sprintf("on CPU %s most rounds end with packets left, after %.0f each, "+
			"and packets were lost %s", cpus, ended[0].PerRound(), v.overInterval())).At(severity)
	})
}

var (
	softirqBudget = roundsKnob("softirq.budget", "Packets for each round of the softirq", netdevBudget, 600, maxBudget,
		false)
	softirqBudgetUsecs = roundsKnob("softirq.budget_usecs", "Time for each round of the softirq", netdevBudgetUsecs,
		8000, maxBudgetUsecs, true)
)

var softirqWeight = softirqKnob("softirq.weight", "Packets for each turn of the backlog", devWeight, maxWeight,
	func(v *View, now int64) Advice {
		short := v.shortRounds()
		if short.cut == 0 {
			return v.quiet("softnet time_squeeze did not grow")
		}
		overflows := slices.ContainsFunc(short.rows, func(row facts.Softnet) bool {
			return facts.LossMatters(float64(row.Dropped), float64(row.Processed))
		})
		if !overflows {
			return Fine("it bounds turns of a CPU's backlog only, and no backlog overflowed " + v.overInterval() +
				" where rounds are too short: NICs' turns are 64 packets whatever it is")
		}
		budget, known := number(v.Readings.At(netdevBudget))
		if !known {
			return Unsure("a turn must not be longer than a round, and net.core.netdev_budget is not known")
		}
		return raise(now, 0, min(maxWeight, budget), "a CPU's backlog overflowed "+v.overInterval()+" while its "+
			"rounds ended with packets left: more of them are its own with a longer turn").At(Low)
	})
