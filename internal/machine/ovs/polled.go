package ovs

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mpps/internal/model/facts"
)

// The answers are texts for people, and differ between versions. A line that is not of the form that is known here is
// an error: nothing is taken from such an answer. Lines of counters that a newer version adds are the exception, since
// each has its name.

// textError is a line that is not as expected.
type textError struct{ command, line string }

func (e *textError) Error() string {
	return fmt.Sprintf("ovs-vswitchd answers %s as no version that mpps knows: %.120q", e.command, e.line)
}

const mostPMDs, mostQueues = 1024, 16384

// form returns a form of lines, compiled at its first use: few hosts have such threads, and every command would wait.
func form(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Lines of pmd-rxq-show (lib/dpif-netdev.c, pmd_info_show_rxq). A port's name has no blank (lib/netdev.c).
var (
	rxqThread = form(`^pmd thread numa_id (-?\d{1,9}) core_id (\d{1,9}):$`)
	rxqAlone  = form(`^  isolated ?: (true|false)$`)
	rxqQueue  = form(`^  port: (\S{1,255}) +queue-id: +(\d{1,5})(?: \((enabled|disabled)\) +|  +)` +
		`pmd usage: +(?:(\d{1,3}) %|(NOT AVAIL))$`)
	rxqOverhead = form(`^  overhead: +(?:(\d{1,3}) %|(NOT AVAIL))$`)
	rxqDisplay  = form(`^Displaying last \d+ seconds pmd usage %$`)
)

// number parses what a regular expression found; −1 for nothing.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// parseQueues reads the answer of pmd-rxq-show: the polling threads with their queues. Usage is in per cent of the last
// minute, which versions from 3.1 on say in a separate line.
func parseQueues(text string) ([]facts.PMD, error) {
	pmds := []facts.PMD{}
	queues := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		at := len(pmds) - 1
		switch m := rxqThread().FindStringSubmatch(line); {
		case m != nil:
			p := facts.PMD{CPU: number(m[2]), Node: number(m[1]), Queues: []facts.PMDQueue{}, Overhead: -1}
			same := func(o facts.PMD) bool { return o.CPU == p.CPU }
			if len(pmds) == mostPMDs || slices.ContainsFunc(pmds, same) {
				return nil, &textError{askQueues, line}
			}
			pmds = append(pmds, p)
			continue
		case line == "" || rxqDisplay().MatchString(line):
			continue
		case at < 0:
			return nil, &textError{askQueues, line}
		}
		if m := rxqAlone().FindStringSubmatch(line); m != nil {
			pmds[at].Isolated = m[1] == "true"
		} else if m := rxqOverhead().FindStringSubmatch(line); m != nil {
			pmds[at].Overhead = number(m[1])
		} else if m := rxqQueue().FindStringSubmatch(line); m != nil && queues < mostQueues {
			queues++
			pmds[at].Queues = append(pmds[at].Queues, facts.PMDQueue{Port: m[1], Queue: number(m[2]),
				Enabled: m[3] != "disabled", Usage: number(m[4])})
		} else {
			return nil, &textError{askQueues, line}
		}
	}
	return pmds, nil
}

// Lines of pmd-stats-show (lib/dpif-netdev.c, pmd_info_show_stats).
var (
	statsThread  = form(`^(?:pmd thread numa_id (-?\d{1,9}) core_id (\d{1,9})|main thread):$`)
	statsCounter = form(`^  ([a-z][a-z.\- ]{0,60}): (\d{1,20})(?: \( *\d+\.\d+%\))?$`)
	statsMean    = form(`^  (avg\.? [a-z ]{1,60}): (\d{1,17})\.(\d\d)(?: \(\d+/\d+\))?$`)
)

// parseStats adds the answer of pmd-stats-show to the threads, without the main thread, which polls other ports.
func parseStats(text string, pmds []facts.PMD) error {
	var at *facts.PMD
	thread := false
	counted := map[int]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := statsThread().FindStringSubmatch(line); m != nil {
			thread, at = true, nil
			if m[2] != "" {
				cpu := number(m[2])
				at = facts.Find(pmds, func(p *facts.PMD) bool { return p.CPU == cpu })
				counted[cpu] = true
			}
			continue
		}
		counter := statsCounter().FindStringSubmatch(line)
		mean := statsMean().FindStringSubmatch(line)
		switch {
		case line == "":
		case !thread || counter == nil && mean == nil:
			return &textError{askStats, line}
		case at == nil:
		case counter != nil:
			n, err := strconv.ParseUint(counter[2], 10, 64)
			if err != nil {
				return &textError{askStats, line}
			}
			if to := counterOf(at, counter[1]); to != nil {
				*to = n
			}
		case mean[1] == "avg. subtable lookups per megaflow hit":
			whole, err := strconv.ParseUint(mean[2], 10, 64)
			if err != nil || whole > math.MaxUint32 {
				return &textError{askStats, line}
			}
			at.Lookups = whole*100 + uint64(number(mean[3]))
		}
	}
	for _, p := range pmds {
		if !counted[p.CPU] { // it was started between the two questions, or this is no such answer
			return &textError{askStats, fmt.Sprintf("nothing of core %d", p.CPU)}
		}
	}
	return nil
}

