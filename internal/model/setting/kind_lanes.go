package setting

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// QueueLanes: "queue-lanes:ens1f0", a NIC. Which of its transmit queues the packets of which taps leave by, if a
// program carries the guest's queue number from the tap to the NIC: TAP=BASE+COUNT for each tap, sorted, separated by
// one space. TAP is the tap's name, or the MAC address that its guest sees: by that the tap is found whatever its name
// after the guest's next start. Queue n of the tap leaves by BASE + n mod COUNT. "idle" if the program is loaded and
// steers nothing; absent if it is not loaded.
const QueueLanes Kind = "queue-lanes"

// MaxLanes is how many queues of a NIC can be told apart: the number travels in 8 bits.
const MaxLanes = 256

// IdleLanes is the value if the program is loaded and steers nothing.
const IdleLanes = "idle"

// Lane is one tap's window of a NIC's transmit queues.
type Lane struct {
	Tap   string `json:"tap"`   // its name, or the MAC address that its guest sees
	Base  int    `json:"base"`  // the first queue
	Count int    `json:"count"` // how many
}

// String returns the lane as values have it.
func (l Lane) String() string { return fmt.Sprintf("%s=%d+%d", l.Tap, l.Base, l.Count) }

// LanesText returns the canonical value of lanes.
func LanesText(lanes []Lane) string {
	if len(lanes) == 0 {
		return IdleLanes
	}
	sorted := slices.SortedFunc(slices.Values(lanes), func(a, b Lane) int { return cmp.Compare(a.Tap, b.Tap) })
	words := make([]string, len(sorted))
	for i, l := range sorted {
		words[i] = l.String()
	}
	return strings.Join(words, " ")
}

// ParseLanes parses a value of lanes, at most one for each tap; "idle" has none.
func ParseLanes(text string) ([]Lane, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil, fmt.Errorf("expected lanes such as vnet0=0+4, or idle, found %q", text)
	}
	if len(fields) == 1 && fields[0] == IdleLanes {
		return nil, nil
	}
	taken := map[string]bool{}
	var lanes []Lane
	for _, field := range fields {
		l, err := parseLane(field)
		if err != nil {
			return nil, err
		}
		if taken[l.Tap] {
			return nil, fmt.Errorf("expected one window for each tap, found two of %s", l.Tap)
		}
		taken[l.Tap] = true
		lanes = append(lanes, l)
	}
	return lanes, nil
}

// parseLane parses TAP=BASE+COUNT. The name of a device may contain an equals sign.
func parseLane(field string) (Lane, error) {
	bad := func(what string) (Lane, error) {
		return Lane{}, fmt.Errorf("lane %q: expected TAP=BASE+COUNT such as vnet0=0+4, %s", field, what)
	}
	at := strings.LastIndexByte(field, '=')
	if at < 0 {
		return bad("found no window")
	}
	l := Lane{Tap: field[:at]}
	first, number, two := strings.Cut(field[at+1:], "+")
	base, err := strconv.ParseUint(first, 10, 16)
	count, err2 := strconv.ParseUint(number, 10, 16)
	if !two || err != nil || err2 != nil {
		return bad("found another window")
	}
	if l.Base, l.Count = int(base), int(count); l.Count == 0 || l.Base+l.Count > MaxLanes {
		return bad(fmt.Sprintf("with queues from 0 to %d", MaxLanes-1))
	}
	if strings.Contains(l.Tap, ":") {
		mac, err := net.ParseMAC(l.Tap)
		if err != nil || len(mac) != 6 {
			return bad("found an address that is none")
		}
		l.Tap = mac.String()
		return l, nil
	}
	// IFNAMSIZ counts the zero at the end; net/core/dev.c, dev_valid_name.
	if l.Tap == "" || len(l.Tap) > 15 || strings.Contains(l.Tap, "/") || l.Tap == "." || l.Tap == ".." {
		return bad("found a name that no device can have")
	}
	return l, nil
}

func canonicalLanes(raw string) (string, error) {
	lanes, err := ParseLanes(raw)
	if err != nil {
		return "", err
	}
	return LanesText(lanes), nil
}

// XPS returns the address of the CPUs that send by a transmit queue.
func XPS(device string, queue int) Address {
	return Of(SysfsCPUs, "class/net", device, "queues", "tx-"+strconv.Itoa(queue), "xps_cpus")
}
