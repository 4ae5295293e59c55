package ethtool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of driver settings.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.NICRing: driverValue{m, readRing, writeField(ringGroup, ringNames, "expected ring rx or tx, found %q")},
		setting.NICChannels: driverValue{m, readChannels,
			writeField(channelGroup, channelNames, "expected channels combined, rx or tx, found %q")},
		setting.NICCoalesce: driverValue{m, readCoalesce,
			writeField(coalesceGroup, coalesceGroup.fields, "there is no coalescing field %q")},
		setting.NICFeature:  driverValue{m, readFeature, writeFeature},
		setting.NICFlag:     driverValue{m, readFlag, writeFlag},
		setting.NICFlowHash: driverValue{m, readFlowHash, writeFlowHash},
	}
}

// driverValue reads and writes one kind of value of a NIC's driver. The address is a device and the value's name.
//
// Side effects of a change, by kind:
//   - rings: the driver stops the device, or one queue after the other, and sets it up again. Packets are lost for a
//     moment. Most drivers request their interrupts again, which resets smp_affinity to the default or to the driver's
//     hint.
//   - channels: as rings. The number of queues and interrupts changes too: XPS of all queues is reset (net/core/dev.c,
//     netif_set_real_num_tx_queues clears it for removed queues; most drivers then set their own), the RSS table is
//     redistributed unless the user has set it, RPS of removed queues is lost, and new queues start without RPS.
//   - coalesce, flow hash: take effect at once and change nothing else, except that adaptive coalescing changes the
//     fixed numbers by itself.
//   - private flags: mlx5 opens all channels again with the same interrupts.
//   - features: dependent features go off with one (no checksum, no segmentation) and come back with it, since the
//     kernel remembers what is requested. Some drivers set the device up again (LRO, GRO-HW, VLAN stripping).
//
// Plans therefore order channels before rings before XPS, RPS and IRQ affinity; rollback uses the reverse order.
type driverValue struct {
	m     *tree.Tree
	read  func(e *Conn, device, name string) (setting.Reading, error)
	write func(e *Conn, device, name, value string) error
}

func (d driverValue) Read(ctx context.Context, a setting.Address) setting.Reading {
	if !d.m.Live() {
		return setting.CouldNotTell(tree.ErrNotLive.Error())
	}
	ctx, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	answer := make(chan setting.Reading, 1)
	err := setting.Within(ctx, func() error {
		e, err := Dial()
		if err != nil {
			return err
		}
		defer e.Close()
		r, err := d.read(e, a.Object(), a.Rest())
		answer <- r
		return err
	})
	if err != nil {
		what := a.Rest() + " of " + a.Object()
		if errors.Is(err, unix.ENODEV) {
			what = "device " + a.Object()
		}
		return tree.Unreadable(what, err)
	}
	return <-answer
}

func (d driverValue) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return d.m.SetLive(ctx, a, to, func(value string) error {
		e, err := Dial()
		if err != nil {
			return err
		}
		defer e.Close()
		return d.write(e, a.Object(), a.Rest(), value)
	})
}

var (
	ringNames    = []string{"rx", "tx"}
	channelNames = []string{"rx", "tx", "combined"}
)

// writeField returns a function that sets one field of a group, if it is one of the names. Only that field is written:
// if the driver refuses it, the others are not affected.
func writeField(g group, names []string, unknown string) func(e *Conn, device, name, value string) error {
	return func(e *Conn, device, name, value string) error {
		if !slices.Contains(names, name) {
			return fmt.Errorf(unknown, name)
		}
		n, err := g.parse(name, value)
		if err != nil {
			return err
		}
		return e.write(g, device, name, n)
	}
}

// bounded returns a reading with its bounds.
func bounded(n uint32, lowest, highest int64) setting.Reading {
	r := setting.Value(fmt.Sprint(n))
	r.Min, r.Max = &lowest, &highest
	return r
}

