package knob

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Catalogue lists every knob in the order in which a packet meets what it is about.
func Catalogue() []*Knob {
	return []*Knob{
		firmwareSMT, firmwareNUMA, firmwareEnergy, firmwareC6, firmwarePackage, firmwareC1E, firmwareC3,
		firmwareDeadLine, firmwareStaleAtoS, firmwareWrCRC, firmwarePatrol, firmwareDemand, firmwareRAS,
		firmwareCOD, firmwareNUMAOptimized, firmwareErrorThreshold, firmwareTXT, firmwareUSB3, firmwareLegacyUSB,
		firmwarePorts, firmwareContainment, firmwareCTDP, firmwareDFStates, firmwareDFPstate, firmwareVTd,
		firmwareSRIOV, firmwareVTx, firmwareExecuteDisable, firmwareActiveCores, firmwareUSBController,
		pciLink, pciRequests,
		kernelVersion, kernelDefault, kernelRealtime, kernelClocksource,
		bootMitigations, bootQuiet, bootIsolcpus, bootNohzFull, bootRCUNocbs, bootIRQAffinity, bootSkewTick,
		bootIOMMU, bootIOMMUStrict, bootVGIC, bootHugepages, bootMCE, bootIdle, bootPstate, bootCstate,
		bootASPM, bootTSC, bootLint,
		cpuGovernor, cpuEPP, cpuEPB, cpuUncore, cpuLatency,
		memoryTHP, memoryNUMABalancing, memoryNUMAD,
		nicRingRx, nicRingTx, nicFlowHashUDP4, nicFlowHashUDP6, nicRSSTable, nicCoalesce, nicOffloadChecksum,
		nicOffloadSG, nicOffloadSegmentation, nicOffloadGRO, nicOffloadTunnel, nicOffloadNoCache,
		nicOffloadUDPForward, nicOffloadGROList, nicChannels, nicIRQBalance, nicIRQAffinity, nicIRQDeferral,
		nicThreaded, nicXPS, nicRPS, nicNUMA, nicTxQueueLen, nicPrivateFlags,
		netfilterBridge, netfilterNFLOGSkip, netfilterBypass, netfilterConntrack,
		netfilterConntrackMax, netfilterConntrackBuckets, netfilterFlowtable,
		routeForwarding, routeRPFilter, routeNeighbours,
		bridgeSnooping, bridgeSTP, bridgeVLANFiltering, bridgeUnicastFlood, bridgeTapQdisc,
		ovsUpcalls, ovsHandlers, ovsFlowLimit, ovsMaxIdle, ovsPolicing, ovsMasks, ovsLookups,
		ovsOffload, ovsPMDCPUs, ovsPMDBalance, ovsRxqs, ovsCaches, ovsVhostDrops, ovsMbufs,
		overlayQueues, overlayQueueMapping, overlayMTU,
		softirqBacklog, softirqBudget, softirqBudgetUsecs, softirqWeight,
		kvmHaltPoll, kvmEPT, kvmAVIC, kvmPLEGap, kvmClockSync, kvmTimerAdvance, kvmNXHugePages,
		kvmAPICv, kvmPosted,
		vhostZeroCopy, vhostThreads, vhostBudget,
		placementOvercommit, placementReserve, placementSiblings,
		domainNICModel, domainUserMode,
		domainBackend, domainQueues, domainRxQueueSize, domainTxQueueSize, domainCoalesce,
		domainVCPUPin, domainEmulatorPin, domainIOThreadPin, domainNumatune, domainVNUMA, domainHugepages,
		domainSharedMemory,
		domainMachine, domainVCPUSched, domainLocked, domainNoSharePages, domainPMU, domainDedicated,
		domainCPUModel, domainInvTSC, domainHyperV, domainKVMClock, domainVFIOMemory, domainRingFeatures, domainCPUPM,
		domainVDPA,
		sriovNumVFs, sriovReady, sriovPersist, sriovAttach, sriovVFRate, sriovVFSpoofchk, sriovVFMAC, sriovVFTrust,
		sriovVFVLAN, sriovVFLinkState, sriovVectors, sriovUsage, sriovGuest, sriovBridge, sriovMigrate,
		rtSwap, rtKSM, rtWatchdog, rtKsoftirqd, rtKtimers, rtRCUC, rtRCUB, rtThrottling, rtPeriod, rtFairServer,
		rtIRQAffinity, rtTracing, rtWorkqueue, rtKthreads, rtTimerMigration, rtStatInterval, rtRCUNormal, rtMCE,
		rtCompaction, rtSplitLock,
		guestKernel, guestMitigations, guestChannels, guestXPS, guestIRQBalance, guestRealtime, guestSwap, guestKSM,
		guestWatchdog, guestThrottling, guestTimerMigration,
	}
}

// Addresses returns all addresses of the knobs on a host that a mechanism can read, each once, in catalogue order.
func Addresses(h *facts.Host, catalogue []*Knob) []setting.Address {
	var all []setting.Address
	seen := map[setting.Address]bool{}
	for _, k := range catalogue {
		for _, a := range k.Where(h) {
			if a.Kind != setting.Fact && !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	return all
}

// Find returns the knob with an ID, nil if there is none.
func Find(id string) *Knob {
	for _, k := range Catalogue() {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// Near returns the IDs that are spelled nearly like one that there is not, best first.
func Near(id string) []string {
	type near struct {
		id       string
		distance int
	}
	var found []near
	for _, k := range Catalogue() {
		if words.Near(id, k.ID) || isPartOf(id, k.ID) ||
			len(id) >= 6 && words.Distance(id, firstOf(k.ID, id)) <= 1 {
			found = append(found, near{k.ID, words.Distance(id, k.ID)})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	return facts.Map(found, func(n near) string { return n.id })
}

// firstOf returns as many parts of an ID as another text has: nic.ring of nic.ring.rx for nic.rnig.
func firstOf(id, like string) string {
	parts := strings.Split(id, ".")
	return strings.Join(parts[:min(len(parts), strings.Count(like, ".")+1)], ".")
}

// isPartOf reports whether part occurs in an ID ("bridge", "ring.rx").
func isPartOf(part, id string) bool { return len(part) >= 3 && strings.Contains(id, part) }
