package host

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"mpps/internal/facts"
)

// The ioctl interface of ethtool (include/uapi/linux/ethtool.h). It is written out here rather than taken from
// safchain/ethtool because that hands a structure's address on as a number over a call, during which the goroutine's
// stack may move, and knows neither the flow hash nor which features are fixed on kernels whose names repeat.

// interfaceRequest is struct ifreq with a pointer: a name and 24 bytes of union.
type interfaceRequest struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// ioctl makes one call. The words begin with the command; the kernel reads and writes as many as the command calls for,
// so the caller must have made room.
func (e *ethtool) ioctl(device string, words []uint32) error {
	if len(device) == 0 || len(device) >= unix.IFNAMSIZ {
		return unix.ENODEV
	}
	request := interfaceRequest{data: unsafe.Pointer(unsafe.SliceData(words))}
	copy(request.name[:], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// quad is the 64-bit number at the start of some words, which must lie at a multiple of 8 bytes in their structure.
func quad(words []uint32) *uint64 { return (*uint64)(unsafe.Pointer(&words[:2][0])) }

func (e *ethtool) readIoctl(g group, device string) (map[string]uint32, error) {
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

// writeIoctl sets one field by writing back all fields of the group as they were read.
func (e *ethtool) writeIoctl(g group, device, field string, n uint32) error {
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

// String sets of ETHTOOL_GSTRINGS.
const (
	statisticsSet = 1
	featuresSet   = 4
)

// stringLength is ETH_GSTRING_LEN.
const stringLength = 32

// roomForMore is how many more strings than announced are made room for: the kernel copies as many as there are when
// asked, and a device may have gained queues in between.
const roomForMore = 1024

// names reads n strings of a set.
func (e *ethtool) names(device string, set uint32, n int) ([]string, error) {
	words := make([]uint32, 3+(n+roomForMore)*stringLength/4)
	words[0], words[1], words[2] = unix.ETHTOOL_GSTRINGS, set, uint32(n)
	if err := e.ioctl(device, words); err != nil {
		return nil, err
	}
	n = min(n, int(words[2]))
	text := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words[3:]))), (len(words)-3)*4)
	names := make([]string, n)
	for i := range names {
		name, _, _ := strings.Cut(string(text[i*stringLength:(i+1)*stringLength]), "\x00")
		names[i] = name
	}
	return names, nil
}

// featureNames reads the names of the kernel's features in the order of their bits.
func (e *ethtool) featureNames(device string) ([]string, error) {
	// struct ethtool_sset_info: command, reserved, 64-bit mask, one count for each bit of the mask.
	words := make([]uint32, 4+64)
	words[0] = unix.ETHTOOL_GSSET_INFO
	*quad(words[2:]) = 1 << featuresSet
	if err := e.ioctl(device, words); err != nil {
		return nil, err
	}
	return e.names(device, featuresSet, int(words[4]))
}

func (e *ethtool) featuresIoctl(device string) ([]featureState, error) {
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
			Feature: facts.Feature{Name: name, On: block[2]&bit != 0, Fixed: block[0]&bit == 0 || block[3]&bit != 0},
			wanted:  block[1]&bit != 0,
		})
	}
	return features, nil
}

func (e *ethtool) setFeatureIoctl(device, feature string, on bool) error {
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

// driverInfo is what is kept of struct ethtool_drvinfo.
type driverInfo struct {
	firmware   string
	statistics int
}

func (e *ethtool) driverInfo(device string) (driverInfo, error) {
	// command, 32 bytes each of driver, version, firmware, bus address, expansion ROM, 12 reserved, five counts.
	words := make([]uint32, 49)
	words[0] = unix.ETHTOOL_GDRVINFO
	if err := e.ioctl(device, words); err != nil {
		return driverInfo{}, err
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
	firmware, _, _ := strings.Cut(string(text[4+64:4+96]), "\x00")
	if firmware == "N/A" {
		firmware = ""
	}
	return driverInfo{firmware: strings.TrimSpace(firmware), statistics: int(words[45])}, nil
}

// maxStatistics bounds what a driver may announce; mlx5 with 64 channels has some thousands.
const maxStatistics = 1 << 16

// statistics reads the driver's own counters by name; nil where there are none or they cannot be read.
func (e *ethtool) statistics(device string, n int) map[string]uint64 {
	if n <= 0 || n > maxStatistics {
		return nil
	}
	names, err := e.names(device, statisticsSet, n)
	if err != nil {
		return nil
	}
	words := make([]uint32, 2+2*(n+roomForMore))
	words[0], words[1] = unix.ETHTOOL_GSTATS, uint32(n)
	if err := e.ioctl(device, words); err != nil {
		return nil
	}
	if int(words[1]) != len(names) { // the device was set up anew in between: names and values do not belong together
		return nil
	}
	counters := make(map[string]uint64, n)
	for i, name := range names {
		counters[strings.TrimSpace(name)] = *quad(words[2+2*i:])
	}
	return counters
}
