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

// vfAttr reads and writes the settings of virtual functions through their physical one (rtnetlink, IFLA_VFINFO_LIST).
type vfAttr struct{ m *tree.Tree }

var errNoVF = errors.New("there is no such virtual function")

// function is the settings of one virtual function.
func (v vfAttr) function(pf string, number int) (virtual, error) {
	all, err := v.functions(pf)
	if err != nil {
		return virtual{}, err
	}
	one, there := all[number]
	if !there {
		return virtual{}, fmt.Errorf("%w: %s has %d", errNoVF, pf, len(all))
	}
	return one, nil
}

// functions are the settings of all of a physical function's, by their numbers.
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
		numbered[one.index] = one.as(driver)
	}
	return numbered, nil
}

// parts takes an address apart: physical function, number, attribute.
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
	return v.from(v.functions, a)
}

// ReadTogether reads many attributes and asks each physical function once: one with a hundred functions tells of all of
// them in each answer. What is read is that of one moment, not kept.
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
		readings[i] = v.from(once, a)
	}
	return readings
}

// from is one attribute among those of all functions.
func (v vfAttr) from(functions func(pf string) (map[int]virtual, error), a setting.Address) setting.Reading {
	pf, number, attribute, err := v.parts(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	all, err := functions(pf)
	one, there := all[number]
	if err == nil && !there {
		err = fmt.Errorf("%w: %s has %d", errNoVF, pf, len(all))
	}
	switch {
	case errors.Is(err, errNoVF), errors.Is(err, unix.ENODEV):
		return setting.NoObject(err.Error())
	case err != nil:
		return tree.Unreadable(a.String(), err)
	}
	return one.reading(attribute)
}

// reading is one attribute as a value.
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

// Write sets one attribute, checks first what the driver is known not to take, and reads back: drivers round rates
// without a word.
func (v vfAttr) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	pf, number, attribute, err := v.parts(a)
	if err != nil {
		return err
	}
	before, err := v.function(pf, number)
	if err != nil {
		return tree.Refusal(a, value, err)
	}
	attrType, data, err := before.encode(attribute, value, v.port(pf))
	if err != nil {
		return tree.Refusal(a, value, err)
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	for { // i40e and ice set a function up anew after most changes, and answer EAGAIN until it is done
		err = setting.Within(ctx, func() error {
			return setVF(v.m.Number(path.Join(tree.ClassNet, pf, "ifindex"), 0),
				attrType, data)
		})
		if !errors.Is(err, unix.EAGAIN) || !pause(ctx, settlePause) {
			break
		}
	}
	if err != nil {
		return tree.Refusal(a, value, tree.Netlink(err))
	}
	for { // the PF tells nothing of a function that is being set up anew
		after, err := v.function(pf, number)
		if err == nil {
			if found := after.reading(attribute); !found.Same(setting.Value(value)) &&
				!ownAddress(attribute, value, before) {
				return tree.Refusal(a, value, fmt.Errorf("the driver made it %s", found))
			}
			return nil
		}
		if !pause(ctx, settlePause) {
			return tree.Refusal(a, value, fmt.Errorf("reading back: %w", err))
		}
	}
}

// settlePause is how long to wait before a function that is being set up again is asked again.
const settlePause = 20 * time.Millisecond

// pause waits; false where the context ended.
func pause(ctx context.Context, how time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(how):
		return true
	}
}

// ownAddress reports whether an address was taken back: a function that is bound to a driver tells its physical one an
// address of its own as soon as it has none (igbvf, ixgbevf, iavf).
func ownAddress(attribute, value string, before virtual) bool {
	return attribute == "mac" && facts.NoAddress(value) && !facts.NoAddress(before.mac)
}

// port is a physical function as the port of its virtual ones.
func (v vfAttr) port(pf string) facts.VFPort {
	dir := path.Join(tree.ClassNet, pf)
	port := facts.VFPort{Driver: v.m.Target(path.Join(dir, "device", "driver")),
		Speed: v.m.Number(path.Join(dir, "speed"), 0)}
	// carrier cannot be read while the device is down; a port that is down limits nothing.
	if carrier, err := v.m.Read(path.Join(dir, "carrier")); err == nil && strings.TrimSpace(carrier) == "1" {
		port.Carrier = "up"
	} else if m := v.m; m.Exists(dir) {
		port.Carrier = "down"
	}
	return port
}

// as takes out of what a driver tells the words that are its own: mlx4 has 4095 for "no VLAN" (MLX4_VGT).
func (v virtual) as(driver string) virtual {
	if driver == "mlx4_core" && v.vlan == 4095 {
		v.vlan = 0
	}
	return v
}

// settings are what the driver tells, as facts.
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
