package ethtool

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/model/facts"
)

// The ioctl interface of ethtool, for kernels without ethtool netlink and for what that lacks.

// ioctl is nicctl.Call on the socket.
func (e *Conn) ioctl(device string, words []uint32) error { return nicctl.Call(e.fd, device, words) }

func (e *Conn) readIoctl(g group, device string) (map[string]uint32, error) {
	words := make([]uint32, len(g.fields)+1)
	words[0] = g.ioctlGet
	if err := e.ioctl(device, words); err != nil {
		return nil, err
	}
	values := make(map[string]uint32, len(g.fields))
	for i, field := range g.fields {
		if g.what == coalesceGroup.what && words[i+1] == 0 && !slices.Contains(usualCoalescing, field) {
			continue
		}
		values[field] = words[i+1]
	}
	return values, nil
}

// writeIoctl sets one field: it reads all fields of the group, changes one and writes them back.
func (e *Conn) writeIoctl(g group, device, field string, n uint32) error {
	i := slices.Index(g.fields, field)
	if i < 0 {
		return fmt.Errorf("%s: no field %q", g.what, field)
	}
	words := make([]uint32, len(g.fields)+1)
	words[0] = g.ioctlGet
	if err := e.ioctl(device, words); err != nil {
		return err
	}
	words[0], words[i+1] = g.ioctlSet, n
	return e.ioctl(device, words)
}

// featuresSet is the string set of features of ETHTOOL_GSTRINGS, ETH_SS_FEATURES.
const featuresSet = 4

// featureNames returns the names of the kernel's features in the order of their bits.
func (e *Conn) featureNames(device string) ([]string, error) {
	// struct ethtool_sset_info: command, reserved, 64-bit mask, one count for each bit of the mask.
	words := make([]uint32, 4+64)
	words[0] = unix.ETHTOOL_GSSET_INFO
	*nicctl.Quad(words[2:]) = 1 << featuresSet
	if err := e.ioctl(device, words); err != nil {
		return nil, err
	}
	return nicctl.Names(e.fd, device, featuresSet, int(words[4]))
}

func (e *Conn) featuresIoctl(device string) ([]featureState, error) {
	names, err := e.featureNames(device)
	if err != nil {
		return nil, err
	}
	// struct ethtool_gfeatures: command, number of blocks, blocks of available, requested, active, never changed.
	blocks := (len(names) + 31) / 32
	words := make([]uint32, 2+4*blocks)
	words[0], words[1] = unix.ETHTOOL_GFEATURES, uint32(blocks)
	if err := e.ioctl(device, words); err != nil {
		return nil, err
	}
	var features []featureState
	for i, name := range names {
		if name == "" { // a bit without a meaning
			continue
		}
		block, bit := words[2+4*(i/32):], uint32(1)<<(i%32)
		features = append(features, featureState{
			Feature:   facts.Feature{Name: name, On: block[2]&bit != 0, Fixed: block[0]&bit == 0 || block[3]&bit != 0},
			requested: block[1]&bit != 0,
		})
	}
	return features, nil
}

func (e *Conn) setFeatureIoctl(device, feature string, on bool) error {
	names, err := e.featureNames(device)
	if err != nil {
		return err
	}
	i := slices.Index(names, feature)
	if i < 0 {
		return fmt.Errorf("%w: no feature %q", unix.EOPNOTSUPP, feature)
	}
	// struct ethtool_sfeatures: command, number of blocks, blocks of valid, requested.
	blocks := (len(names) + 31) / 32
	words := make([]uint32, 2+2*blocks)
	words[0], words[1] = unix.ETHTOOL_SFEATURES, uint32(blocks)
	words[2+2*(i/32)] = 1 << (i % 32)
	if on {
		words[3+2*(i/32)] = 1 << (i % 32)
	}
	return e.ioctl(device, words)
}
