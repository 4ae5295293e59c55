package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Host is the host that a definition is for. Empty fields are unknown and refuse nothing.
type Host struct {
	Libvirt, QEMU string // versions, such as 11.3.0
	CPUs, Nodes   []int  // CPU and NUMA node numbers
}

// VersionError reports that a host's libvirt or QEMU is too old for a value. libvirt silently drops unknown elements,
// and QEMU refuses to start the guest.
type VersionError struct {
	Path, Value string
	Program     string // libvirt or QEMU
	Needs, Has  string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: %q needs %s %s, this host has %s", e.Path, clip(e.Value), e.Program, e.Needs, e.Has)
}

// Hint says what to do.
func (e *VersionError) Hint() string {
	return "leave it out, or bring the host's " + e.Program + " up to " + e.Needs
}

// AbsentError reports a CPU or node that the host does not have. libvirt accepts such a definition, but the guest does
// not start.
type AbsentError struct {
	Path, Value string
	What        string // CPU or NUMA node
	Absent, Has []int
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("%s: %q names %s %s, this host has %s", e.Path, clip(e.Value), e.What, FormatSet(e.Absent),
		FormatSet(e.Has))
}

// Hint says what to do.
func (e *AbsentError) Hint() string {
	return "the guest would not start: name a " + e.What + " that is there"
}

// gate is the first libvirt and QEMU version with a path, or with one value of it (value is not empty).
type gate struct{ path, value, libvirt, qemu string }

// gates are from libvirt's docs/formatdomain.rst ("Since"), and from QEMU's changelog if libvirt names no QEMU version.
// Features older than libvirt 1.2.0 and QEMU 2.0 are not listed: mpps does not run on anything that old.
var gates = []gate{
	{"memoryBacking/source.type", "memfd", "4.10.0", "2.12"}, {"memoryBacking/source.type", "", "3.2.0", ""},
	{"memoryBacking/allocation.mode", "", "3.2.0", ""}, {"iothreadpin/*", "", "1.2.10", "2.0"},
	{"emulatorsched", "", "5.3.0", ""}, {"vcpusched/*", "", "1.2.13", ""}, {"iothreadsched/*", "", "1.2.13", ""},
	{"numatune/memory.mode", "restrictive", "7.0.0", ""}, {"numatune/memnode/*.mode", "restrictive", "7.0.0", ""},
	{"numatune/memnode/*.nodeset", "", "1.2.7", "2.1"},
	{"features/hyperv.mode", "passthrough", "8.0.0", "5.0"},
	{"features/hyperv/spinlocks.retries", "", "1.1.0", "2.0"}, {"features/hyperv/vendor_id.value", "", "1.3.3", "2.5"},
	{"features/hyperv/stimer/direct.state", "", "5.7.0", "4.1"},
	{"features/hyperv/tlbflush/direct.state", "", "11.0.0", "7.1"}, {"features/hyperv/tlbflush/extended.state", "",
		"11.0.0", "7.1"},
	{"features/hyperv/vpindex.state", "on", "1.3.3", "2.5"}, {"features/hyperv/runtime.state", "on", "1.3.3", "2.5"},
	{"features/hyperv/synic.state", "on", "1.3.3", "2.6"}, {"features/hyperv/stimer.state", "on", "1.3.3", "2.6"},
	{"features/hyperv/reset.state", "on", "1.3.3", "2.5"}, {"features/hyperv/frequencies.state", "on", "4.7.0", "2.12"},
	{"features/hyperv/reenlightenment.state", "on", "4.7.0", "3.0"}, {"features/hyperv/tlbflush.state", "on", "4.7.0",
		"3.0"},
	{"features/hyperv/ipi.state", "on", "4.10.0", "3.1"}, {"features/hyperv/evmcs.state", "on", "4.10.0", "3.1"},
	{"features/hyperv/avic.state", "on", "8.10.0", "6.2"}, {"features/hyperv/emsr_bitmap.state", "on", "10.7.0", "7.1"},
	{"features/hyperv/xmm_input.state", "on", "10.7.0", "7.1"},
	{"features/kvm/hidden.state", "", "1.2.8", "2.1"}, {"features/kvm/hint-dedicated.state", "", "5.7.0", "2.12"},
	{"features/kvm/poll-control.state", "", "6.10.0", "4.2"}, {"features/kvm/pv-ipi.state", "", "7.10.0", "3.1"},
	{"cpu/mode", "maximum", "7.1.0", "2.9"}, {"cpu/migratable", "", "6.5.0", ""},
	{"cpu/cache.mode", "", "3.3.0", "2.9"},
	{"interface/*/vlan", "", "1.2.0", ""}, {"interface/*/model", "igb", "9.3.0", "8.0"},
	{"interface/*/model", "virtio-transitional", "5.2.0", "4.0"}, {"interface/*/model", "virtio-non-transitional",
		"5.2.0", "4.0"},
	{"interface/*/driver.rx_queue_size", "", "2.3.0", "2.7"}, {"interface/*/driver.tx_queue_size", "", "3.7.0", "2.10"},
	{"interface/*/mtu", "", "3.1.0", ""}, {"interface/*/coalesce.rx.frames.max", "", "3.3.0", ""},
}

