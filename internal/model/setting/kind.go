package setting

// The kinds. Each comment gives the form of the path and of the canonical value.
const (
	// Sysctl: "sysctl:net.core.dev_weight". Fields separated by one space.
	Sysctl Kind = "sysctl"
	// Sysfs: "sysfs:class/net/br0/bridge/nf_call_iptables", the path below /sys. The file's text, trimmed; for a
	// bracketed choice ("[a] b") the chosen word.
	Sysfs Kind = "sysfs"
	// SysfsCPUs: "sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus", a CPU mask file below /sys. A CPU list ("0-3,8").
	SysfsCPUs Kind = "sysfs-cpus"
	// NICRing: "nic-ring:eth0/rx", rx or tx. Descriptors per queue. A change resets the device: packets are lost for a
	// moment, and most drivers request their interrupts again, which resets IRQ affinity to its default.
	NICRing Kind = "nic-ring"
	// NICChannels: "nic-channels:eth0/combined", combined, rx or tx. Number of queues. A change does what a change of
	// rings does, and resets XPS, RPS of added and removed queues, and the RSS table unless the user set it: apply it
	// first.
	NICChannels Kind = "nic-channels"
	// NICCoalesce: "nic-coalesce:eth0/rx-usecs", the names of ethtool -c (rx-usecs, tx-usecs, rx-frames, tx-frames,
	// adaptive-rx, adaptive-tx). A number, or on/off for adaptive.
	NICCoalesce Kind = "nic-coalesce"
	// NICFeature: "nic-feature:eth0/tx-nocache-copy", the kernel's own feature names. on or off.
	NICFeature Kind = "nic-feature"
	// NICFlag: "nic-flag:eth0/rx_striding_rq", a private flag of the driver, by its own name (ethtool
	// --show-priv-flags). on or off. Most changes open the device's queues again: packets are lost for a moment.
	NICFlag Kind = "nic-flag"
	// NICFlowHash: "nic-flowhash:eth0/udp4". Letters of ethtool -N rx-flow-hash in the order m v t s d f n r.
	NICFlowHash Kind = "nic-flowhash"
	// IRQAffinity: "irq-affinity:eth0/TxRx-0/45": device, the interrupt's name on it, and its number, which is only a
	// hint: after a reset of the device the driver gets other numbers (facts.NIC.Address makes these addresses). A CPU
	// list.
	IRQAffinity Kind = "irq-affinity"
	// ThreadAffinity: "thread-affinity:vm1/vhost/52:54:00:00:00:01/0" (guest, role, NIC, queue),
	// "thread-affinity:vm1/vcpu/0", "thread-affinity:vm1/emulator". A CPU list. Absent while the guest does not run.
	ThreadAffinity Kind = "thread-affinity"
	// NetfilterRule: "netfilter-rule:nflog-skip/iptables-legacy", a named rule of mpps and its rule set:
	// iptables-legacy, nft (table ip raw, chain PREROUTING) or nft/FAMILY/TABLE/CHAIN. "present", "misplaced" if it is
	// no longer first in its chain, or absent.
	NetfilterRule Kind = "netfilter-rule"
	// Domain: "domain:vm1/vcpupin/0", a guest and an element path of package domain in its persistent definition.
	Domain Kind = "domain"
	// DomainLive: "domain-live:vm1/vcpupin/0", a running guest and what libvirt can change while it runs: vcpupin/N,
	// emulatorpin, iothreadpin/N (docs/formatdomain.rst, "CPU Tuning"; virsh --live). The CPUs that the thread may use,
	// a CPU list. Absent while the guest does not run; its next start follows the definition.
	DomainLive Kind = "domain-live"
	// Service: "service:irqbalance". running or stopped.
	Service Kind = "service"
	// KernelArg: "kernel-arg:iommu", an argument of the next boot's kernel, as the boot loader's own files say. The
	// value, or "present" if it has none; values of a repeated argument are separated by one space. Names joined by "+"
	// are arguments whose order counts: their value is the words ("kernel-arg:hugepagesz+hugepages").
	KernelArg Kind = "kernel-arg"
	// BootKernel: "boot-kernel:default", the kernel that the boot loader boots by default, as its own files say: the
	// version in its name ("6.12.48+deb13-amd64").
	BootKernel Kind = "boot-kernel"
	// GuestArg: "guest-kernel-arg:vm1/isolcpus", a libvirt guest and an argument of its next boot's kernel, as the
	// files of its boot loader say. Its guest agent reads and writes them. Values are those of KernelArg.
	GuestArg Kind = "guest-kernel-arg"
	// Fact: "fact:vm1/siblings", an object (guest, NIC, host) and a fact about it: text that a check derives from the
	// inventory. Never read by a mechanism, never written.
	Fact Kind = "fact"
)

// AtBoot reports whether values of the kind are what the host's boot loader gives to the next kernel. The running
// kernel has its own.
func (k Kind) AtBoot() bool { return k == KernelArg || k == BootKernel }

// FromBootLoader reports whether values of the kind are what a boot loader, the host's or a guest's, gives to the next
// kernel.
func (k Kind) FromBootLoader() bool { return k.AtBoot() || k == GuestArg }

// Lasting says how long a written value stays.
type Lasting string

// How long values stay.
const (
	UntilReboot     Lasting = "until reboot"
	UntilIfup       Lasting = "until the device is set up anew"
	UntilGuestStop  Lasting = "until the guest stops"
	UntilPlatform   Lasting = "until the platform starts the guest anew"
	UntilGuestBoot  Lasting = "until the guest reboots"
	UntilRulesReset Lasting = "until the rule set is reloaded"
	InDefinition    Lasting = "in the guest's definition"
	InBootLoader    Lasting = "in the boot loader's configuration"
	InGuestLoader   Lasting = "in the configuration of the guest's boot loader"
)