// counterOf returns where a counter of pmd-stats-show goes; nil for one that is not kept.
func counterOf(p *facts.PMD, name string) *uint64 {
	switch name {
	case "packets received":
		return &p.Packets
	case "phwol hits":
		return &p.Offloaded
	case "simple match hits":
		return &p.Simple
	case "emc hits":
		return &p.EMC
	case "smc hits":
		return &p.SMC
	case "megaflow hits":
		return &p.Megaflow
	case "miss with success upcall":
		return &p.Upcalls
	case "miss with failed upcall":
		return &p.Lost
	case "idle cycles":
		return &p.IdleTSC
	case "processing cycles":
		return &p.BusyTSC
	}
	return nil
}

// Lines of get-mempool-info (DPDK's lib/mempool/rte_mempool.c, rte_mempool_dump).
var (
	poolHead  = form(`^mempool <([^<>]{1,64})>@0x[0-9a-f]+$`)
	poolValue = form(`^ +([a-z_]+)(\[\d+\])?=(\d{1,19})$`)
)

const mostPools = 256

// parsePools reads the pools of packet buffers. It skips the dump's many other lines, whatever their form; a pool
// without its size or free buffers is an error.
func parsePools(text string) ([]facts.MbufPool, error) {
	type found struct {
		facts.MbufPool
		size, free bool
	}
	var all []found
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := poolHead().FindStringSubmatch(line); m != nil && len(all) < mostPools {
			all = append(all, found{MbufPool: facts.MbufPool{Name: m[1], Node: -1}})
			continue
		}
		m := poolValue().FindStringSubmatch(line)
		if m == nil || len(all) == 0 {
			continue
		}
		p := &all[len(all)-1]
		n, err := strconv.ParseUint(m[3], 10, 64)
		if err != nil {
			return nil, &textError{askPools, line}
		}
		switch m[1] {
		case "socket_id":
			p.Node = int(min(n, math.MaxInt32))
		case "size":
			p.Size, p.size = n, true
		case "common_pool_count":
			p.Free, p.free = p.Free+n, true
		case "cache_count", "total_cache_count":
			if m[2] == "" { // the sum of the single ones
				p.Free += n
			}
		}
	}
	pools := []facts.MbufPool{}
	for _, p := range all {
		if !p.size || !p.free {
			return nil, &textError{askPools, "mempool <" + p.Name + "> without its size or what is free"}
		}
		pools = append(pools, p.MbufPool)
	}
	return pools, nil
}

// Lines of dpctl/show -s (lib/dpctl.c, show_dpif). A counter that a port does not have is a question mark.
var (
	showPort = form(`^  port (\d{1,9}): (\S{1,255})(?: \(([a-z0-9_-]{1,64})(?:: .*)?\))?$`)
	showRx   = form(`^    RX packets:(\d{1,20}|\?) errors:(?:\d+|\?) dropped:(\d{1,20}|\?) `)
	showTx   = form(`^    TX packets:(\d{1,20}|\?) errors:(?:\d+|\?) dropped:(\d{1,20}|\?) `)
	showHead = form(`^(\S+@\S+):$`)
)

// queuesOf returns how many receive queues of a port the polling threads have. dpctl/show has the number for some ports
// only, and 3.5 in another form than 3.1 (lib/netdev-dpdk.c, netdev_dpdk_get_config).
func queuesOf(port string, pmds []facts.PMD) (n int) {
	for _, p := range pmds {
		n += facts.Count(p.Queues, func(q facts.PMDQueue) bool { return q.Port == port })
	}
	return n
}

// parsePorts reads the ports of ovs-vswitchd's own datapath. The kernel's, which may come first, is skipped. A port
// without counters has zeros: its guest is not connected.
func parsePorts(text string) ([]facts.PolledPort, error) {
	all := []facts.PolledPort{}
	user, known := false, false
	var at *facts.PolledPort
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := showHead().FindStringSubmatch(line); m != nil {
			user = strings.HasPrefix(m[1], facts.UserDatapath+"@")
			known = known || user
			continue
		}
		if !user {
			continue
		}
		if m := showPort().FindStringSubmatch(line); m != nil {
			if len(all) == maxRows {
				return nil, &textError{askPorts, line}
			}
			all = append(all, facts.PolledPort{Name: m[2], Type: m[3]})
			at = &all[len(all)-1]
			continue
		}
		var packets, dropped *uint64
		m := showRx().FindStringSubmatch(line)
		switch {
		case m != nil && at != nil:
			packets, dropped = &at.RxPackets, &at.RxDropped
		case at != nil:
			if m = showTx().FindStringSubmatch(line); m != nil {
				packets, dropped = &at.TxPackets, &at.TxDropped
			}
		}
		if packets != nil {
			*packets, _ = strconv.ParseUint(m[1], 10, 64)
			*dropped, _ = strconv.ParseUint(m[2], 10, 64)
		} else if strings.HasPrefix(line, "  port ") || strings.HasPrefix(line, "    RX packets") ||
			strings.HasPrefix(line, "    TX packets") {
			return nil, &textError{askPorts, line}
		}
	}
	if !known {
		return nil, &textError{askPorts, "no datapath " + facts.UserDatapath}
	}
	slices.SortFunc(all, func(a, b facts.PolledPort) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
