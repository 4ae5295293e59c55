package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/domain"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// wishFlag is a flag that stands for one value of a definition.
type wishFlag struct {
	name, path, usage string
	words             map[string]string // what stands for what: on for yes
	off               bool              // "off" takes the value away
}

// nicFlags come in this order: a NIC must be virtio before it can have queues.
var nicFlags = []wishFlag{
	{name: "model", path: "interface/*/model", usage: "the NIC that the guest sees: virtio"},
	{name: "driver", path: "interface/*/driver.name", usage: "who carries its packets: vhost or qemu", off: true},
	{name: "queues", path: "interface/*/driver.queues", usage: "queue pairs, 1 to 256", off: true},
	{name: "rx-queue-size", path: "interface/*/driver.rx_queue_size", usage: "descriptors of a receive queue: 256, 512 or 1024", off: true},
	{name: "tx-queue-size", path: "interface/*/driver.tx_queue_size", usage: "descriptors of a transmit queue: 256 (a tap has no more)", off: true},
	{name: "coalesce-rx", path: "interface/*/coalesce.rx.frames.max", usage: "frames that the tap takes in one go, 0 to 64", off: true},
	{name: "mtu", path: "interface/*/mtu", usage: "bytes of payload, 68 to 65535", off: true},
}

var onOff = map[string]string{"on": "yes", "off": "no"}

var guestFlags = []wishFlag{
	{name: "emulatorpin", path: "emulatorpin", usage: "CPUs of QEMU's own threads, such as 0-1", off: true},
	{name: "emulatorsched", path: "emulatorsched", usage: "how QEMU's own threads are scheduled, such as fifo:1", off: true},
	{name: "cpu-mode", path: "cpu/mode", usage: "the processor that the guest sees: host-passthrough"},
	{name: "cache", path: "cpu/cache.mode", usage: "the caches that it sees: passthrough, emulate, disable", off: true},
	{name: "migratable", path: "cpu/migratable", usage: "hide what cannot migrate: on or off"},
	{name: "kvmclock", path: "clock/timer/kvmclock.present", usage: "the host's clock for the guest: on or off", words: onOff},
	{name: "kvm-hidden", path: "features/kvm/hidden.state", usage: "hide from the guest that it runs on KVM: on or off"},
	{name: "pmu", path: "features/pmu.state", usage: "performance counters in the guest: on or off"},
	{name: "locked", path: "memoryBacking/locked", usage: "keep the guest's memory from being swapped: on or off", words: map[string]string{"on": "yes"}, off: true},
	{name: "nosharepages", path: "memoryBacking/nosharepages", usage: "keep its pages from being merged: on or off", words: map[string]string{"on": "yes"}, off: true},
}

// domainFlags are the flags that say what a definition should be.
type domainFlags struct {
	values map[string]*once // by the flag's name
	nics   []string
	sets   []string
	unsets []string
	set    *pflag.FlagSet
}

func (f *domainFlags) add(cmd *cobra.Command) {
	f.set, f.values = cmd.Flags(), map[string]*once{}
	text := func(name, usage string) {
		value := &once{}
		f.values[name] = value
		f.set.Var(value, name, usage)
	}
	for _, w := range append(slices.Clone(nicFlags), guestFlags...) {
		text(w.name, w.usage)
	}
	text("vcpupin", "CPUs of vCPUs: 0=2,1=3, or 2-5 for one each, or off")
	text("iothreadpin", "CPUs of I/O threads, likewise, counted from 1")
	text("vcpusched", "how vCPUs are scheduled: fifo:1, 0-3=fifo:1, or off")
	text("iothreadsched", "how I/O threads are scheduled, likewise")
	text("numatune", "host nodes of the memory: strict:0, 0=strict:0,1=strict:1 for guest cells, or off")
	text("vnuma", "the guest's own cells: '0-3:4GiB;4-7:4GiB'")
	text("hugepages", "pages of the memory: 1G, 2M, on (the host's default), off")
	text("hyperv", "what Windows guests know of: on, off, or a list: vapic,synic=off")
	text("vf-mac", "MAC address of a virtual function (interface of type hostdev)")
	text("vf-vlan", "VLAN of a virtual function, 1 to 4094, or off")
	text("vf-pci", "the virtual function itself, such as 0000:01:10.0")
	text("hostdev", "a PCI function for the guest: 0000:01:10.0, with =unmanaged or =off")
	f.set.StringSliceVar(&f.nics, "nic", nil, "MAC address or index of the NICs that are meant (default: all that can)")
	f.set.StringArrayVar(&f.sets, "set", nil, "any other value, PATH=VALUE ('mpps domain show -v' lists paths)")
	f.set.StringArrayVar(&f.unsets, "unset", nil, "take a value away, PATH")
}

