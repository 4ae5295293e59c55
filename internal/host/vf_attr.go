package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// vfAttr reads and writes the settings of virtual functions through their physical one (rtnetlink, IFLA_VFINFO_LIST).
type vfAttr struct{ m *Machine }

var errNoVF = errors.New("there is no such virtual function")

// function is the settings of one virtual function.
func (v vfAttr) function(pf string, number int) (virtual, error) {
	if !v.m.live {
		return virtual{}, errNotLive
	}
	index := v.m.number(path.Join(classNet, pf, "ifindex"), 0)
	if index == 0 {
		return virtual{}, noSuch("there is no device " + pf)
	}
	conn, err := dialRoute()
	if err != nil {
		return virtual{}, err
	}
	defer conn.Close()
	all, err := linkWithVFs(conn, index)
	if err != nil {
		return virtual{}, describe(err)
	}
	for _, one := range all {
		if one.index == number {
			return one, nil
		}
	}
	return virtual{}, fmt.Errorf("%w: %s has %d", errNoVF, pf, len(all))
}

// parts takes an address apart: physical function, number, attribute.
func (v vfAttr) parts(a setting.Address) (pf string, number int, attribute string, err error) {
	elements := strings.Split(a.Path, "/")
	if len(elements) != 3 {
		return "", 0, "", fmt.Errorf("%s: expected PF/NUMBER/ATTRIBUTE", a)
	}
	number, err = strconv.Atoi(elements[1])
	if err != nil || number < 0 {
		return "", 0, "", fmt.Errorf("%s: expected the number of a virtual function, found %q", a, elements[1])
	}
	return elements[0], number, elements[2], nil
}

func (v vfAttr) Read(_ context.Context, a setting.Address) setting.Reading {
	pf, number, attribute, err := v.parts(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	one, err := v.function(pf, number)
	switch {
	case errors.Is(err, errNoVF), errors.Is(err, unix.ENODEV):
		return setting.NoObject(err.Error())
	case err != nil:
		return failedReading(a.String(), err)
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
	value, err := written(a, to)
	if err != nil {
		return err
	}
	pf, number, attribute, err := v.parts(a)
	if err != nil {
		return err
	}
	before, err := v.function(pf, number)
	if err != nil {
		return refused(a, value, err)
	}
	dir := path.Join(classNet, pf)
	attrType, data, err := before.encode(attribute, value, v.m.link(path.Join(dir, "device", "driver")), v.m.number(path.Join(dir, "speed"), 0))
	if err != nil {
		return refused(a, value, err)
	}
	ctx, cancel := patient(ctx, writePatience)
	defer cancel()
	err = within(ctx, func() error { return setVF(v.m.number(path.Join(dir, "ifindex"), 0), attrType, data) })
	if err != nil {
		return refused(a, value, describe(err))
	}
	after, err := v.function(pf, number)
	if err != nil {
		return refused(a, value, fmt.Errorf("reading back: %w", err))
	}
	if found := after.reading(attribute); !found.Same(setting.Value(value)) {
		return refused(a, value, fmt.Errorf("the driver made it %s", found))
	}
	return nil
}

// setVF sends one attribute of one virtual function.
func setVF(index int, attrType uint16, data []byte) error {
	conn, err := dialRoute()
	if err != nil {
		return err
	}
	defer conn.Close()
	head := make([]byte, unix.SizeofIfInfomsg)
	nativeEndian.PutUint32(head[4:], uint32(index))
	e := netlink.NewAttributeEncoder()
	e.Nested(unix.IFLA_VFINFO_LIST, func(list *netlink.AttributeEncoder) error {
		list.Nested(unix.IFLA_VF_INFO, func(info *netlink.AttributeEncoder) error {
			info.Bytes(attrType, data)
			return nil
		})
		return nil
	})
	attributes, err := e.Encode()
	if err != nil {
		return err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_SETLINK, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append(head, attributes...),
	})
	return err
}

// encode is the netlink attribute that makes one setting of a function hold a value (include/uapi/linux/if_link.h, struct
// ifla_vf_mac and following). VLAN and its priority, and the two rates, go together: the other one stays as it is.
func (v virtual) encode(attribute, value, driver string, speed int) (uint16, []byte, error) {
	number := func(most int) (int, error) {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > most {
			return 0, fmt.Errorf("expected a number from 0 to %d", most)
		}
		return n, nil
	}
	switched := func() (uint32, error) {
		switch value {
		case "on":
			return 1, nil
		case "off":
			return 0, nil
		}
		return 0, errors.New("expected on or off")
	}
	fields := func(words ...uint32) []byte {
		b := make([]byte, 0, 4*len(words)+4)
		for _, word := range append([]uint32{uint32(v.index)}, words...) {
			b = nativeEndian.AppendUint32(b, word)
		}
		return b
	}
	switch attribute {
	case "mac":
		mac, err := net.ParseMAC(value)
		if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
			return 0, nil, errors.New("expected the address of one device, such as 52:54:00:00:00:01")
		}
		return unix.IFLA_VF_MAC, append(fields(), append(mac, make([]byte, 32-len(mac))...)...), nil
	case "vlan":
		n, err := number(4094)
		return unix.IFLA_VF_VLAN, fields(uint32(n), uint32(v.qos)), err
	case "qos":
		n, err := number(7)
		return unix.IFLA_VF_VLAN, fields(uint32(v.vlan), uint32(n)), err
	case "max_tx_rate":
		n, err := number(1 << 24)
		if err == nil {
			err = facts.VFRate(driver, speed, n)
		}
		return unix.IFLA_VF_RATE, fields(uint32(v.minRate), uint32(n)), err
	case "min_tx_rate":
		n, err := number(1 << 24)
		if err == nil {
			err = facts.VFMinRate(driver, n)
		}
		return unix.IFLA_VF_RATE, fields(uint32(n), uint32(v.maxRate)), err
	case "spoofchk":
		on, err := switched()
		return unix.IFLA_VF_SPOOFCHK, fields(on), err
	case "trust":
		on, err := switched()
		return unix.IFLA_VF_TRUST, fields(on), err
	case "link_state":
		for state, name := range [...]string{"auto", "enable", "disable"} { // IFLA_VF_LINK_STATE_AUTO and following
			if name == value {
				return unix.IFLA_VF_LINK_STATE, fields(uint32(state)), nil
			}
		}
		return 0, nil, errors.New("expected auto, enable or disable")
	}
	return 0, nil, fmt.Errorf("virtual functions have no attribute %s", attribute)
}
