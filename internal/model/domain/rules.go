package domain

// rule locates the value of one form of path in a domain.
type rule struct {
	path     string // as users write it, with * for the key
	steps    []step // elements from <domain> down
	attr     string // the attribute that holds the value; "" if the element's presence is the value
	value    kind
	readOnly bool
	form     form // set if the value is more than one attribute of the last element
	whole    bool // other paths give its parts: left out of Paths
	byIndex  bool // interfaces are named by index only, because the value is their other name
	sole     bool // refused if the last element occurs more than once
	// unset is a value that libvirt does not store, because an absent one means the same
	unset  string
	anchor int // index of the step whose element value.validIn gets
}

// step is one level of a path.
type step struct {
	name   string
	key    keyKind // how the path's key selects one of several
	attr   string  // the attribute that holds the key
	must   bool    // never added and never removed
	filler string  // attribute=value that libvirt's schema requires when the element is added
	// implied is an attribute=value that libvirt adds when it stores the domain and that means nothing by itself: an
	// element with nothing else is removed. (libvirt even refuses <memory mode='strict'/> without a nodeset.)
	implied string
}

type keyKind byte

const (
	noKey      keyKind = iota
	byNumber           // attribute, compared as a number
	byWord             // attribute, compared as text
	bySet              // attribute, compared as a set of numbers
	byNIC              // MAC address, or index from 0
	byName             // the element's name
	byPCI              // PCI address of a passed-through function
	byWholeNIC         // MAC address, with @persistent or @transient for a failover pair
)

