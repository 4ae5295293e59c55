package realtime

import "slices"

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

// order returns the position of a kind in kinds.
func order(id string) int { return slices.IndexFunc(kinds, func(k *Kind) bool { return k.ID == id }) }
