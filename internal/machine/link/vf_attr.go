package link

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// vfAttr reads and writes the settings of VFs through their PF (rtnetlink, IFLA_VFINFO_LIST).
type vfAttr struct{ m *tree.Tree }

var errNoVF = errors.New("there is no such virtual function")

// function returns the settings of one VF of a PF, given a function that returns all of them. The error is errNoVF if
// there is no such VF.
func function(functions func(pf string) (map[int]virtual, error), pf string, number int) (virtual, error) {
	all, err := functions(pf)
	if err != nil {
		return virtual{}, err
	}
	one, there := all[number]
	if !there {
		return virtual{}, fmt.Errorf("%w: %s has %d", errNoVF, pf, len(all))
	}
	return one, nil
}

// functions returns the settings of all VFs of a PF, by number.
func (v vfAttr) functions(pf string) (map[int]virtual, error) {
	if !v.m.Live() {
		return nil, tree.ErrNotLive
	}
	index := v.m.Number(path.Join(tree.ClassNet, pf, "ifindex"), 0)
	if index == 0 {
		return nil, tree.NoSuch("there is no device " + pf)
	}
	conn, err := DialRoute()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all, _, err := linkWithVFs(conn, index, v.m.Number(path.Join(tree.ClassNet, pf, "device/sriov_numvfs"), 0), false)
	if err != nil {
		return nil, tree.Netlink(err)
	}
	driver := v.m.Target(path.Join(tree.ClassNet, pf, "device", "driver"))
	numbered := make(map[int]virtual, len(all))
	for _, one := range all {
		numbered[one.index] = one.normalized(driver)
	}
	return numbered, nil
}

// parts splits an address: PF, number, attribute.
func (v vfAttr) parts(a setting.Address) (pf string, number int, attribute string, err error) {
	elements := strings.Split(a.Path, "/")
	if len(elements) != 3 {
		return "", 0, "", a.Errorf("expected PF/NUMBER/ATTRIBUTE")
	}
	number, err = strconv.Atoi(elements[1])
	if err != nil || number < 0 {
		return "", 0, "", a.Errorf("expected the number of a virtual function, found %q", elements[1])
	}
	return elements[0], number, elements[2], nil
}

func (v vfAttr) Read(_ context.Context, a setting.Address) setting.Reading {
	return v.readFrom(v.functions, a)
}

// ReadTogether reads many attributes with one request to each PF, whose reply has all its VFs. Nothing is cached beyond
// the call.
func (v vfAttr) ReadTogether(all []setting.Address) []setting.Reading {
	type answer struct {
		functions map[int]virtual
		err       error
	}
	asked := map[string]answer{}
	once := func(pf string) (map[int]virtual, error) {
		known, is := asked[pf]
		if !is {
			known.functions, known.err = v.functions(pf)
			asked[pf] = known
		}
		return known.functions, known.err
	}
	readings := make([]setting.Reading, len(all))
	for i, a := range all {
		readings[i] = v.readFrom(once, a)
	}
	return readings
}

