package ethtool

import (
	"fmt"
	"slices"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// dialEthtoolNetlink finds the kernel's ethtool family (Documentation/networking/ethtool-netlink.rst, since Linux 5.6).
func dialEthtoolNetlink() (*genetlink.Conn, uint16, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, 0, err
	}
	_ = conn.SetOption(netlink.ExtendedAcknowledge, true) // error messages from the kernel; since 4.12
	family, err := conn.GetFamily(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, family.ID, nil
}

// altNameSize is ALTIFNAMSIZ, the size of the longest device name with its terminating zero.
const altNameSize = 128

// omitReply is ETHTOOL_FLAG_OMIT_REPLY.
const omitReply = 1 << 1

// request sends one message about a device and returns the attributes of the reply. The header is attribute 1 of every
// message of the family.
func (e *Conn) request(command uint8, device string, flags netlink.HeaderFlags, more func(*netlink.AttributeEncoder)) (
	[]byte, error) {
	if len(device) == 0 || len(device) >= altNameSize {
		return nil, unix.ENODEV
	}
	encoder := netlink.NewAttributeEncoder()
	encoder.Nested(unix.ETHTOOL_A_RINGS_HEADER, func(header *netlink.AttributeEncoder) error {
		header.String(unix.ETHTOOL_A_HEADER_DEV_NAME, device)
		if flags&netlink.Acknowledge != 0 {
			// Otherwise FEATURES_SET sends a reply and then an acknowledgement, and only one is read.
			header.Uint32(unix.ETHTOOL_A_HEADER_FLAGS, omitReply)
		}
		return nil
	})
	if more != nil {
		more(encoder)
	}
	data, err := encoder.Encode()
	if err != nil {
		return nil, err
	}
	answers, err := e.conn.Execute(genetlink.Message{
		Header: genetlink.Header{Command: command, Version: unix.ETHTOOL_GENL_VERSION}, Data: data,
	}, e.family, netlink.Request|flags)
	if err != nil {
		return nil, tree.Netlink(err)
	}
	if len(answers) == 0 {
		return nil, nil
	}
	return answers[0].Data, nil
}

// readNetlink reads a group. The reply omits fields that the driver does not support.
func (e *Conn) readNetlink(g group, device string) (map[string]uint32, error) {
	data, err := e.request(g.get, device, 0, nil)
	if err != nil {
		return nil, err
	}
	return g.decode(data)
}

func (g group) decode(data []byte) (map[string]uint32, error) {
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.what, err)
	}
	values := make(map[string]uint32, len(g.fields))
	for ad.Next() {
		i := int(ad.Type()) - 2
		if i < 0 || i >= len(g.fields) {
			continue
		}
		if field := g.fields[i]; slices.Contains(g.switches, field) {
			values[field] = uint32(ad.Uint8())
		} else {
			values[field] = ad.Uint32()
		}
	}
	if err := ad.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", g.what, err)
	}
	return values, nil
}

// writeNetlink sets one field; the kernel keeps the others.
func (e *Conn) writeNetlink(g group, device, field string, n uint32) error {
	i := slices.Index(g.fields, field)
	if i < 0 {
		return fmt.Errorf("%s: no field %q", g.what, field)
	}
	_, err := e.request(g.set, device, netlink.Acknowledge, func(encoder *netlink.AttributeEncoder) {
		if slices.Contains(g.switches, field) {
			encoder.Uint8(uint16(i+2), uint8(n))
			return
		}
		encoder.Uint32(uint16(i+2), n)
	})
	return err
}

// featuresNetlink reads the four feature sets in verbose form, with names.
func (e *Conn) featuresNetlink(device string) ([]featureState, error) {
	data, err := e.request(unix.ETHTOOL_MSG_FEATURES_GET, device, 0, nil)
	if err != nil {
		return nil, err
	}
	return decodeFeatures(data)
}

// featureBit is one bit of a verbose bit set.
type featureBit struct {
	index uint32
	name  string
	on    bool
}

