package realtime

import (
	"slices"
	"strings"

	"mpps/docs"
)

// kinds are all kinds, in the order in which findings of equal severity are shown.
var kinds = []*Kind{
	houseNone,
	listsOffline, listsIsolcpus, listsNohzFull, listsRCU, listsManaged, listsIgnored, listsMalformed, listsBootCPU,
	listsNoSuch, listsIRQAffinity,
	listsNextBoot, listsBalancer, listsPartition, listsSibling, listsSpare,
	guestShared, guestUnpinned, guestOutside, guestWide, guestEmulator, guestIOThread, guestVhost, guestWorker,
	guestLivePin, guestLiveSched,
	guestNode, guestSpread, guestStrict, guestPages, guestPagesShort, guestLocked, guestSched,
	threadUser, threadKernel, threadBound, threadPriority, threadUserMay, threadKernelMay, threadUnseen,
	irqCame, irqAimed, irqDefault, irqMay, irqTick, irqCalls, irqNMI,
	kernelWorkqueue, kernelRCU, kernelThrottling, kernelWatchdog, kernelTimers,
	cgroupPulls, cgroupNarrow, cgroupHelper, cgroupHost,
	houseBusy, houseVectors, houseNode, houseCore, houseStorage, houseHelpers,
}

// families are the families by the first part of their kinds' IDs.
var families = map[string]Family{"lists": Lists, "guest": Guests, "threads": Threads, "irq": Interrupts,
	"kernel": Kernel, "cgroup": Cgroups, "house": Housekeeping}

// documented are the kinds by ID: docs/realtime.md has a row of a table for each, with its usual severity, title,
// reason and knob.
var documented = readKinds(docs.Realtime)

func readKinds(text string) map[string]*Kind {
	_, tables, _ := strings.Cut(text, "<!-- kinds -->")
	tables, _, _ = strings.Cut(tables, "<!-- /kinds -->")
	all := map[string]*Kind{}
	for line := range strings.Lines(tables) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 5 || cells[0][0] != '`' { // a heading
			continue
		}
		id := strings.Trim(cells[0], "`")
		family, _, _ := strings.Cut(id, ".")
		link, _, _ := strings.Cut(strings.TrimLeft(cells[4], "[–"), "]")
		k := &Kind{ID: id, Family: families[family], Title: cells[2], Why: cells[3], Knob: link}
		if err := k.Severity.UnmarshalText([]byte(cells[1])); err != nil {
			panic("docs/realtime.md, " + id + ": " + err.Error())
		}
		all[id] = k
	}
	return all
}

// kind returns a documented kind.
func kind(id string) *Kind {
	if documented[id] == nil {
		panic("docs/realtime.md does not have " + id)
	}
	return documented[id]
}

// Kinds returns all kinds.
func Kinds() []*Kind { return slices.Clone(kinds) }

// order returns the position of a kind in kinds.
func order(id string) int { return slices.IndexFunc(kinds, func(k *Kind) bool { return k.ID == id }) }
