package machine

import (
	"context"
	"time"

	"mpps/internal/machine/boot"
	"mpps/internal/machine/inside"
	"mpps/internal/machine/kernel"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/link"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Machine is one machine, live or recorded.
type Machine struct {
	*tree.Tree

	Inside      *inside.Guests
	definitions *libvirt.Definitions // of guests, as read before
}

// Open opens the machine whose files are below root; "/" is the live one.
func Open(root string) (*Machine, error) {
	t, err := tree.Open(root)
	if err != nil {
		return nil, err
	}
	return Of(t), nil
}

// Of returns the machine with these files: a host's, or a guest's as its agent reported them.
func Of(t *tree.Tree) *Machine {
	guests := inside.New(t, func(ctx context.Context, t *tree.Tree) *facts.Host { return Of(t).Inventory(ctx) })
	return &Machine{Tree: t, definitions: new(libvirt.Definitions), Inside: guests}
}

// Within returns the same machine, on which every read fails once ctx is cancelled (tree.Within).
func (m *Machine) Within(ctx context.Context) *Machine {
	within := *m
	within.Tree = m.Tree.Within(ctx)
	return &within
}

// AtBoot returns the reading that an address would have if the running kernel were the one that is booted next.
func (m *Machine) AtBoot(a setting.Address) setting.Reading { return boot.AtBoot(m.Tree, a) }

// ObserveShare is the usual share of one CPU that Observe may take.
const ObserveShare = threads.Budget

// Observe watches what runs on some CPUs for an interval, with a share of one CPU, 0 to 1.
func (m *Machine) Observe(
	ctx context.Context, h *facts.Host, cpus setting.CPUSet, interval time.Duration, share float64,
) *facts.Observation {
	return threads.Observe(ctx, m.Tree, h, cpus, interval, share)
}

// WatchDisturbances starts counting what disturbs a process on some CPUs.
func (m *Machine) WatchDisturbances(cpus setting.CPUSet, pid int, vcpus []int) *Disturbances {
	return threads.WatchDisturbances(m.Tree, cpus, pid, vcpus)
}

// Disturbances counts what disturbs a process.
type Disturbances = threads.Disturbances

// KeepOff moves this process off measured CPUs. It returns an empty set if there are no others.
func KeepOff(cpus setting.CPUSet) (setting.CPUSet, error) { return threads.KeepOff(cpus) }

// UsedTime returns the CPU time that this process and the programs that it started have used.
func UsedTime() time.Duration { return threads.UsedTime() }

// AskLanes asks the kernel which lane programs it accepts.
func (m *Machine) AskLanes(h *facts.Host) { link.AskLanes(m.Tree, h) }

// SteeredNICs returns the NICs whose queues are steered by lane programs.
func (m *Machine) SteeredNICs() ([]string, error) { return link.SteeredNICs(m.Tree) }

// Link returns what udev applies to a network device: systemd's version, the device's path, and its .link file.
func (m *Machine) Link(device string) (systemd int, place, file, text string) {
	return link.Link(m.Tree, device)
}

// DescribeDefinition returns the fact of a guest that is only defined.
func DescribeDefinition(g domain.Guest, text string) facts.Guest {
	return libvirt.DescribeDefinition(g, text)
}

// DefinedValue returns the reading of one value of a definition.
func DefinedValue(doc *domain.Doc, path string) setting.Reading {
	return libvirt.DefinedValue(doc, path)
}

// Movable reports whether a value of a definition has a counterpart in the running guest that can be written.
func Movable(a setting.Address) bool { return libvirt.Movable(a) }

// Emulated reports whether the machine's CPUs are emulated.
func (m *Machine) Emulated() bool { return kernel.Emulated(m.Tree) }