// teamingGate is for a word of a whole interface that has no path.
var teamingGate = gate{"interface/*/teaming", "", "6.1.0", "4.2"}

// onCPUs and onNodes are the paths whose values are host CPUs and host NUMA nodes. Some of the latter have a prefix
// "MODE:".
var (
	onCPUs  = []string{"vcpu.cpuset", "vcpupin/*", "emulatorpin", "iothreadpin/*"}
	onNodes = []string{"numatune/memory", "numatune/memnode/*", "numatune/memory.nodeset", "numatune/memnode/*.nodeset"}
)

// checkNumbers refuses CPUs and nodes that a host does not have.
func (host Host) checkNumbers(r *rule, path, value string) error {
	what, has := "CPU", host.CPUs
	switch {
	case slices.Contains(onNodes, r.path):
		what, has = "NUMA node", host.Nodes
	case !slices.Contains(onCPUs, r.path):
		return nil
	}
	_, list, behind := strings.Cut(value, ":")
	if !behind {
		list = value
	}
	named, err := ParseSet(list)
	if err != nil || has == nil {
		return nil // "strict:auto" names none
	}
	absent := slices.DeleteFunc(named, func(n int) bool { return slices.Contains(has, n) })
	if len(absent) == 0 {
		return nil
	}
	return &AbsentError{path, value, what, absent, has}
}

// CheckSupport refuses a value that a host does not support. The error is a *VersionError or an *AbsentError.
func (d *Doc) CheckSupport(path, value string, host Host) error {
	r, key := match(path)
	if r == nil {
		return nil
	}
	if err := host.checkNumbers(r, path, value); err != nil {
		return err
	}
	if r.last().key == byWholeNIC {
		return checkWordSupport(path, value, host)
	}
	if err := host.checkGates(path, value, value, r.path, strings.Replace(r.path, "*", key, 1)); err != nil {
		return err
	}
	if r.path == "interface/*/vlan" && d.onLinuxBridge(path) {
		return host.checkBridgeVLAN(path, value)
	}
	return nil
}

// checkGates refuses a value that a gate of one of the paths puts in a later version. shown is the value in the error.
func (host Host) checkGates(path, shown, value string, paths ...string) error {
	for _, g := range append([]gate{teamingGate}, gates...) {
		if !slices.Contains(paths, g.path) || g.value != "" && g.value != value {
			continue
		}
		if older(host.Libvirt, g.libvirt) {
			return &VersionError{path, shown, "libvirt", g.libvirt, host.Libvirt}
		}
		if older(host.QEMU, g.qemu) {
			return &VersionError{path, shown, "QEMU", g.qemu, host.QEMU}
		}
	}
	return nil
}

// checkBridgeVLAN refuses VLAN tags of Linux bridges before libvirt 11.0.0 (docs/formatdomain.rst, "Setting VLAN tag").
func (host Host) checkBridgeVLAN(path, shown string) error {
	if older(host.Libvirt, "11.0.0") {
		return &VersionError{path + " on a bridge", shown, "libvirt", "11.0.0", host.Libvirt}
	}
	return nil
}

// checkWordSupport refuses the value of a whole interface if the host does not support every word.
func checkWordSupport(path, value string, host Host) error {
	for word := range strings.FieldsSeq(value) {
		key, v, _ := strings.Cut(word, "=")
		i := slices.IndexFunc(nicWords, func(w nicWord) bool { return w.key == key })
		if i < 0 {
			continue
		}
		part := key
		if w := nicWords[i]; len(w.at) == 1 && w.at[0] == "driver" {
			part = "driver." + w.attr
		}
		err := host.checkGates(path, word, v, "interface/*/"+part)
		if err == nil && key == "vlan" && strings.HasPrefix(value, "bridge=") {
			err = host.checkBridgeVLAN(path, word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onLinuxBridge reports whether a path is of an interface on a bridge that is not Open vSwitch's.
func (d *Doc) onLinuxBridge(path string) bool {
	p, err := d.find(path)
	return err == nil && len(p.chain) > 1 && p.chain[1].get("type") == "bridge" &&
		p.chain[1].first("virtualport").get("type") != "openvswitch"
}

// older compares versions number by number, as far as both go. An unknown version is not older.
func older(has, needs string) bool {
	a, b := strings.Split(has, "."), strings.Split(needs, ".")
	for i := range min(len(a), len(b)) {
		x, errX := strconv.Atoi(a[i])
		y, errY := strconv.Atoi(b[i])
		if errX != nil || errY != nil || x > y {
			return false
		}
		if x < y {
			return true
		}
	}
	return false
}
