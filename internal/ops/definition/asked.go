package definition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Request holds the changes that 'mpps domain tune' was asked to make.
type Request struct {
	Values map[string]string // by flag name; absent or empty: not given
	NICs   []string          // MAC addresses or indexes of the NICs to change; none: all that can have the value
	Sets   []string          // any other value, PATH=VALUE
	Unsets []string          // values to remove, PATH
}

// Name is a key of Request.Values with its help text.
type Name struct{ Name, Usage string }

// flagValue is a flag for one value of a definition.
type flagValue struct {
	name, path, usage string
	words             map[string]string // what the flag's words mean in the definition: on is yes
	off               bool              // "off" removes the value
}

// nicValues are applied in this order: a NIC must be virtio before it can have queues.
var nicValues = []flagValue{
	{name: "model", path: "interface/*/model", usage: "NIC model: virtio"},
	{name: "driver", path: "interface/*/driver.name", usage: "packet backend: vhost or qemu", off: true},
	{name: "queues", path: "interface/*/driver.queues", usage: "number of queue pairs, 1 to 256", off: true},
	{name: "rx-queue-size", path: "interface/*/driver.rx_queue_size", usage: "receive queue size in descriptors: " +
		"256, 512 or 1024", off: true},
	{name: "tx-queue-size", path: "interface/*/driver.tx_queue_size", usage: "transmit queue size in descriptors: " +
		"256 (the limit of a tap)", off: true},
	{name: "coalesce-rx", path: "interface/*/coalesce.rx.frames.max",
		usage: "rx coalescing of the tap in frames, 0 to 64", off: true},
	{name: "mtu", path: "interface/*/mtu", usage: "MTU in bytes, 68 to 65535", off: true},
}

var (
	onOff = map[string]string{"on": "yes", "off": "no"}
	onYes = map[string]string{"on": "yes"}
)

var guestValues = []flagValue{
	{name: "emulatorpin", path: "emulatorpin", usage: "host CPUs of the emulator threads, such as 0-1", off: true},
	{name: "emulatorsched", path: "emulatorsched", usage: "scheduler of the emulator threads, such as fifo:1",
		off: true},
	{name: "cpu-mode", path: "cpu/mode", usage: "CPU model of the guest: host-passthrough"},
	{name: "cache", path: "cpu/cache.mode", usage: "CPU caches of the guest: passthrough, emulate, disable", off: true},
	{name: "migratable", path: "cpu/migratable", usage: "hide CPU features that cannot migrate: on or off"},
	{name: "kvmclock", path: "clock/timer/kvmclock.present", usage: "kvmclock in the guest: on or off",
		words: onOff},
	{name: "kvm-hidden", path: "features/kvm/hidden.state",
		usage: "hide KVM from the guest: on or off"},
	{name: "pmu", path: "features/pmu.state", usage: "virtual PMU (performance counters): on or off"},
	{name: "locked", path: "memoryBacking/locked", usage: "lock the guest's memory in RAM: on or off",
		words: onYes, off: true},
	{name: "nosharepages", path: "memoryBacking/nosharepages", usage: "exclude the guest's memory from KSM: on or off",
		words: onYes, off: true},
}

// otherNames are flags for several values, or for one that depends on the definition.
var otherNames = []Name{
	{"vcpupin", "host CPUs of vCPUs: 0=2,1=3, or 2-5 for one each, or off"},
	{"iothreadpin", "host CPUs of I/O threads, in the form of --vcpupin, counted from 1"},
	{"vcpusched", "scheduler of vCPUs: fifo:1, 0-3=fifo:1, or off"},
	{"iothreadsched", "scheduler of I/O threads, in the form of --vcpusched"},
	{"numatune", "host NUMA nodes of the memory: strict:0, 0=strict:0,1=strict:1 for guest cells, or off"},
	{"vnuma", "NUMA cells of the guest, such as '0-3:4GiB;4-7:4GiB'"},
	{"hugepages", "huge page size: 1G, 2M, on (the host's default) or off"},
	{"hyperv", "Hyper-V enlightenments: on, off, or a list such as vapic,synic=off"},
	{"vf-mac", "MAC address of a virtual function (interface of type hostdev)"},
	{"vf-vlan", "VLAN of a virtual function, 1 to 4094, or off"},
	{"vf-pci", "PCI address of the virtual function, such as 0000:01:10.0"},
	{"hostdev", "PCI device to pass through: 0000:01:10.0, optionally =unmanaged or =off"},
}

