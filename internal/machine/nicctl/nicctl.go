// Package nicctl is the ioctl interface of ethtool (include/uapi/linux/ethtool.h). It is written out here rather than
// taken from safchain/ethtool because that hands a structure's address on as a number over a call, during which the
// goroutine's stack may move.
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
// the command; the kernel reads and writes as many as the command calls for, so the caller must have made room. Errors
// are those of ioctl(2), ENODEV also for a name that no interface can have.
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

// Quad is the 64-bit number at the start of some words, which must lie at a multiple of 8 bytes in their structure.
func Quad(words []uint32) *uint64 { return (*uint64)(unsafe.Pointer(&words[:2][0])) }

// statisticsSet is the string set of the driver's counters, ETH_SS_STATS.
const statisticsSet = 1

// stringLength is ETH_GSTRING_LEN.
const stringLength = 32

// roomForMore is how many more strings than announced are made room for: the kernel copies as many as there are when
// asked, and a device may have gained queues in between.
const roomForMore = 1024

// Names reads n strings of a set.
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

// Driver is what is kept of struct ethtool_drvinfo.
type Driver struct {
	Name       string
	Firmware   string // empty where there is none
	Statistics int    // how many counters of its own it has
}

// ReadDriver asks an interface for its driver.
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

// maxStatistics bounds what a driver may announce; mlx5 with 64 channels has some thousands.
const maxStatistics = 1 << 16

// Statistics reads the driver's own counters by name, n of them as ReadDriver told; nil where there are none or they
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
	if int(words[1]) != len(names) { // the device was set up anew in between: names and values do not belong together
		return nil
	}
	counters := make(map[string]uint64, n)
	for i, name := range names {
		counters[strings.TrimSpace(name)] = *Quad(words[2+2*i:])
	}
	return counters
}

// Bytes are the words as the bytes that they lie in memory as.
func Bytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
}

// Text is a string of a structure, which ends with its first zero byte.
func Text(field []byte) string {
	text, _, _ := strings.Cut(string(field), "\x00")
	return text
}
