package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Kinds of the host's housekeeping and of VFs.
const (
	// ModuleParam: "module-param:kvm_intel/ple_gap", a module and its parameter. The text that the kernel shows,
	// trimmed. Parameters that take effect only when the module is loaded are read-only here.
	ModuleParam Kind = "module-param"
	// ThreadSched: "thread-sched:ksoftirqd/3", the name of a kernel thread. The scheduling policy, for realtime
	// policies with the priority: "SCHED_FIFO 2", "SCHED_OTHER". Absent if there is no such thread.
	ThreadSched Kind = "thread-sched"
	// ThreadCPUs: "thread-cpus:kernel", the kernel threads that belong to no CPU, all of them as one value: the online
	// CPUs that at least one of them may use, a CPU list. Writing it removes the other CPUs from each mask; a thread
	// that has none left gets the whole list. Not included: threads that cannot be moved (PF_NO_SETAFFINITY: per-CPU
	// threads, kworkers), those of interrupts, which follow their interrupt, and vhost's. Each thread's CPUs are
	// recorded with the value, for a rollback.
	ThreadCPUs Kind = "thread-cpus"
	// KSM: "ksm:run" or "ksm:merge_across_nodes". A count. Writing run=0 unmerges pages first, and so does writing
	// merge_across_nodes, because the kernel refuses that while pages are shared; run itself is not changed by it.
	KSM Kind = "ksm"
	// Swap: "swap:dev/sda2", the path of a swap area without the leading slash. "off", "on", or "on 5" with an explicit
	// priority (0 and up; the kernel assigns negative ones itself).
	Swap Kind = "swap"
	// TraceEvents: "trace-events:set_event", the events that the kernel's main trace buffer records. "none", or their
	// names ("sched:sched_switch"), sorted, separated by one space.
	TraceEvents Kind = "trace-events"
	// IRQCPUs: "irq-cpus:9/acpi", an interrupt that belongs to no NIC: its number and the name of a handler, which must
	// still be that number's; or "irq-cpus:default", where new interrupts go. A CPU list.
	IRQCPUs Kind = "irq-cpus"
	// RuleSet: "rule-set:iptables-legacy", a tool and all rules that it can save (iptables-legacy, ip6tables-legacy,
	// ebtables-legacy, nft). The text that the tool can restore, without comments and counters; absent if there is no
	// rule.
	RuleSet Kind = "rule-set"
	// VFAttr: "vf-attr:ens1f0/3/max_tx_rate", a PF, the number of a VF, and mac, vlan, qos, max_tx_rate, min_tx_rate
	// (Mb/s, 0 is unlimited), spoofchk, trust (on, off), link_state (auto, enable, disable).
	VFAttr Kind = "vf-attr"
)

// How long values of these kinds stay.
const (
	UntilModuleReload Lasting = "until the module is loaded anew"
	UntilVFsRemade    Lasting = "until the virtual functions are made anew"
)

// policies are the scheduling policies that can be set, by the names of sched(7); true for realtime ones.
var policies = map[string]bool{"SCHED_OTHER": false, "SCHED_BATCH": false, "SCHED_IDLE": false, "SCHED_FIFO": true,
	"SCHED_RR": true}

// canonicalSched accepts a policy, with a priority from 1 to 99 for SCHED_FIFO and SCHED_RR.
func canonicalSched(raw string) (string, error) {
	fields := strings.Fields(raw)
	if len(fields) == 0 {
		return "", fmt.Errorf("expected a scheduling policy such as SCHED_FIFO 2, found %q", raw)
	}
	policy := strings.ToUpper(fields[0])
	if !strings.HasPrefix(policy, "SCHED_") {
		policy = "SCHED_" + policy
	}
	realtime, known := policies[policy]
	switch {
	case !known && len(fields) == 1: // SCHED_DEADLINE is read, never set
		return policy, nil
	case !known, !realtime && len(fields) > 1:
		return "", fmt.Errorf("expected a scheduling policy such as SCHED_FIFO 2 or SCHED_OTHER, found %q", raw)
	case !realtime:
		return policy, nil
	case len(fields) != 2:
		return "", fmt.Errorf("expected a priority from 1 to 99 behind %s, found %q", policy, raw)
	}
	priority, err := strconv.Atoi(fields[1])
	if err != nil || priority < 1 || priority > 99 {
		return "", fmt.Errorf("expected a priority from 1 to 99 behind %s, found %q", policy, raw)
	}
	return policy + " " + strconv.Itoa(priority), nil
}

// canonicalSwap accepts off, on, or on with a priority from 0 to 32767 (include/linux/swap.h, SWAP_FLAG_PRIO_MASK).
func canonicalSwap(raw string) (string, error) {
	fields := strings.Fields(raw)
	switch {
	case len(fields) == 1 && (fields[0] == "on" || fields[0] == "off"):
		return fields[0], nil
	case len(fields) == 2 && fields[0] == "on":
		if n, err := strconv.Atoi(fields[1]); err == nil && n >= 0 && n <= 32767 {
			return "on " + strconv.Itoa(n), nil
		}
	}
	return "", fmt.Errorf("expected off, on, or on with a priority from 0 to 32767, found %q", raw)
}

// canonicalText removes white space at the ends of lines and of the text.
func canonicalText(raw string) (string, error) {
	lines := strings.Split(strings.TrimSpace(raw), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.Join(lines, "\n"), nil
}

// canonicalVF accepts one word and returns it in lower case: addresses, counts and switches of VFs.
func canonicalVF(raw string) (string, error) {
	value := strings.ToLower(strings.TrimSpace(raw))
	if value == "" || strings.ContainsAny(value, " \t\n") {
		return "", fmt.Errorf("expected one word, found %q", raw)
	}
	return value, nil
}