// Names lists the flags of 'mpps domain tune' that set values.
func Names() []Name {
	var all []Name
	for _, v := range append(slices.Clone(nicValues), guestValues...) {
		all = append(all, Name{v.name, v.usage})
	}
	return append(all, otherNames...)
}

// checkNICs refuses NIC names that are neither a MAC address nor an index.
func (a *Request) checkNICs() error {
	for _, n := range a.NICs {
		if _, err := strconv.ParseUint(n, 10, 31); err == nil {
			continue
		}
		if _, ok := domain.CanonMAC(n); !ok {
			return outcome.Usage(fmt.Errorf(
				"--nic %s: expected a MAC address such as 52:54:00:00:00:01, or an index from 0", n),
				"'mpps domain show' lists the NICs")
		}
	}
	return nil
}

// Wishes translates a request for a document. Its errors are usage errors.
func (a *Request) Wishes(d *domain.Doc) ([]domain.Change, error) {
	if err := a.checkNICs(); err != nil {
		return nil, err
	}
	all, err := a.unsetWishes()
	if err != nil {
		return nil, err
	}
	for _, w := range append(slices.Clone(nicValues), guestValues...) {
		text := a.Values[w.name]
		if text == "" {
			continue
		}
		wish := domain.Change{Path: w.path, Value: text, Off: w.off && text == "off"}
		word, known := w.words[text]
		if known {
			wish.Value = word
		} else if w.words != nil && !wish.Off {
			return nil, outcome.Usage(fmt.Errorf("--%s %s: expected on or off", w.name, text), "")
		}
		if err := domain.CheckChanges(wish); err != nil {
			return nil, badFlag(w.name, text, err)
		}
		all = append(all, wish)
	}
	for _, r := range []struct {
		name string
		read func(text string) ([]domain.Change, error)
	}{
		{"vcpupin", func(text string) ([]domain.Change, error) { return d.PinChanges("vcpupin", text) }},
		{"iothreadpin", func(text string) ([]domain.Change, error) { return d.PinChanges("iothreadpin", text) }},
		{"vcpusched", func(text string) ([]domain.Change, error) { return d.SchedChanges("vcpusched", text) }},
		{"iothreadsched", func(text string) ([]domain.Change, error) { return d.SchedChanges("iothreadsched", text) }},
		{"vnuma", domain.CellChanges}, {"numatune", domain.NUMAChanges},
		{"hugepages", domain.PageChanges}, {"hyperv", d.HyperVChanges},
		{"hostdev", wishHostdev},
	} {
		if text := a.Values[r.name]; text != "" {
			more, err := r.read(text)
			if err != nil {
				return nil, badFlag(r.name, text, err)
			}
			all = append(all, more...)
		}
	}
	more, err := a.setWishes()
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
	more, err = a.vfWishes(d)
	return append(all, more...), err
}

// setWishes returns the wishes of --set.
func (a *Request) setWishes() ([]domain.Change, error) {
	var all []domain.Change
	for _, text := range a.Sets {
		path, value, found := strings.Cut(text, "=")
		if !found || value == "" {
			return nil, outcome.Usage(fmt.Errorf("--set %s: expected PATH=VALUE", strconv.Quote(text)),
				"such as interface/52:54:00:00:00:01/driver.queues=4")
		}
		wish := domain.Change{Path: path, Value: value}
		if err := domain.CheckChanges(wish); err != nil {
			return nil, badFlag("set", text, err)
		}
		all = append(all, wish)
	}
	return all, nil
}

