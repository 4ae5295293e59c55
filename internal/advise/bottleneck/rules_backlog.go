package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// usualBacklog is the kernel's default (net/core/hotdata.c, max_backlog).
const usualBacklog = 1000

func backlogs(k *look) []suspect {
	lost := k.lost(atBacklog)
	if len(lost) == 0 {
		return nil
	}
	worst := slices.MaxFunc(lost, func(a, b loss) int { return cmp.Compare(a.packets, b.packets) })
	f := suspect{kind: Backlog, object: "every CPU", strength: 0.7}
	full := false
	for _, s := range lost {
		f.lose(s)
		if s.cpu >= 0 {
			f.keys = append(f.keys, fmt.Sprintf("cpu:%d", s.cpu))
			full = full || k.full(s.cpu) && k.handling(s.cpu) > 0.6
		}
	}
	if worst.cpu >= 0 {
		f.object = fmt.Sprintf("CPU %d", worst.cpu)
	}
	f.say = fmt.Sprintf("the queue of received packets of %s is full: %s of them are lost", f.object, percent(f.share))
	limit, known := k.reading(maxBacklog)
	if known {
		f.evidence = append(f.evidence, Evidence{"length of the queue", limit, "packets",
			"net.core.netdev_max_backlog"})
		f.say += fmt.Sprintf("; it holds %.0f", limit)
	}
	switch {
	case known && limit < usualBacklog/3:
		f.strength = 0.95
		// what is not taken up is lost whatever the queue's length; but a queue this short loses also what would be
		if full {
			f.strength = 0.8
		}
	case full:
		f.strength = 0.55
	case known && limit >= 10*usualBacklog:
		f.strength = 0.6
	}
	return []suspect{f}
}

// fewTurns is how many packets a round that was cut short may have had where the setting cannot be seen: so few do not
// take the 2 ms at which rounds are cut for their time (net.core.netdev_budget_usecs).
const fewTurns = 8

func budget(k *look) (found []suspect) {
	set, known := k.reading(netdevTurns)
	if known && set >= 150 { // the default is 300 (net/core/hotdata.c)
		return nil
	}
	for _, s := range k.l.Softnet {
		turns := set
		if !known && s.Squeezed > 0 { // only the first network namespace has the setting
			if turns = float64(s.Processed) / float64(s.Squeezed); turns > fewTurns {
				continue
			}
			turns = max(1, turns)
		}
		if s.Squeezed == 0 || float64(s.Squeezed)*2*turns < float64(s.Processed) || k.handling(s.CPU) < 0.25 {
			continue // most rounds end by themselves
		}
		from := "net.core.netdev_budget"
		if !known {
			from = "/proc/net/softnet_stat, packets by time_squeeze"
		}
		f := suspect{
			kind: Budget, object: fmt.Sprintf("CPU %d", s.CPU), strength: 0.7,
			keys: []string{fmt.Sprintf("cpu:%d", s.CPU)},
			say: fmt.Sprintf("rounds of the softirq on CPU %d end after %.0f packets, %s times a second before it "+
				"is done", s.CPU, turns, amount(k.rate(float64(s.Squeezed)))),
			evidence: []Evidence{
				{fmt.Sprintf("rounds cut short on CPU %d", s.CPU), k.rate(float64(s.Squeezed)), "rounds/s",
					"/proc/net/softnet_stat, time_squeeze"},
				{"packets for each round", turns, "packets", from},
			},
		}
		for _, at := range []place{atRing, atBacklog, atDevice} {
			for _, l := range k.lost(at) {
				if l.cpu < 0 || l.cpu == s.CPU {
					f.lose(l)
				}
			}
		}
		if f.lost > 0 || k.full(s.CPU) {
			f.strength = 0.9
		}
		found = append(found, f)
	}
	return merge(found)
}

// watchers are programs that take copies of packets.
var watchers = []string{"tcpdump", "dumpcap", "tshark", "suricata", "snort", "ntopng", "zeek"}

// copies is a CPU of whose time for packets much goes into AF_PACKET sockets: somebody looks on, or that is how a
// measurement receives.
func (k *look) copies(cpu int, of float64) (suspect, bool) {
	whole, function := k.part(cpu, "socket")
	share := min(whole/of, 1)
	var reader, own *facts.ThreadLoad
	for i := range k.l.Threads {
		t := &k.l.Threads[i]
		if slices.ContainsFunc(watchers, func(w string) bool { return strings.HasPrefix(t.Comm, w) }) &&
			(reader == nil || t.Ran > reader.Ran) {
			reader = t
		}
		if t.Role == "mpps" && t.Ran >= 0.03 && (own == nil || t.Ran > own.Ran) {
			own = t
		}
	}
	if share < 0.12 || !strings.Contains(function, "packet_rcv") && reader == nil {
		return suspect{}, false
	}
	f := suspect{
		kind: Capture, stage: "softirq", object: fmt.Sprintf("CPU %d", cpu), strength: min(0.7+0.5*share, 0.92),
		say: fmt.Sprintf("%s of CPU %d goes into copies for packet sockets (%s)", percent(whole), cpu, function),
		evidence: []Evidence{{fmt.Sprintf("share of CPU %d in packet sockets", cpu), whole, "share", "profile: " +
			function}},
	}
	switch {
	case reader != nil:
		f.object = label(reader)
		f.evidence = append(f.evidence, Evidence{"share of a CPU that " + label(reader) + " uses", reader.Ran, "share",
			schedstat(reader)})
	case own != nil:
		f.kind, f.stage, f.object = Receiver, "receiver", label(own)
		f.say += ", with which the measurement receives"
	}
	return f, true
}