func readRing(e *Conn, device, name string) (setting.Reading, error) {
	if !slices.Contains(ringNames, name) {
		return setting.Missing("rings are rx and tx"), nil
	}
	values, err := e.read(ringGroup, device)
	if err != nil {
		return setting.Reading{}, err
	}
	highest := values[name+"-max"]
	if highest == 0 {
		return setting.Missing("the driver has no " + name + " ring to size"), nil
	}
	return bounded(values[name], 1, int64(highest)), nil
}

func readChannels(e *Conn, device, name string) (setting.Reading, error) {
	if !slices.Contains(channelNames, name) {
		return setting.Missing("channels are combined, rx and tx"), nil
	}
	values, err := e.read(channelGroup, device)
	if err != nil {
		return setting.Reading{}, err
	}
	highest := values[name+"-max"]
	if highest == 0 {
		return setting.Missing("the driver has no " + name + " channels"), nil
	}
	lowest := int64(0)
	if name == "combined" && values["rx-max"] == 0 { // the kernel requires one receive and one transmit queue
		lowest = 1
	}
	return bounded(values[name], lowest, int64(highest)), nil
}

func readCoalesce(e *Conn, device, name string) (setting.Reading, error) {
	if !slices.Contains(coalesceGroup.fields, name) {
		return setting.Missing("there is no coalescing field " + name), nil
	}
	values, err := e.read(coalesceGroup, device)
	if err != nil {
		return setting.Reading{}, err
	}
	n, has := values[name]
	if !has {
		return setting.Missing("the driver has no " + name), nil
	}
	return setting.Value(coalesceGroup.value(name, n)), nil
}

func readFeature(e *Conn, device, name string) (setting.Reading, error) {
	features, err := e.Features(device)
	if err != nil {
		return setting.Reading{}, err
	}
	for _, f := range features {
		if f.Name != name {
			continue
		}
		r := setting.Value(onOff(f.On))
		switch {
		case f.Fixed:
			r.ReadOnly, r.Why = true, "fixed by the driver"
		case f.requested && !f.On:
			r.Why = "asked for, but the device or another feature does not allow it now"
		}
		return r, nil
	}
	return setting.Missing("this kernel has no feature " + name), nil
}

// writeFeature requests a feature on or off and checks that it took effect. If it did not, for instance because it
// depends on another feature that is off, it withdraws the request, which would otherwise be granted later on its own.
func writeFeature(e *Conn, device, name, value string) error {
	before, err := e.feature(device, name)
	if err != nil {
		return err
	}
	on := value == "on"
	if before.Fixed && before.On != on {
		return fmt.Errorf("%w: fixed by the driver", unix.EOPNOTSUPP)
	}
	if err := e.setFeature(device, name, on); err != nil {
		return err
	}
	after, err := e.feature(device, name)
	if err != nil {
		return err
	}
	if after.On == on {
		return nil
	}
	err = errors.New("the kernel keeps it " + onOff(after.On) + ", because the device or another feature that it " +
		"needs does not allow it")
	return errors.Join(err, e.setFeature(device, name, before.requested))
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func readFlowHash(e *Conn, device, flow string) (setting.Reading, error) {
	if _, known := flowTypes[flow]; !known {
		return setting.Missing("there is no flow type " + flow), nil
	}
	letters, err := e.flowHash(device, flow)
	if err != nil {
		return setting.Reading{}, err
	}
	if letters == "" {
		features, err := e.Features(device)
		if err != nil {
			return setting.Reading{}, err
		}
		if !spreadsByHash(features) {
			return setting.Missing("the device does not spread packets by a hash"), nil
		}
	}
	return setting.Value(letters), nil
}

func writeFlowHash(e *Conn, device, flow, letters string) error {
	if _, known := flowTypes[flow]; !known {
		return fmt.Errorf("there is no flow type %q", flow)
	}
	return e.setFlowHash(device, flow, letters)
}
