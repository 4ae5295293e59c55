package domain

// rule says where in a domain the value of one kind of path is.
type rule struct {
	path     string // as a person writes it; * stands for the key
	steps    []step // elements from <domain> down
	attr     string // the attribute that is the value; "" if the element's presence is
	value    kind
	readOnly bool
	pages    bool // the value is the list of <page> in the last element
	sole     bool // refused where the last element is there more than once
	anchor   int  // index of the step that value.wanted sees
}

// step is one element below the one before.
type step struct {
	name   string
	key    keyKind // how the path's key picks one of several
	attr   string  // the attribute that holds the key
	must   bool    // never made and never removed
	filler string  // attribute=value that libvirt's schema wants on it when it is made
	// implied is an attribute=value that libvirt adds by itself when it stores the domain, and that means nothing alone:
	// an element with nothing else left is taken away. (<memory mode='strict'/> without a nodeset is even refused.)
	implied string
}

type keyKind byte

const (
	noKey    keyKind = iota
	byNumber         // the attribute is the same number
	byWord           // the attribute is the same text
	bySet            // the attribute is the same set of numbers
	byNIC            // MAC address, or index from 0
	byName           // the key is the element's name
)

// rules is every path that this package knows, in the order in which Paths gives them.
var rules = []rule{
	{path: "memoryBacking/hugepages", steps: in("memoryBacking", "hugepages"), value: hugePages, pages: true},
	{path: "memoryBacking/nosharepages", steps: in("memoryBacking", "nosharepages"), value: presence},
	{path: "memoryBacking/locked", steps: in("memoryBacking", "locked"), value: presence},
	{path: "memoryBacking/source.type", steps: in("memoryBacking", "source"), attr: "type",
		value: wordKind("", "anonymous", "file", "memfd")},
	{path: "memoryBacking/access.mode", steps: in("memoryBacking", "access"), attr: "mode",
		value: wordKind("", "private", "shared")},
	{path: "memoryBacking/allocation.mode", steps: in("memoryBacking", "allocation"), attr: "mode",
		value: wordKind("", "immediate", "ondemand")},

	{path: "vcpu.cpuset", steps: []step{{name: "vcpu", must: true}}, attr: "cpuset", value: cpuSet},
	{path: "vcpupin/*", steps: below("cputune", step{name: "vcpupin", key: byNumber, attr: "vcpu"}), attr: "cpuset", value: cpuSet},
	{path: "emulatorpin", steps: in("cputune", "emulatorpin"), attr: "cpuset", value: cpuSet},
	{path: "iothreadpin/*", steps: below("cputune", step{name: "iothreadpin", key: byNumber, attr: "iothread"}), attr: "cpuset", value: cpuSet},
	{path: "emulatorsched.scheduler", steps: in("cputune", "emulatorsched"), attr: "scheduler", value: scheduler},
	{path: "emulatorsched.priority", steps: in("cputune", "emulatorsched"), attr: "priority", value: priority},
	{path: "vcpusched/*.scheduler", steps: below("cputune", step{name: "vcpusched", key: bySet, attr: "vcpus"}), attr: "scheduler", value: scheduler},
	{path: "vcpusched/*.priority", steps: below("cputune", step{name: "vcpusched", key: bySet, attr: "vcpus"}), attr: "priority", value: priority},

	{path: "numatune/memory.mode", steps: numaMemory, attr: "mode", value: numaMode},
	{path: "numatune/memory.nodeset", steps: numaMemory, attr: "nodeset", value: nodeSet},
	{path: "numatune/memnode/*.mode", steps: numaNode, attr: "mode", value: numaMode},
	{path: "numatune/memnode/*.nodeset", steps: numaNode, attr: "nodeset", value: nodeSet},

	{path: "features/hyperv/*.state", steps: hyperv, attr: "state", value: onOff},
	{path: "features/kvm/*.state", steps: append(in("features", "kvm"), step{key: byName}), attr: "state", value: onOff},
	{path: "features/pmu.state", steps: in("features", "pmu"), attr: "state", value: onOff},
	{path: "cpu/mode", steps: in("cpu"), attr: "mode", value: cpuMode},
	{path: "cpu/migratable", steps: in("cpu"), attr: "migratable", value: onOff},
	{path: "cpu/cache.mode", steps: in("cpu", "cache"), attr: "mode", value: cacheMode},
	{path: "cpu/numa/cell/*.cpus", steps: numaCell, attr: "cpus", value: cpuSet},
	{path: "cpu/numa/cell/*.memAccess", steps: numaCell, attr: "memAccess", value: wordKind("", "private", "shared")},
	{path: "clock/timer/*.present", steps: []step{{name: "clock", filler: "offset=utc"}, {name: "timer", key: byWord, attr: "name"}}, attr: "present", value: yesNo},

	{path: "interface/*/type", steps: nic(), attr: "type", value: kind{allowed: "libvirt's interface types", canon: canonWord}, readOnly: true},
	{path: "interface/*/vlan", steps: nic("vlan", "tag"), attr: "id", value: vlanTag, sole: true},
	{path: "interface/*/model", steps: nic("model"), attr: "type", value: nicModel, anchor: 1},
	{path: "interface/*/driver.name", steps: nic("driver"), attr: "name", value: nicDriver, anchor: 1},
	{path: "interface/*/driver.queues", steps: nic("driver"), attr: "queues", value: nicQueues, anchor: 1},
	{path: "interface/*/driver.rx_queue_size", steps: nic("driver"), attr: "rx_queue_size", value: queueSize(false), anchor: 1},
	{path: "interface/*/driver.tx_queue_size", steps: nic("driver"), attr: "tx_queue_size", value: queueSize(true), anchor: 1},
	{path: "interface/*/mtu", steps: nic("mtu"), attr: "size", value: mtuBytes},
	{path: "interface/*/coalesce.rx.frames.max", steps: nic("coalesce", "rx", "frames"), attr: "max", value: coalesceFrames},
}

var (
	numaMemory = below("numatune", step{name: "memory", implied: "mode=strict"})
	numaNode   = below("numatune", step{name: "memnode", key: byNumber, attr: "cellid", implied: "mode=strict"})
	hyperv     = []step{{name: "features"}, {name: "hyperv", implied: "mode=custom"}, {key: byName}}
)

var numaCell = []step{{name: "cpu", must: true}, {name: "numa", must: true}, {name: "cell", key: byNumber, attr: "id", must: true}}

// in names elements one below the other.
func in(names ...string) []step {
	var steps []step
	for _, n := range names {
		steps = append(steps, step{name: n})
	}
	return steps
}

func below(name string, s step) []step { return []step{{name: name}, s} }

// nic names elements of one interface.
func nic(names ...string) []step {
	return append([]step{{name: "devices", must: true}, {name: "interface", key: byNIC, must: true}}, in(names...)...)
}

// timerNames is libvirt's enum virDomainTimerName.
var timerNames = []string{"platform", "pit", "rtc", "hpet", "tsc", "kvmclock", "hypervclock", "armvtimer"}
