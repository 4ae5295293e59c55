// Package nicctl is the ioctl interface of ethtool (include/uapi/linux/ethtool.h). It does not use safchain/ethtool,
// which passes a structure's address as an integer through a call, during which the goroutine's stack may move.
package nicctl

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// interfaceRequest is struct ifreq with a pointer: a name and 24 bytes of union.
type interfaceRequest struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// Call makes one call on a socket of any kind, for an interface of the socket's network namespace. The words begin with
// the command; they must be as long as the command's structure, which the kernel reads and writes. Errors are those of
// ioctl(2); ENODEV also for a name that no interface can have.
func Call(socket int, device string, words []uint32) error {
	if len(device) == 0 || len(device) >= unix.IFNAMSIZ {
		return unix.ENODEV
	}
	request := interfaceRequest{data: unsafe.Pointer(unsafe.SliceData(words))}
	copy(request.name[:], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// Quad returns the 64-bit number at the start of words, which must be at a multiple of 8 bytes in their structure.
func Quad(words []uint32) *uint64 { return (*uint64)(unsafe.Pointer(&words[:2][0])) }

// statisticsSet is the string set of the driver's counters, ETH_SS_STATS.
const statisticsSet = 1

// stringLength is ETH_GSTRING_LEN.
const stringLength = 32

// roomForMore is how many strings more than announced there is room for: the kernel copies all of the moment, and a
// device may have gained queues meanwhile.
const roomForMore = 1024

// Names returns n strings of a set.
func Names(socket int, device string, set uint32, n int) ([]string, error) {
	words := make([]uint32, 3+(n+roomForMore)*stringLength/4)
	words[0], words[1], words[2] = unix.ETHTOOL_GSTRINGS, set, uint32(n)
	if err := Call(socket, device, words); err != nil {
		return nil, err
	}
	n = min(n, int(words[2]))
	text := Bytes(words[3:])
	names := make([]string, n)
	for i := range names {
		names[i] = Text(text[i*stringLength : (i+1)*stringLength])
	}
	return names, nil
}

// Driver is the part of struct ethtool_drvinfo that is used.
type Driver struct {
	Name       string
	Firmware   string // empty if it has none
	Statistics int    // number of the driver's own counters
}

// ReadDriver returns the driver of an interface.
func ReadDriver(socket int, device string) (Driver, error) {
	// command, 32 bytes each of driver, version, firmware, bus address, expansion ROM, 12 reserved, five counts.
	words := make([]uint32, 49)
	words[0] = unix.ETHTOOL_GDRVINFO
	if err := Call(socket, device, words); err != nil {
		return Driver{}, err
	}
	text := Bytes(words)
	d := Driver{Name: Text(text[4:36]), Firmware: strings.TrimSpace(Text(text[68:100])), Statistics: int(words[45])}
	if d.Firmware == "N/A" {
		d.Firmware = ""
	}
	return d, nil
}

// maxStatistics is the most counters that a driver may announce; mlx5 with 64 channels has some thousands.
const maxStatistics = 1 << 16

// Statistics returns the driver's own counters by name; n is Driver.Statistics. It is nil if there are none or they
// cannot be read.
func Statistics(socket int, device string, n int) map[string]uint64 {
	if n <= 0 || n > maxStatistics {
		return nil
	}
	names, err := Names(socket, device, statisticsSet, n)
	if err != nil {
		return nil
	}
	words := make([]uint32, 2+2*(n+roomForMore))
	words[0], words[1] = unix.ETHTOOL_GSTATS, uint32(n)
	if err := Call(socket, device, words); err != nil {
		return nil
	}
	if int(words[1]) != len(names) { // the device was set up again meanwhile: names and values do not match
		return nil
	}
	counters := make(map[string]uint64, n)
	for i, name := range names {
		counters[strings.TrimSpace(name)] = *Quad(words[2+2*i:])
	}
	return counters
}

// Bytes returns the memory of words as bytes.
func Bytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
}

// Text returns a structure's zero-terminated string.
func Text(field []byte) string {
	text, _, _ := strings.Cut(string(field), "\x00")
	return text
}
