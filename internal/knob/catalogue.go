package knob

import (
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// Catalogue lists every knob in the order in which a packet meets what it is about.
func Catalogue() []*Knob {
	return slices.Concat(
		[]*Knob{firmwareSMT, firmwareNUMA, firmwareEnergy, firmwareC6, firmwarePackage, firmwareC1E, firmwareC3},
		[]*Knob{firmwareDeadLine, firmwareStaleAtoS, firmwareWrCRC, firmwarePatrol, firmwareDemand, firmwareRAS, firmwareCOD, firmwareNUMAOptimized},
		[]*Knob{firmwareErrorThreshold, firmwareTXT, firmwareUSB3, firmwareLegacyUSB, firmwarePorts, firmwareContainment, firmwareCTDP},
		[]*Knob{firmwareVTd, firmwareSRIOV, pciLink},
		[]*Knob{kernelVersion, kernelDefault, kernelRealtime, kernelClocksource, bootMitigations, bootQuiet, bootIsolcpus, bootNohzFull, bootRCUNocbs, bootIRQAffinity, bootSkewTick, bootIOMMU, bootHugepages},
		[]*Knob{bootMCE, bootIdle, bootPstate, bootCstate, bootASPM, bootTSC, bootLint},
		[]*Knob{cpuGovernor, cpuLatency, memoryTHP, memoryNUMABalancing, memoryNUMAD},
		[]*Knob{nicRingRx, nicRingTx, nicFlowHashUDP4, nicFlowHashUDP6, nicCoalesce},
		nicOffloads,
		[]*Knob{nicOffloadNoCache, nicChannels, nicIRQBalance, nicIRQAffinity, nicXPS, nicRPS, nicNUMA, nicTxQueueLen},
		[]*Knob{netfilterBridge, netfilterNFLOGSkip, netfilterBypass, netfilterConntrack, bridgeSnooping, bridgeSTP, bridgeVLANFiltering},
		[]*Knob{overlayQueues, overlayQueueMapping},
		[]*Knob{softirqBacklog, softirqBudget, softirqBudgetUsecs, softirqWeight},
		[]*Knob{kvmHaltPoll, kvmEPT, kvmAVIC, kvmPLEGap, kvmClockSync, kvmTimerAdvance, kvmNXHugePages, vhostZeroCopy, vhostThreads, vhostBudget},
		[]*Knob{placementOvercommit, placementReserve, placementSiblings},
		[]*Knob{domainNICModel, domainBackend, domainQueues, domainRxQueueSize, domainTxQueueSize, domainCoalesce},
		[]*Knob{domainVCPUPin, domainEmulatorPin, domainIOThreadPin, domainNumatune, domainVNUMA, domainHugepages, domainMachine},
		[]*Knob{domainVCPUSched, domainLocked, domainNoSharePages, domainPMU, domainDedicated},
		[]*Knob{domainCPUModel, domainInvTSC, domainHyperV, domainKVMClock, domainVFIOMemory},
		[]*Knob{sriovNumVFs, sriovReady, sriovPersist, sriovAttach, sriovVFRate, sriovVFSpoofchk, sriovVFMAC, sriovVFTrust, sriovVFVLAN, sriovVFLinkState},
		[]*Knob{sriovUsage, sriovGuest, sriovBridge, sriovMigrate},
		[]*Knob{rtSwap, rtKSM, rtWatchdog, rtKsoftirqd, rtKtimers, rtRCUC, rtRCUB, rtThrottling, rtPeriod, rtFairServer, rtIRQAffinity, rtTracing},
		[]*Knob{rtWorkqueue, rtKthreads, rtTimerMigration, rtStatInterval, rtRCUNormal, rtMCE, rtCompaction, rtSplitLock},
		[]*Knob{guestKernel, guestMitigations, guestChannels, guestXPS, guestIRQBalance, guestRealtime},
		[]*Knob{guestSwap, guestKSM, guestWatchdog, guestThrottling, guestTimerMigration},
	)
}

// Addresses are all addresses of the given knobs on a host that a mechanism can read, each once, in catalogue order.
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

// Find is the knob of an ID. Where there is none it names up to three whose IDs are near, nearest first, else up to three that
// speak of what was asked for.
func Find(id string) (*Knob, []string) {
	catalogue := Catalogue()
	for _, k := range catalogue {
		if k.ID == id {
			return k, nil
		}
	}
	type near struct {
		id       string
		distance int
	}
	var found []near
	for _, k := range catalogue {
		d := Distance(id, k.ID)
		if d <= max(2, len(k.ID)/3) || contained(id, k.ID) || len(id) >= 6 && Distance(id, firstOf(k.ID, id)) <= 1 {
			found = append(found, near{k.ID, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	var ids []string
	for _, n := range found[:min(3, len(found))] {
		ids = append(ids, n.id)
	}
	if len(ids) == 0 { // no ID is near: perhaps a word that a knob speaks of
		for _, hit := range Search(id) {
			ids = append(ids, hit.ID)
		}
		ids = ids[:min(3, len(ids))]
	}
	return nil, ids
}

// firstOf is as many parts of an ID as another text has: of nic.ring.rx as nic.rnig has, nic.ring.
func firstOf(id, like string) string {
	parts := strings.Split(id, ".")
	return strings.Join(parts[:min(len(parts), strings.Count(like, ".")+1)], ".")
}
