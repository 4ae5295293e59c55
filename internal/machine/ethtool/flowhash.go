package ethtool

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
)

// flowNames are the flow types whose hash is read.
var flowNames = []string{"udp4", "udp6", "tcp4", "tcp6"}

// flowTypes are their numbers (include/uapi/linux/ethtool.h, TCP_V4_FLOW and so on).
var flowTypes = map[string]uint32{"tcp4": 1, "udp4": 2, "tcp6": 5, "udp6": 6}

// hashBits are the packet fields that can be hashed (RXH_*), with ethtool's letters in canonical order.
var hashBits = []struct {
	letter byte
	bit    uint64
}{
	{'m', 1 << 1},  // L2DA: destination MAC
	{'v', 1 << 2},  // VLAN tag
	{'t', 1 << 3},  // layer 3 protocol
	{'s', 1 << 4},  // source address
	{'d', 1 << 5},  // destination address
	{'f', 1 << 6},  // bytes 0 and 1 of the layer 4 header: source port
	{'n', 1 << 7},  // bytes 2 and 3: destination port
	{'r', 1 << 31}, // discard
}

// rxnfcWords is the size of struct ethtool_rxnfc in words: command, flow type, 64 bits of data, a flow specification of
// 168 bytes and a rule count.
const rxnfcWords = 48

// flowHash returns the letters of the packet fields that select the receive queue. Linux 6.17 has them in netlink too;
// the ioctl works on all kernels.
func (e *Conn) flowHash(device, flow string) (string, error) {
	words := make([]uint32, rxnfcWords)
	words[0], words[1] = unix.ETHTOOL_GRXFH, flowTypes[flow]
	if err := e.ioctl(device, words); err != nil {
		return "", err
	}
	return hashLetters(*nicctl.Quad(words[2:])), nil
}

func (e *Conn) setFlowHash(device, flow, letters string) error {
	bits, err := hashMask(letters)
	if err != nil {
		return err
	}
	words := make([]uint32, rxnfcWords)
	words[0], words[1] = unix.ETHTOOL_SRXFH, flowTypes[flow]
	*nicctl.Quad(words[2:]) = bits
	return e.ioctl(device, words)
}

func hashLetters(bits uint64) string {
	var letters strings.Builder
	for _, part := range hashBits {
		if bits&part.bit != 0 {
			letters.WriteByte(part.letter)
		}
	}
	return letters.String()
}

func hashMask(letters string) (uint64, error) {
	var bits uint64
next:
	for i := range len(letters) {
		for _, part := range hashBits {
			if part.letter == letters[i] {
				bits |= part.bit
				continue next
			}
		}
		return 0, fmt.Errorf("flow hash %q: unknown letter %q", letters, letters[i])
	}
	return bits, nil
}
