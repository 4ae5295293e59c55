package link

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mpps/internal/machine/lanes"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// queueLanes reads and sets which transmit queues of a NIC each tap's packets use (setting.QueueLanes), with the
// programs of package lanes.
type queueLanes struct{ m *tree.Tree }

var errNoNIC = errors.New("there is no such network device")

// program returns the lane program of a NIC for the current devices. The error is errNoNIC if the NIC does not exist;
// the program is then still good for Exists and Remove.
func (q queueLanes) program(nic string) (lanes.Program, error) {
	conn, err := DialRoute()
	if err != nil {
		return lanes.Program{}, err
	}
	defer conn.Close()
	devices, err := DumpLinks(conn)
	if err != nil {
		return lanes.Program{}, err
	}
	p := lanes.Program{Root: lanes.FileSystem, NIC: lanes.Device{Name: nic},
		Find: func(tap string) (lanes.Device, bool) { return tapOf(devices, tap) }}
	for _, d := range devices {
		if d.Name == nic {
			p.NIC.Index = d.Index
			p.Between = func(tap lanes.Device) []lanes.Device { return between(devices, tap.Index, d.Index) }
			return p, nil
		}
	}
	return p, errNoNIC
}

// AskLanes sets h.Kernel.Lanes to whether the running kernel accepts the lane programs. It loads them, which an
// inventory does not do. It leaves the fact unset if it lacks the privilege.
func AskLanes(m *tree.Tree, h *facts.Host) {
	if !m.Live() {
		return
	}
	if s, err := lanes.Supported(); err == nil {
		h.Kernel.Lanes = &facts.LaneSupport{Why: s.Why, TCX: s.TCX}
	}
}

// between returns the tunnels, VLANs and bonds that a tap's packets pass on their way to a NIC: those below its bridge
// that are bound to each other. It does not follow routes or Open vSwitch.
func between(devices []Device, tap, nic int) []lanes.Device {
	at := map[int]Device{}
	for _, d := range devices {
		at[d.Index] = d
	}
	var found []lanes.Device
	known := map[int]bool{tap: false}
	var leads func(index int) bool
	leads = func(index int) bool {
		d, there := at[index]
		if is, before := known[index]; before || !there || index == nic {
			return is || index == nic
		}
		known[index] = false // in case of a loop
		is := IsTunnel(d.Kind) && d.Kind != "bond" && leads(d.lower)
		for _, port := range devices {
			if (d.Kind == "bridge" || d.Kind == "bond") && port.master == index && leads(port.Index) {
				is = true
			}
		}
		if is && IsTunnel(d.Kind) {
			found = append(found, lanes.Device{Name: d.Name, Index: index})
		}
		known[index] = is
		return is
	}
	leads(at[tap].master)
	return found
}

// tapOf returns the device that a lane names: by name, or by the MAC address of a guest's NIC. Libvirt gives a tap the
// address of the guest's NIC with fe as its first byte (src/util/virnetdevtap.c, virNetDevTapCreateInBridgePort), so
// that the bridge never adopts it as its own.
func tapOf(devices []Device, tap string) (lanes.Device, bool) {
	for _, d := range devices {
		is := d.Name == tap
		if strings.Contains(tap, ":") {
			is = d.Kind == "tun" && (d.mac == tap || len(d.mac) == len(tap) && d.mac[:2] == "fe" &&
				d.mac[2:] == tap[2:])
		}
		if is {
			return lanes.Device{Name: d.Name, Index: d.Index, Unrecorded: d.Kind == "veth"}, true
		}
	}
	return lanes.Device{}, false
}

func (q queueLanes) Read(_ context.Context, a setting.Address) setting.Reading {
	if !q.m.Live() {
		return setting.CouldNotTell(tree.ErrNotLive.Error())
	}
	p, err := q.program(a.Path)
	switch {
	case errors.Is(err, errNoNIC):
		if there, err := p.Exists(); there && err == nil { // left at the taps of a NIC that is gone
			return setting.Value(setting.IdleLanes)
		}
		return setting.NoObject(fmt.Sprintf("there is no device %s", a.Path))
	case err != nil:
		return tree.Unreadable(a.String(), err)
	}
	found, there, err := p.Read()
	switch {
	case err != nil:
		return tree.Unreadable(a.String(), err)
	case !there:
		return setting.Missing("no lane program of mpps is attached to " + a.Path)
	}
	return setting.Value(setting.LanesText(found))
}

func (q queueLanes) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if !q.m.Live() {
		return tree.Refusal(a, to.String(), tree.ErrNotLive)
	}
	p, err := q.program(a.Path)
	// The pins of a NIC that is gone may still be there.
	if err != nil && !(errors.Is(err, errNoNIC) && to.State == setting.Absent) {
		return tree.Refusal(a, to.String(), err)
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	if to.State == setting.Absent {
		err = setting.Within(ctx, p.Remove)
	} else {
		var value string
		if value, err = tree.Canonical(a, to); err != nil {
			return err
		}
		var wanted []setting.Lane
		if wanted, err = setting.ParseLanes(value); err == nil {
			err = setting.Within(ctx, func() error { return p.Write(wanted) })
		}
	}
	if err != nil {
		return tree.Refusal(a, to.String(), err)
	}
	return nil
}

// SteeredNICs returns the NICs that have a lane program of mpps; none on a recorded machine.
func SteeredNICs(m *tree.Tree) ([]string, error) {
	if !m.Live() {
		return nil, nil
	}
	return lanes.Steered(lanes.FileSystem)
}

// steered reports whether a lane program selects a NIC's transmit queues; false if unknown.
func steered(m *tree.Tree, d Device) bool {
	if !m.Live() {
		return false
	}
	pinned, err := lanes.Program{Root: lanes.FileSystem, NIC: lanes.Device{Name: d.Name}}.Pinned()
	return pinned && err == nil
}
