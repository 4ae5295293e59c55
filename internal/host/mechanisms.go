package host

import "mpps/internal/setting"

// Mechanisms are the ways in which the values of each kind are read and written on this machine. Those that need the
// running kernel answer on a recorded tree that they cannot tell.
func (m *Machine) Mechanisms() setting.Mechanisms {
	threads := &threads{machine: m}
	return setting.Mechanisms{
		setting.Sysctl:         sysctl{m},
		setting.Sysfs:          sysfsFile{m},
		setting.SysfsCPUs:      sysfsMask{m},
		setting.NICRing:        driverValue{m, readRing, writeRing},
		setting.NICChannels:    driverValue{m, readChannels, writeChannels},
		setting.NICCoalesce:    driverValue{m, readCoalesce, writeCoalesce},
		setting.NICFeature:     driverValue{m, readFeature, writeFeature},
		setting.NICFlowHash:    driverValue{m, readFlowHash, writeFlowHash},
		setting.IRQAffinity:    irqAffinity{m},
		setting.NetfilterRule:  netfilterRule{m},
		setting.Service:        service{m},
		setting.File:           file{m},
		setting.Directory:      directories{m},
		setting.Unit:           unit{m},
		setting.Domain:         domains{m},
		setting.DomainDevice:   devices{m, letGo},
		setting.VirtNetwork:    virtNetworks{m},
		setting.ThreadAffinity: threads,
		setting.DomainLive:     livePins{m, threads},
		setting.KernelArg:      kernelArg{m: m},
		setting.BootKernel:     bootKernel{kernelArg{m: m}},
		setting.ModuleParam:    moduleParam{m},
		setting.ThreadSched:    &threadSched{machine: m},
		setting.ThreadCPUs:     threadCPUs{m},
		setting.KSM:            ksm{m},
		setting.Swap:           swap{m},
		setting.TraceEvents:    traceEvents{m},
		setting.IRQCPUs:        irqCPUs{m},
		setting.RuleSet:        wholeRules{m},
		setting.VFAttr:         vfAttr{m},
		setting.VFCount:        vfCount{m: m},
		setting.NICState:       nicState{m},
		setting.QueueLanes:     queueLanes{m},
		setting.RootQdisc:      rootQdisc{m},
		setting.PCIDriver:      pciDriver{m},
		setting.Inside:         insideValue{m: m},
	}
}