// rules lists every path, in the order of Paths.
var rules = []rule{
	{path: "memoryBacking/hugepages", steps: in("memoryBacking", "hugepages"), value: hugePages, form: pagesForm{}},
	{path: "memoryBacking/nosharepages", steps: in("memoryBacking", "nosharepages"), value: presence,
		form: presenceForm{}},
	{path: "memoryBacking/locked", steps: in("memoryBacking", "locked"), value: presence, form: presenceForm{}},
	{path: "memoryBacking/source.type", steps: in("memoryBacking", "source"), attr: "type",
		value: wordKind("", "anonymous", "file", "memfd")},
	{path: "memoryBacking/access.mode", steps: in("memoryBacking", "access"), attr: "mode",
		value: wordKind("", "private", "shared")},
	{path: "memoryBacking/allocation.mode", steps: in("memoryBacking", "allocation"), attr: "mode",
		value: wordKind("", "immediate", "ondemand")},

	{path: "vcpu.cpuset", steps: []step{{name: "vcpu", must: true}}, attr: "cpuset", value: cpuSet},
	{path: "vcpupin/*", steps: below("cputune", step{name: "vcpupin", key: byNumber, attr: "vcpu"}), attr: "cpuset",
		value: cpuSet},
	{path: "emulatorpin", steps: in("cputune", "emulatorpin"), attr: "cpuset", value: cpuSet},
	{path: "iothreadpin/*", steps: below("cputune", step{name: "iothreadpin", key: byNumber, attr: "iothread"}),
		attr: "cpuset", value: cpuSet},
	{path: "emulatorsched", steps: in("cputune", "emulatorsched"), value: sched, form: schedForm{}},
	{path: "vcpusched/*", steps: below("cputune", step{name: "vcpusched", key: bySet, attr: "vcpus"}), value: sched,
		form: schedForm{}},
	{path: "iothreadsched/*", steps: below("cputune", step{name: "iothreadsched", key: bySet, attr: "iothreads"}),
		value: sched, form: schedForm{}},

	{path: "numatune/memory", steps: numaMemory, value: numaNodes, form: nodesForm{}, whole: true},
	{path: "numatune/memnode/*", steps: numaNode, value: numaNodes, form: nodesForm{}, whole: true},
	{path: "numatune/memory.mode", steps: numaMemory, attr: "mode", value: numaMode.where(requireNodes)},
	{path: "numatune/memory.placement", steps: numaMemory, attr: "placement",
		value: wordKind("", "static", "auto").where(checkPlacement)},
	{path: "numatune/memory.nodeset", steps: numaMemory, attr: "nodeset", value: nodeSet.where(refuseWithAuto)},
	{path: "numatune/memnode/*.mode", steps: numaNode, attr: "mode", value: numaMode.where(requireNodeset), anchor: 1},
	{path: "numatune/memnode/*.nodeset", steps: numaNode, attr: "nodeset", value: nodeSet},

	{path: "features/hyperv.mode", steps: in("features", "hyperv"), attr: "mode", value: hypervMode},
	{path: "features/hyperv/*.state", steps: hyperv, attr: "state", value: hypervState, anchor: 2},
	{path: "features/hyperv/spinlocks.retries", steps: hypervOn("spinlocks"), attr: "retries", value: spinRetries},
	{path: "features/hyperv/vendor_id.value", steps: hypervOn("vendor_id"), attr: "value", value: vendorID},
	{path: "features/hyperv/stimer/direct.state", steps: append(hypervOn("stimer"), step{name: "direct"}),
		attr: "state", value: switchedOn},
	{path: "features/hyperv/tlbflush/direct.state", steps: append(hypervOn("tlbflush"), step{name: "direct"}),
		attr: "state", value: switchedOn},
	{path: "features/hyperv/tlbflush/extended.state", steps: append(hypervOn("tlbflush"), step{name: "extended"}),
		attr: "state", value: switchedOn},
	{path: "features/kvm/*.state", steps: append(in("features", "kvm"), step{key: byName}), attr: "state",
		value: onOff},
	{path: "features/pmu.state", steps: in("features", "pmu"), attr: "state", value: onOff},
	{path: "cpu/mode", steps: in("cpu"), value: cpuMode, form: cpuForm{}},
	{path: "cpu/migratable", steps: in("cpu"), attr: "migratable", value: onOff.where(checkMigratable)},
	{path: "cpu/cache.mode", steps: in("cpu", "cache"), attr: "mode", value: cpuCache},
	{path: "cpu/numa/cells", steps: in("cpu", "numa"), value: numaCells, form: cellsForm{}},
	{path: "cpu/numa/cell/*.memAccess", steps: numaCell, attr: "memAccess", value: wordKind("", "private", "shared")},
	{path: "clock/timer/*.present", steps: []step{{name: "clock", filler: "offset=utc"},
		{name: "timer", key: byWord, attr: "name"}}, attr: "present", value: yesNo},

	{path: "interface/*", steps: []step{{name: "devices", must: true}, {name: "interface", key: byWholeNIC}},
		value: nicKind, form: nicForm{}, whole: true},
	{path: "interface/*/type", steps: nic(), attr: "type", value: kind{allowed: "libvirt's interface types",
		canon: canonWord}, readOnly: true},
	{path: "interface/*/mac", steps: nic("mac"), attr: "address", value: nicMAC, anchor: 1, byIndex: true},
	{path: "interface/*/managed", steps: nic(), value: yesNo.where(requireHostdev), form: managedForm{}, anchor: 1},
	{path: "interface/*/source.pci", steps: append(nic("source"), step{name: "address", filler: "type=pci"}),
		value: pciAddress.where(requireHostdev), form: pciForm{}, anchor: 1},
	{path: "interface/*/vlan", steps: nic("vlan", "tag"), attr: "id", value: vlanTag, sole: true, anchor: 1},
	{path: "interface/*/model", steps: nic("model"), attr: "type", value: nicModel, anchor: 1},
	{path: "interface/*/driver.name", steps: nic("driver"), attr: "name", value: nicDriver, anchor: 1},
	{path: "interface/*/driver.queues", steps: nic("driver"), attr: "queues", value: nicQueues, unset: "1",
		anchor: 1},
	{path: "interface/*/driver.rx_queue_size", steps: nic("driver"), attr: "rx_queue_size", value: queueSize(false),
		anchor: 1},
	{path: "interface/*/driver.tx_queue_size", steps: nic("driver"), attr: "tx_queue_size", value: queueSize(true),
		anchor: 1},
	{path: "interface/*/mtu", steps: nic("mtu"), attr: "size", value: mtuBytes, anchor: 1},
	{path: "interface/*/coalesce.rx.frames.max", steps: nic("coalesce", "rx", "frames"), attr: "max",
		value: coalesceFrames, anchor: 1},

	{path: "hostdev/*", steps: []step{{name: "devices", must: true}, {name: "hostdev", key: byPCI}}, value: hostdevKind,
		form: hostdevForm{}},
}

var (
	numaMemory = below("numatune", step{name: "memory", implied: "mode=strict"})
	numaNode   = below("numatune", step{name: "memnode", key: byNumber, attr: "cellid", filler: "mode=strict",
		implied: "mode=strict"})
	hyperv = []step{{name: "features"}, {name: "hyperv", implied: "mode=custom"}, {key: byName}}
)

var numaCell = []step{{name: "cpu", must: true}, {name: "numa", must: true}, {name: "cell", key: byNumber, attr: "id",
	must: true}}

// hypervOn are the steps to an enlightenment that is useless without its own value: adding it switches it on.
func hypervOn(name string) []step {
	return []step{{name: "features"}, {name: "hyperv", implied: "mode=custom"},
		{name: name, filler: "state=on", implied: "state=on"}}
}

// in returns nested steps.
func in(names ...string) []step {
	var steps []step
	for _, n := range names {
		steps = append(steps, step{name: n})
	}
	return steps
}

func below(name string, s step) []step { return []step{{name: name}, s} }

// nic returns steps below an interface.
func nic(names ...string) []step {
	return append([]step{{name: "devices", must: true}, {name: "interface", key: byNIC, must: true}}, in(names...)...)
}

// timerNames is libvirt's enum virDomainTimerName.
var timerNames = []string{"platform", "pit", "rtc", "hpet", "tsc", "kvmclock", "hypervclock", "armvtimer"}