// decodeFeatures reads the reply to FEATURES_GET. As in ethtool -k, a feature is fixed if the device cannot change it
// (not in HW) or it may never change (in NOCHANGE).
func decodeFeatures(data []byte) ([]featureState, error) {
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return nil, fmt.Errorf("features: %w", err)
	}
	sets := map[uint16]map[string]bool{}
	var order []featureBit
	for ad.Next() {
		kind := ad.Type()
		switch kind {
		case unix.ETHTOOL_A_FEATURES_HW, unix.ETHTOOL_A_FEATURES_WANTED, unix.ETHTOOL_A_FEATURES_ACTIVE,
			unix.ETHTOOL_A_FEATURES_NOCHANGE:
		default:
			continue
		}
		var bits []featureBit
		ad.Nested(func(set *netlink.AttributeDecoder) error { return decodeBitset(set, &bits) })
		on := make(map[string]bool, len(bits))
		for _, bit := range bits {
			on[bit.name] = bit.on
		}
		sets[kind] = on
		if kind == unix.ETHTOOL_A_FEATURES_HW { // its mask has all features, so it names each
			order = bits
		}
	}
	if err := ad.Err(); err != nil {
		return nil, fmt.Errorf("features: %w", err)
	}
	slices.SortFunc(order, func(a, b featureBit) int { return int(a.index) - int(b.index) })
	features := make([]featureState, 0, len(order))
	for _, bit := range order {
		if bit.name == "" { // an obsolete bit
			continue
		}
		features = append(features, featureState{
			Feature: facts.Feature{
				Name: bit.name, On: sets[unix.ETHTOOL_A_FEATURES_ACTIVE][bit.name],
				Fixed: !bit.on || sets[unix.ETHTOOL_A_FEATURES_NOCHANGE][bit.name],
			},
			requested: sets[unix.ETHTOOL_A_FEATURES_WANTED][bit.name],
		})
	}
	return features, nil
}

// decodeBitset reads a verbose bit set. Without a mask, as ACTIVE is sent, every bit in it is on.
func decodeBitset(set *netlink.AttributeDecoder, bits *[]featureBit) error {
	list := false
	for set.Next() {
		switch set.Type() {
		case unix.ETHTOOL_A_BITSET_NOMASK:
			list = true
		case unix.ETHTOOL_A_BITSET_BITS:
			set.Nested(func(all *netlink.AttributeDecoder) error {
				for all.Next() {
					bit := featureBit{}
					all.Nested(func(one *netlink.AttributeDecoder) error {
						for one.Next() {
							switch one.Type() {
							case unix.ETHTOOL_A_BITSET_BIT_INDEX:
								bit.index = one.Uint32()
							case unix.ETHTOOL_A_BITSET_BIT_NAME:
								bit.name = one.String()
							case unix.ETHTOOL_A_BITSET_BIT_VALUE:
								bit.on = true
							}
						}
						return nil
					})
					*bits = append(*bits, bit)
				}
				return nil
			})
		}
	}
	if list {
		for i := range *bits {
			(*bits)[i].on = true
		}
	}
	return nil
}

func (e *Conn) setFeatureNetlink(device, feature string, on bool) error {
	_, err := e.request(unix.ETHTOOL_MSG_FEATURES_SET, device, netlink.Acknowledge,
		func(encoder *netlink.AttributeEncoder) {
			encoder.Nested(unix.ETHTOOL_A_FEATURES_WANTED, func(set *netlink.AttributeEncoder) error {
				set.Nested(unix.ETHTOOL_A_BITSET_BITS, func(bits *netlink.AttributeEncoder) error {
					bits.Nested(unix.ETHTOOL_A_BITSET_BITS_BIT, func(bit *netlink.AttributeEncoder) error {
						bit.String(unix.ETHTOOL_A_BITSET_BIT_NAME, feature)
						bit.Flag(unix.ETHTOOL_A_BITSET_BIT_VALUE, on)
						return nil
					})
					return nil
				})
				return nil
			})
		})
	return err
}