// KindInfo is what all values of a kind have in common.
type KindInfo struct {
	What      string                       // for people: "kernel parameter"
	Canonical func(string) (string, error) // returns the canonical form of a value
	Lasts     Lasting
	CanAbsent bool // values may be absent and written as absent (removed)
}

// Kinds has every kind that this version knows. A journal with another kind is refused.
var Kinds = map[Kind]KindInfo{
	Sysctl:         {What: "kernel parameter", Canonical: canonicalFields, Lasts: UntilReboot},
	Sysfs:          {What: "sysfs file", Canonical: canonicalFields, Lasts: UntilReboot},
	SysfsCPUs:      {What: "sysfs CPU mask", Canonical: canonicalCPUs, Lasts: UntilIfup},
	NICRing:        {What: "NIC ring", Canonical: canonicalCount, Lasts: UntilIfup},
	NICChannels:    {What: "NIC channels", Canonical: canonicalCount, Lasts: UntilIfup},
	NICCoalesce:    {What: "NIC interrupt coalescing", Canonical: canonicalCountOrSwitch, Lasts: UntilIfup},
	NICFeature:     {What: "NIC feature", Canonical: canonicalSwitch, Lasts: UntilIfup},
	NICFlag:        {What: "private flag of a NIC's driver", Canonical: canonicalSwitch, Lasts: UntilIfup},
	NICFlowHash:    {What: "NIC flow hash", Canonical: canonicalFlowHash, Lasts: UntilIfup},
	IRQAffinity:    {What: "interrupt affinity", Canonical: canonicalCPUs, Lasts: UntilIfup},
	ThreadAffinity: {What: "thread affinity", Canonical: canonicalCPUs, Lasts: UntilGuestStop},
	NetfilterRule:  {What: "netfilter rule", Canonical: canonicalFields, Lasts: UntilRulesReset, CanAbsent: true},
	Domain:         {What: "domain definition", Canonical: canonicalFields, Lasts: InDefinition, CanAbsent: true},
	DomainDevice: {What: "device of a running guest", Canonical: canonicalFields, Lasts: UntilGuestStop,
		CanAbsent: true},
	VirtNetwork: {What: "network of libvirt", Canonical: canonicalFields, Lasts: InLibvirt, CanAbsent: true},
	DomainLive:  {What: "pin of a running guest", Canonical: canonicalCPUs, Lasts: UntilGuestStop},
	Service:     {What: "service", Canonical: canonicalFields, Lasts: UntilReboot},
	ModuleParam: {What: "module parameter", Canonical: canonicalFields, Lasts: UntilModuleReload},
	ThreadSched: {What: "scheduling of a kernel thread", Canonical: canonicalSched, Lasts: UntilReboot},
	ThreadCPUs:  {What: "CPUs of kernel threads", Canonical: canonicalCPUs, Lasts: UntilReboot},
	KSM:         {What: "page merging", Canonical: canonicalCount, Lasts: UntilReboot},
	Swap:        {What: "swap area", Canonical: canonicalSwap, Lasts: UntilReboot},
	TraceEvents: {What: "kernel tracing", Canonical: canonicalFields, Lasts: UntilReboot},
	IRQCPUs:     {What: "interrupt's CPUs", Canonical: canonicalCPUs, Lasts: UntilReboot},
	RuleSet:     {What: "whole rule set", Canonical: canonicalText, Lasts: UntilRulesReset, CanAbsent: true},
	VFAttr:      {What: "attribute of a virtual function", Canonical: canonicalVF, Lasts: UntilVFsRemade},
	VFCount:     {What: "number of virtual functions", Canonical: canonicalVFCount, Lasts: UntilReboot},
	NICState:    {What: "state of a network device", Canonical: canonicalWord("up", "down"), Lasts: UntilReboot},
	PCIDriver:   {What: "driver of a device", Canonical: canonicalDriver, Lasts: UntilDeviceGone},
	RootQdisc:   {What: "queueing discipline of a virtual device", Canonical: canonicalQdisc, Lasts: UntilReboot},
	QueueLanes:  {What: "queue lanes", Canonical: canonicalLanes, Lasts: UntilReboot, CanAbsent: true},
	OVSDB:       {What: "setting of Open vSwitch", Canonical: canonicalFields, Lasts: InOpenVSwitch, CanAbsent: true},
	KernelArg:   {What: "kernel argument", Canonical: canonicalArgument, Lasts: InBootLoader, CanAbsent: true},
	GuestArg: {What: "kernel argument of a guest", Canonical: canonicalArgument, Lasts: InGuestLoader,
		CanAbsent: true},
	BootKernel: {What: "kernel that is booted by default", Canonical: canonicalFields, Lasts: InBootLoader},
	File:       {What: "file", Canonical: canonicalFile, Lasts: AcrossReboot, CanAbsent: true},
	Directory: {What: "directory", Canonical: canonicalWord("present", "shared"), Lasts: AcrossReboot,
		CanAbsent: true},
	Unit:   {What: "unit", Canonical: canonicalWord("enabled", "idle"), Lasts: AcrossReboot, CanAbsent: true},
	Inside: {What: "value inside a guest", Canonical: canonicalFields, Lasts: UntilGuestBoot},
	Fact:   {What: "worked out from the inventory", Canonical: canonicalFields},
}
