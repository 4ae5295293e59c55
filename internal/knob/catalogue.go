package knob

import (
	"slices"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// Catalogue lists every knob in the order in which a packet meets what it is about.
func Catalogue() []*Knob {
	return slices.Concat(
		[]*Knob{cpuGovernor, memoryTHP, memoryNUMABalancing},
		[]*Knob{nicRingRx, nicRingTx, nicFlowHashUDP4, nicFlowHashUDP6, nicCoalesce},
		nicOffloads,
		[]*Knob{nicOffloadNoCache, nicChannels, nicIRQBalance, nicIRQAffinity, nicXPS, nicRPS, nicNUMA, nicTxQueueLen},
		[]*Knob{netfilterBridge, netfilterNFLOGSkip, bridgeSnooping, bridgeSTP, bridgeVLANFiltering},
		[]*Knob{softirqBacklog, softirqBudget, softirqBudgetUsecs, softirqWeight},
		[]*Knob{kvmHaltPoll, kvmEPT, kvmAVIC, vhostZeroCopy, vhostThreads},
		[]*Knob{placementOvercommit, placementSiblings},
		[]*Knob{domainNICModel, domainBackend, domainQueues, domainRxQueueSize, domainTxQueueSize, domainCoalesce},
		[]*Knob{domainVCPUPin, domainEmulatorPin, domainNumatune, domainVNUMA, domainMachine},
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

// Find is the knob of an ID. Where there is none it names up to three whose IDs are near, nearest first.
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
		if d := Distance(id, k.ID); d <= max(2, len(k.ID)/3) || contained(id, k.ID) {
			found = append(found, near{k.ID, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	var ids []string
	for _, n := range found[:min(3, len(found))] {
		ids = append(ids, n.id)
	}
	return nil, ids
}
