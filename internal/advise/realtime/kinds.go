package realtime

import "slices"

// kinds is every kind, family by family, in the order in which equally bad findings are shown.
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

// Kinds is a copy of the table of kinds.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kinds))
	for _, k := range kinds {
		all = append(all, *k)
	}
	return all
}

// order is where a kind stands in the table.
func order(id string) int {
	return slices.IndexFunc(kinds, func(k *Kind) bool { return k.ID == id })
}