// readFrom returns one attribute, given a function that returns all VFs of a PF.
func (v vfAttr) readFrom(functions func(pf string) (map[int]virtual, error), a setting.Address) setting.Reading {
	pf, number, attribute, err := v.parts(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	one, err := function(functions, pf, number)
	switch {
	case errors.Is(err, errNoVF), errors.Is(err, unix.ENODEV):
		return setting.NoObject(err.Error())
	case err != nil:
		return tree.Unreadable(a.String(), err)
	}
	return one.reading(attribute)
}

// reading returns one attribute.
func (v virtual) reading(attribute string) setting.Reading {
	onOff := func(on, untold bool) setting.Reading {
		switch {
		case untold:
			return setting.Missing("the driver does not tell " + attribute)
		case on:
			return setting.Value("on")
		}
		return setting.Value("off")
	}
	switch attribute {
	case "mac":
		return setting.Value(v.mac)
	case "vlan":
		return setting.Value(strconv.Itoa(v.vlan))
	case "qos":
		return setting.Value(strconv.Itoa(v.qos))
	case "max_tx_rate":
		return setting.Value(strconv.Itoa(v.maxRate))
	case "min_tx_rate":
		return setting.Value(strconv.Itoa(v.minRate))
	case "spoofchk":
		return onOff(v.spoofCheck, v.noSpoof)
	case "trust":
		return onOff(v.trust, v.noTrust)
	case "link_state":
		if v.linkState == "" {
			return setting.Missing("the driver does not tell link_state")
		}
		return setting.Value(v.linkState)
	}
	return setting.CouldNotTell("virtual functions have no attribute " + attribute)
}

// Write sets one attribute and reads it back: drivers silently round rates. It first checks what the driver is known to
// refuse.
func (v vfAttr) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	pf, number, attribute, err := v.parts(a)
	if err != nil {
		return err
	}
	return tree.Set(a, to, func(value string) error {
		before, err := function(v.functions, pf, number)
		if err != nil {
			return err
		}
		attrType, data, err := before.encode(attribute, value, v.port(pf))
		if err != nil {
			return err
		}
		ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
		defer cancel()
		for { // i40e and ice set a VF up again after most changes, and return EAGAIN until that is done
			err = setting.Within(ctx, func() error {
				return setVF(v.m.Number(path.Join(tree.ClassNet, pf, "ifindex"), 0), attrType, data)
			})
			if !errors.Is(err, unix.EAGAIN) || !pause(ctx) {
				break
			}
		}
		if err != nil {
			return tree.Netlink(err)
		}
		for { // the PF reports nothing for a VF that is being set up again
			after, err := function(v.functions, pf, number)
			if err == nil {
				if found := after.reading(attribute); !found.Same(setting.Value(value)) &&
					!ownAddress(attribute, value, before) {
					return fmt.Errorf("the driver made it %s", found)
				}
				return nil
			}
			if !pause(ctx) {
				return fmt.Errorf("reading back: %w", err)
			}
		}
	})
}

// pause waits before a VF that is being set up again is asked again; false if the context has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}

// ownAddress reports whether a cleared address may read back as another one: a VF bound to a driver sets its own
// address at the PF as soon as it has none (igbvf, ixgbevf, iavf).
func ownAddress(attribute, value string, before virtual) bool {
	return attribute == "mac" && facts.NoAddress(value) && !facts.NoAddress(before.mac)
}

// port returns a PF's driver, speed and carrier.
func (v vfAttr) port(pf string) facts.VFPort {
	dir := path.Join(tree.ClassNet, pf)
	port := facts.VFPort{Driver: v.m.Target(path.Join(dir, "device", "driver")),
		Speed: v.m.Number(path.Join(dir, "speed"), 0)}
	// carrier cannot be read while the device is down; a port that is down limits nothing.
	if v.m.Line(path.Join(dir, "carrier")) == "1" {
		port.Carrier = "up"
	} else if v.m.Exists(dir) {
		port.Carrier = "down"
	}
	return port
}

// normalized translates a driver's own values: mlx4 has VLAN 4095 for "no VLAN" (MLX4_VGT).
func (v virtual) normalized(driver string) virtual {
	if driver == "mlx4_core" && v.vlan == 4095 {
		v.vlan = 0
	}
	return v
}

// settings returns the driver's report as facts.
func (v virtual) settings() facts.VF {
	f := facts.VF{
		Index: v.index, MAC: v.mac, VLAN: v.vlan, QoS: v.qos, MaxTxRate: v.maxRate, MinTxRate: v.minRate,
		SpoofCheck: v.spoofCheck, Trust: v.trust, LinkState: v.linkState,
	}
	if v.noSpoof {
		f.Untold = append(f.Untold, "spoofchk")
	}
	if v.noTrust {
		f.Untold = append(f.Untold, "trust")
	}
	if v.linkState == "" {
		f.Untold = append(f.Untold, "link_state")
	}
	return f
}