func (f *domainFlags) get(name string) string { return f.values[name].text }

// once is the text of a flag that may be given once: which of two values is meant nobody can tell.
type once struct {
	text  string
	given bool
}

func (o *once) String() string { return o.text }
func (*once) Type() string     { return "string" }

func (o *once) Set(text string) error {
	if o.given && o.text != text {
		return fmt.Errorf("given before as %s, expected one value", quote(o.text))
	}
	o.text, o.given = text, true
	return nil
}

// named refuses names of NICs that no NIC can have.
func (f *domainFlags) named() error {
	for _, n := range f.nics {
		if _, err := strconv.ParseUint(n, 10, 31); err == nil {
			continue
		}
		if _, ok := domain.CanonMAC(n); !ok {
			return usage(fmt.Errorf("--nic %s: expected a MAC address such as 52:54:00:00:00:01, or an index from 0", n), "'mpps domain show' lists the NICs")
		}
	}
	return nil
}

// wishes are what the flags want of a document. Errors are of the command line.
func (f *domainFlags) wishes(d *domain.Doc) ([]domain.Wish, error) {
	if err := f.named(); err != nil {
		return nil, err
	}
	all, err := f.gone()
	if err != nil {
		return nil, err
	}
	for _, w := range append(slices.Clone(nicFlags), guestFlags...) {
		text := f.get(w.name)
		if text == "" {
			continue
		}
		wish := domain.Wish{Path: w.path, Value: text, Off: w.off && text == "off"}
		word, known := w.words[text]
		if known {
			wish.Value = word
		} else if w.words != nil && !wish.Off {
			return nil, usage(fmt.Errorf("--%s %s: expected on or off", w.name, text), "")
		}
		if err := domain.Checked(wish); err != nil {
			return nil, badFlag(w.name, text, err)
		}
		all = append(all, wish)
	}
	for _, r := range []struct {
		name string
		read func(text string) ([]domain.Wish, error)
	}{
		{"vcpupin", func(text string) ([]domain.Wish, error) { return d.WishPins("vcpupin", text) }},
		{"iothreadpin", func(text string) ([]domain.Wish, error) { return d.WishPins("iothreadpin", text) }},
		{"vcpusched", func(text string) ([]domain.Wish, error) { return d.WishSched("vcpusched", text) }},
		{"iothreadsched", func(text string) ([]domain.Wish, error) { return d.WishSched("iothreadsched", text) }},
		{"vnuma", domain.WishCells}, {"numatune", domain.WishNUMA}, {"hugepages", domain.WishPages}, {"hyperv", d.WishHyperV},
		{"hostdev", wishHostdev},
	} {
		if text := f.get(r.name); text != "" {
			more, err := r.read(text)
			if err != nil {
				return nil, badFlag(r.name, text, err)
			}
			all = append(all, more...)
		}
	}
	more, err := f.byPath()
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
	more, err = f.functions(d)
	return append(all, more...), err
}