// unsetWishes returns the wishes of --unset. They come first, because the removed values may exclude others.
func (a *Request) unsetWishes() ([]domain.Change, error) {
	var all []domain.Change
	for _, path := range a.Unsets {
		wish := domain.Change{Path: path, Off: true}
		if err := domain.CheckChanges(wish); err != nil {
			return nil, badFlag("unset", path, err)
		}
		all = append(all, wish)
	}
	return all, nil
}

// vfWishes returns the wishes for a virtual function. Its MAC address comes last: paths can name the interface by it.
func (a *Request) vfWishes(d *domain.Doc) ([]domain.Change, error) {
	var all []domain.Change
	for _, w := range []flagValue{
		{name: "vf-pci", path: "source.pci"}, {name: "vf-vlan", path: "vlan", off: true}, {name: "vf-mac", path: "mac"},
	} {
		text := a.Values[w.name]
		if text == "" {
			continue
		}
		wish := domain.Change{Path: "interface/0/" + w.path, Value: text, Off: w.off && text == "off"}
		if err := domain.CheckChanges(wish); err != nil {
			return nil, badFlag(w.name, text, err)
		}
		vf, err := a.vfIndex(d, w.name)
		if err != nil {
			return nil, err
		}
		wish.Path = "interface/" + strconv.Itoa(vf) + "/" + w.path
		all = append(all, wish)
	}
	return all, nil
}

// vfIndex returns the interface index of the virtual function that --nic names, or of the only one.
func (a *Request) vfIndex(d *domain.Doc, flag string) (int, error) {
	vfs, all := d.VFs(), d.Guest().Interfaces
	var named []int
	var names []string
	for _, i := range vfs {
		if slices.ContainsFunc(a.NICs, func(n string) bool {
			mac, ok := domain.CanonMAC(n)
			return ok && mac == all[i].MAC || n == strconv.Itoa(i)
		}) {
			named = append(named, i)
		}
		names = append(names, strings.TrimPrefix(all[i].Path, "interface/"))
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(a.NICs) == 0 && len(vfs) == 1:
		return vfs[0], nil
	case len(vfs) == 0:
		return 0, outcome.Failed(fmt.Errorf("--%s: the domain has no interface of type hostdev", flag),
			"a <hostdev> carries neither a MAC address nor a VLAN")
	case len(a.NICs) == 0:
		return 0, outcome.Failed(fmt.Errorf("--%s: the domain has %d virtual functions", flag, len(vfs)),
			"name one with --nic: "+strings.Join(names, ", "))
	}
	return 0, outcome.Failed(
		fmt.Errorf("--%s: --nic names %s of the domain's virtual functions, expected one", flag,
			ops.Count(len(named), "interface")),
		"it has "+strings.Join(names, ", "))
}

// wishHostdev reads ADDRESS, ADDRESS=managed, ADDRESS=unmanaged or ADDRESS=off.
func wishHostdev(text string) ([]domain.Change, error) {
	address, how, found := strings.Cut(text, "=")
	if !found {
		how = "managed"
	}
	wish := domain.Change{Path: "hostdev/" + address, Value: how, Off: how == "off"}
	check := wish
	if check.Off {
		check = domain.Change{Path: wish.Path, Value: "managed"}
	}
	return []domain.Change{wish}, domain.CheckChanges(check)
}

// badFlag returns the usage error for the value of a flag.
func badFlag(name, text string, err error) error {
	var bad *domain.ValueError
	if errors.As(err, &bad) {
		return outcome.Usage(fmt.Errorf("--%s %s: expected %s", name, text, bad.Allowed), bad.Hint())
	}
	return outcome.Usage(fmt.Errorf("--%s %s: %w", name, text, err), outcome.HintOf(err, ""))
}
