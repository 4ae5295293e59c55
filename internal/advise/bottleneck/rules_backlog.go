package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// defaultBacklog is the kernel's default (net/core/hotdata.c, max_backlog).
const defaultBacklog = 1000

// backlogs blames the CPUs' backlogs of received packets where they overflow.
func backlogs(p *path) []suspect {
	lost := p.lossesAt(atBacklog)
	if len(lost) == 0 {
		return nil
	}
	worst := slices.MaxFunc(lost, func(a, b loss) int { return cmp.Compare(a.packets, b.packets) })
	f := suspect{kind: Backlog, object: "every CPU", strength: 0.7}
	full := false
	for _, s := range lost {
		f.addLoss(s)
		if s.cpu >= 0 {
			f.keys = append(f.keys, cpuKey(s.cpu))
			full = full || p.full(s.cpu) && p.softirqUse(s.cpu) > 0.6
		}
	}
	if worst.cpu >= 0 {
		f.object = cpuName(worst.cpu)
	}
	f.say = fmt.Sprintf("the queue of received packets of %s is full: %s of them are lost", f.object, percent(f.share))
	limit, known := p.reading(maxBacklog)
	if known {
		f.show("length of the queue", limit, "packets", "net.core.netdev_max_backlog")
		f.say += fmt.Sprintf("; it holds %.0f", limit)
	}
	switch {
	case known && limit < defaultBacklog/3:
		f.strength = 0.95
		if full { // a full CPU loses packets at any length, but so short a backlog loses more of them
			f.strength = 0.8
		}
	case full:
		f.strength = 0.55
	case known && limit >= 10*defaultBacklog:
		f.strength = 0.6
	}
	return []suspect{f}
}

// maxShortRound is how many packets a round that was cut short may have had, if the budget is not known: so few do not
// take the 2 ms after which rounds end for their time (net.core.netdev_budget_usecs).
const maxShortRound = 8

// budgets blames netdev_budget where rounds of the softirq are too short and have few packets each.
func budgets(p *path) (found []suspect) {
	set, known := p.reading(netdevBudget)
	if known && set >= facts.EnoughPerRound {
		return nil
	}
	for _, s := range p.l.Softnet {
		budget, from := set, "net.core.netdev_budget"
		if !known { // only the first network namespace has the setting
			budget, from = max(1, s.PerRound()), "/proc/net/softnet_stat, packets by time_squeeze"
			if s.Rounds > 0 {
				from = "/proc/net/softnet_stat, packets by rounds of NET_RX in /proc/softirqs"
			}
			if budget > maxShortRound {
				continue
			}
		}
		f := suspect{
			kind: Budget, object: cpuName(s.CPU), strength: 0.9, keys: []string{cpuKey(s.CPU)},
			say: fmt.Sprintf("rounds of the softirq on CPU %d end after %.0f packets, %s times a second before it "+
				"is done", s.CPU, budget, amount(p.rate(float64(s.Squeezed)))),
		}
		f.show("rounds cut short on "+cpuName(s.CPU), p.rate(float64(s.Squeezed)), "rounds/s",
			"/proc/net/softnet_stat, time_squeeze")
		f.show("packets for each round", budget, "packets", from)
		for _, at := range []place{atRing, atBacklog, atDevice} {
			for _, l := range p.lossesAt(at) {
				if l.cpu < 0 || l.cpu == s.CPU {
					f.addLoss(l)
				}
			}
		}
		if too, _ := s.RoundsTooShort(budget, f.lost); too && p.softirqUse(s.CPU) >= 0.25 {
			found = append(found, f)
		}
	}
	return mergeCauses(found)
}

// captureTools are programs that capture packets.
var captureTools = []string{"tcpdump", "dumpcap", "tshark", "suricata", "snort", "ntopng", "zeek"}

// captureCost returns the suspect of a CPU that spends much of its packet time (a share of the CPU) on copies for
// AF_PACKET sockets: of a capture, or of a measurement that receives that way.
func (p *path) captureCost(cpu int, packetTime float64) (suspect, bool) {
	whole, function := p.profileShare(cpu, "socket")
	share := min(whole/packetTime, 1)
	tool := p.busiestOf(func(t *facts.ThreadLoad) bool {
		return slices.ContainsFunc(captureTools, func(name string) bool { return strings.HasPrefix(t.Comm, name) })
	})
	own := p.busiestOf(func(t *facts.ThreadLoad) bool { return t.Role == "mpps" && t.Ran >= 0.03 })
	if share < 0.12 || !strings.Contains(function, "packet_rcv") && tool == nil {
		return suspect{}, false
	}
	f := suspect{
		kind: Capture, stage: "softirq", object: cpuName(cpu), strength: min(0.7+0.5*share, 0.92),
		say: fmt.Sprintf("%s of CPU %d goes into copies for packet sockets (%s)", percent(whole), cpu, function),
	}
	f.show(fmt.Sprintf("share of CPU %d in packet sockets", cpu), whole, "share", "profile: "+function)
	switch {
	case tool != nil:
		f.object = label(tool)
		f.show("share of a CPU that "+label(tool)+" uses", tool.Ran, "share", schedstat(tool))
	case own != nil:
		f.kind, f.stage, f.object = Receiver, "receiver", label(own)
		f.say += ", with which the measurement receives"
	}
	return f, true
}