// byPath are the wishes of --set.
func (f *domainFlags) byPath() ([]domain.Wish, error) {
	var all []domain.Wish
	for _, text := range f.sets {
		path, value, found := strings.Cut(text, "=")
		if !found || value == "" {
			return nil, usage(fmt.Errorf("--set %s: expected PATH=VALUE", quote(text)), "such as interface/52:54:00:00:00:01/driver.queues=4")
		}
		wish := domain.Wish{Path: path, Value: value}
		if err := domain.Checked(wish); err != nil {
			return nil, badFlag("set", text, err)
		}
		all = append(all, wish)
	}
	return all, nil
}

// gone are the wishes of --unset: they come first, for what stands in the way of another value.
func (f *domainFlags) gone() ([]domain.Wish, error) {
	var all []domain.Wish
	for _, path := range f.unsets {
		wish := domain.Wish{Path: path, Off: true}
		if err := domain.Checked(wish); err != nil {
			return nil, badFlag("unset", path, err)
		}
		all = append(all, wish)
	}
	return all, nil
}

// functions are the wishes for a virtual function. The address comes last: it is the interface's other name.
func (f *domainFlags) functions(d *domain.Doc) ([]domain.Wish, error) {
	var all []domain.Wish
	for _, w := range []wishFlag{{name: "vf-pci", path: "source.pci"}, {name: "vf-vlan", path: "vlan", off: true}, {name: "vf-mac", path: "mac"}} {
		text := f.get(w.name)
		if text == "" {
			continue
		}
		wish := domain.Wish{Path: "interface/0/" + w.path, Value: text, Off: w.off && text == "off"}
		if err := domain.Checked(wish); err != nil {
			return nil, badFlag(w.name, text, err)
		}
		vf, err := f.function(d, w.name)
		if err != nil {
			return nil, err
		}
		wish.Path = "interface/" + strconv.Itoa(vf) + "/" + w.path
		all = append(all, wish)
	}
	return all, nil
}

// function is the index of the virtual function that is meant: the one that --nic names, or the only one.
func (f *domainFlags) function(d *domain.Doc, flag string) (int, error) {
	vfs, all := d.VFs(), d.Guest().Interfaces
	var named []int
	for _, i := range vfs {
		if slices.Contains(f.nics, strconv.Itoa(i)) || slices.ContainsFunc(f.nics, func(n string) bool { mac, ok := domain.CanonMAC(n); return ok && mac == all[i].MAC }) {
			named = append(named, i)
		}
	}
	var names []string
	for _, i := range vfs {
		names = append(names, strings.TrimPrefix(all[i].Path, "interface/"))
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(f.nics) == 0 && len(vfs) == 1:
		return vfs[0], nil
	case len(vfs) == 0:
		return 0, outcome.Failed(fmt.Errorf("--%s: the domain has no interface of type hostdev", flag), "a <hostdev> carries neither a MAC address nor a VLAN")
	case len(f.nics) == 0:
		return 0, outcome.Failed(fmt.Errorf("--%s: the domain has %d virtual functions", flag, len(vfs)), "name one with --nic: "+strings.Join(names, ", "))
	}
	return 0, outcome.Failed(fmt.Errorf("--%s: --nic names %s of the domain's virtual functions, expected one", flag, ops.Count(len(named), "interface")), "it has "+strings.Join(names, ", "))
}

// wishHostdev reads ADDRESS, ADDRESS=managed, ADDRESS=unmanaged or ADDRESS=off.
func wishHostdev(text string) ([]domain.Wish, error) {
	address, how, found := strings.Cut(text, "=")
	if !found {
		how = "managed"
	}
	wish := domain.Wish{Path: "hostdev/" + address, Value: how, Off: how == "off"}
	check := wish
	if check.Off {
		check = domain.Wish{Path: wish.Path, Value: "managed"}
	}
	return []domain.Wish{wish}, domain.Checked(check)
}

// badFlag is an error in the value of a flag.
func badFlag(name, text string, err error) error {
	var bad *domain.ValueError
	if errors.As(err, &bad) {
		return usage(fmt.Errorf("--%s %s: expected %s", name, text, bad.Allowed), bad.Hint())
	}
	return usage(fmt.Errorf("--%s %s: %w", name, text, err), outcome.HintOf(err, ""))
}
