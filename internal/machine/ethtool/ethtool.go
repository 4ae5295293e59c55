// Package ethtool reads and writes the driver settings of NICs (rings, channels, coalescing, features, flow hash) over
// generic netlink, or by ioctl where the kernel has no other way.
package ethtool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/genetlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Conn asks drivers for their settings and sets them: over generic netlink, which tells what a driver supports,
// changes one field without touching the others and words its refusals; and by ioctl for what netlink does not carry
// (flow hash before 6.17, statistics, firmware version) and for kernels before 5.6, which have no netlink interface.
type Conn struct {
	conn   *genetlink.Conn // nil where the kernel has no such family
	family uint16
	fd     int // socket for the ioctl
}

// Dial opens both ways into the network namespace of the calling thread.
func Dial() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket for driver settings: %w", err)
	}
	e := &Conn{fd: fd}
	conn, family, err := dialEthtoolNetlink()
	if err == nil {
		e.conn, e.family = conn, family
	}
	return e, nil
}

func (e *Conn) Close() {
	if e.conn != nil {
		e.conn.Close()
	}
	unix.Close(e.fd)
}

// group is a set of numbers that a driver reads and writes together. Their order is the same in the ioctl's structure,
// behind the command, as in the netlink message, behind the header (include/uapi/linux/ethtool.h and
// ethtool_netlink.h): word i of the one is attribute i+1 of the other.
type group struct {
	what               string
	get, set           uint8  // netlink messages
	ioctlGet, ioctlSet uint32 // ioctl commands
	fields             []string
	switches           []string // fields that are on or off: 8 bits wide in netlink
}

var ringGroup = group{
	what: "rings", get: unix.ETHTOOL_MSG_RINGS_GET, set: unix.ETHTOOL_MSG_RINGS_SET,
	ioctlGet: unix.ETHTOOL_GRINGPARAM, ioctlSet: unix.ETHTOOL_SRINGPARAM,
	fields: []string{"rx-max", "rx-mini-max", "rx-jumbo-max", "tx-max", "rx", "rx-mini", "rx-jumbo", "tx"},
}

var channelGroup = group{
	what: "channels", get: unix.ETHTOOL_MSG_CHANNELS_GET, set: unix.ETHTOOL_MSG_CHANNELS_SET,
	ioctlGet: unix.ETHTOOL_GCHANNELS, ioctlSet: unix.ETHTOOL_SCHANNELS,
	fields: []string{"rx-max", "tx-max", "other-max", "combined-max", "rx", "tx", "other", "combined"},
}

var coalesceGroup = group{
	what: "coalescing", get: unix.ETHTOOL_MSG_COALESCE_GET, set: unix.ETHTOOL_MSG_COALESCE_SET,
	ioctlGet: unix.ETHTOOL_GCOALESCE, ioctlSet: unix.ETHTOOL_SCOALESCE,
	fields: []string{
		"rx-usecs", "rx-frames", "rx-usecs-irq", "rx-frames-irq", "tx-usecs", "tx-frames", "tx-usecs-irq",
		"tx-frames-irq",
		"stats-block-usecs", "adaptive-rx", "adaptive-tx", "pkt-rate-low", "rx-usecs-low", "rx-frames-low",
		"tx-usecs-low",
		"tx-frames-low", "pkt-rate-high", "rx-usecs-high", "rx-frames-high", "tx-usecs-high", "tx-frames-high",
		"sample-interval",
	},
	switches: []string{"adaptive-rx", "adaptive-tx"},
}

// usualCoalescing are the fields reported where only the ioctl is there: it gives a zero for a field that is zero and
// for one that the driver does not have.
var usualCoalescing = []string{"rx-usecs", "tx-usecs", "rx-frames", "tx-frames", "adaptive-rx", "adaptive-tx"}

// value is a field's number in the canonical form of its setting.
func (g group) value(field string, n uint32) string {
	if slices.Contains(g.switches, field) {
		return [...]string{"off", "on"}[min(n, 1)]
	}
	return strconv.FormatUint(uint64(n), 10)
}

// parse reads what value wrote.
func (g group) parse(field, value string) (uint32, error) {
	if slices.Contains(g.switches, field) {
		switch value {
		case "on":
			return 1, nil
		case "off":
			return 0, nil
		}
		return 0, fmt.Errorf("expected on or off, found %q", value)
	}
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("expected a number of at most 32 bits, found %q", value)
	}
	return uint32(n), nil
}

// read gives a group's fields by name, those that the driver has. The error wraps EOPNOTSUPP where it has none.
func (e *Conn) read(g group, device string) (map[string]uint32, error) {
	if e.conn != nil {
		return e.readNetlink(g, device)
	}
	return e.readIoctl(g, device)
}

// write sets one field of a group.
func (e *Conn) write(g group, device, field string, n uint32) error {
	if e.conn != nil {
		return e.writeNetlink(g, device, field, n)
	}
	return e.writeIoctl(g, device, field, n)
}

// featureState is a feature and whether somebody wants it on.
type featureState struct {
	facts.Feature
	wanted bool
}

// Features lists the device's offloads in the kernel's order of bits.
func (e *Conn) Features(device string) ([]featureState, error) {
	if e.conn != nil {
		return e.featuresNetlink(device)
	}
	return e.featuresIoctl(device)
}

// feature is one of them. The error wraps EOPNOTSUPP where the kernel has no such feature.
func (e *Conn) feature(device, name string) (featureState, error) {
	features, err := e.Features(device)
	if err != nil {
		return featureState{}, err
	}
	for _, f := range features {
		if f.Name == name {
			return f, nil
		}
	}
	return featureState{}, fmt.Errorf("%w: this kernel has no feature %q", unix.EOPNOTSUPP, name)
}

// setFeature wants a feature on or off. The kernel remembers what is wanted, and grants what the device and the other
// features allow: whether it took effect must be read afterwards.
func (e *Conn) setFeature(device, feature string, on bool) error {
	if e.conn != nil {
		return e.setFeatureNetlink(device, feature, on)
	}
	return e.setFeatureIoctl(device, feature, on)
}

// fill puts all that the driver tells into a NIC. Groups that a driver does not have stay empty; any other error ends
// it.
func (e *Conn) fill(n *facts.NIC) error {
	none := func(err error) bool { return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) }
	if values, err := e.read(channelGroup, n.Name); err == nil {
		n.Channels = &facts.Channels{
			Rx: int(values["rx"]), Tx: int(values["tx"]), Other: int(values["other"]),
			Combined: int(values["combined"]),
			MaxRx:    int(values["rx-max"]), MaxTx: int(values["tx-max"]), MaxOther: int(values["other-max"]),
			MaxCombined: int(values["combined-max"]),
		}
	} else if !none(err) {
		return fmt.Errorf("channels: %w", err)
	}
	if values, err := e.read(ringGroup, n.Name); err == nil {
		n.Rings = &facts.Rings{
			Rx: int(values["rx"]), Tx: int(values["tx"]), MaxRx: int(values["rx-max"]), MaxTx: int(values["tx-max"]),
		}
	} else if !none(err) {
		return fmt.Errorf("rings: %w", err)
	}
	coalesce := map[string]string{}
	if values, err := e.read(coalesceGroup, n.Name); err == nil {
		for field, value := range values {
			coalesce[field] = coalesceGroup.value(field, value)
		}
	} else if !none(err) {
		return fmt.Errorf("coalescing: %w", err)
	}
	n.Coalesce = coalesce
	features, err := e.Features(n.Name)
	if err != nil && !none(err) {
		return fmt.Errorf("features: %w", err)
	}
	n.Features = make([]facts.Feature, 0, len(features))
	for _, f := range features {
		n.Features = append(n.Features, f.Feature)
	}
	hash := map[string]string{}
	for _, flow := range flowNames {
		if letters, err := e.flowHash(n.Name, flow); err == nil && (letters != "" || hashes(features)) {
			hash[flow] = letters
		}
	}
	n.FlowHash = hash
	driver, err := nicctl.ReadDriver(e.fd, n.Name)
	if err != nil {
		return nil // a driver without it (none in the kernel today) has no statistics either
	}
	n.Firmware = driver.Firmware
	for name, value := range nicctl.Statistics(e.fd, n.Name, driver.Statistics) {
		if tells(name) {
			n.Stats[name] = value
		}
	}
	return nil
}

// hashes reports whether a device spreads packets by a hash at all. virtio_net without the feature VIRTIO_NET_F_RSS or
// VIRTIO_NET_F_HASH_REPORT answers the question for its fields with none.
func hashes(features []featureState) bool {
	for _, f := range features {
		if f.Name == "rx-hashing" {
			return f.On || !f.Fixed
		}
	}
	return false
}

// telling are parts of names of driver counters that say where packets were lost or held up. Every driver names its
// own: igb and ixgbe rx_no_buffer_count, rx_missed_errors, rx_no_dma_resources; i40e port.rx_dropped, rx_discards; mlx5
// rx_out_of_buffer, rx_discards_phy; virtio rx0_drops; ena queue_0_rx_bad_desc_num; bnx2x rx_fifo_discards.
var telling = []string{
	"missed", "no_buffer", "no_dma", "out_of_buffer", "discard", "drop", "fifo", "alloc_failed", "alloc_rx", "timeout",
	"busy",
	"restart", "overrun", "overflow",
}

// perQueueLimit bounds how many driver counters are kept: those of 64 queues in 10 kinds would swamp a snapshot.
const perQueueLimit = 16

// tells chooses the driver counters that are kept.
func tells(name string) bool {
	lower := strings.ToLower(name)
	if !slices.ContainsFunc(telling, func(part string) bool { return strings.Contains(lower, part) }) {
		return false
	}
	return queueIndex(lower) < perQueueLimit
}

// queueIndex is the first number of three digits or fewer in a counter's name ("rx_queue_17_drops"), 0 where there is
// none.
func queueIndex(name string) int {
	at := strings.IndexAny(name, "0123456789")
	if at < 0 {
		return 0
	}
	digits := name[at:]
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// patience is how long one NIC's driver may take to answer all questions. Drivers read registers and firmware
// under the lock of the network stack; one that hangs must not take the inventory with it.
const patience = 5 * time.Second

// Fill reads what only the driver can tell, and puts it into the NICs.
func Fill(ctx context.Context, m *tree.Tree, h *facts.Host, nics []facts.NIC) {
	if len(nics) == 0 {
		return
	}
	e, err := Dial()
	if err != nil {
		tree.AddUnseen(h, "driver settings of NICs", err)
		return
	}
	for i := range nics {
		answered := nics[i] // the driver may still be writing to it after we gave up waiting
		answered.Stats = make(map[string]uint64, len(nics[i].Stats))
		for name, value := range nics[i].Stats {
			answered.Stats[name] = value
		}
		limited, cancel := context.WithTimeout(ctx, patience)
		err := setting.Within(limited, func() error { return e.fill(&answered) })
		cancel()
		if err != nil {
			tree.AddUnseen(h, "driver settings of "+nics[i].Name, err)
			if limited.Err() != nil {
				// The call may hold the driver's lock for ever; the others share nothing with it but our sockets.
				if e, err = Dial(); err != nil {
					return
				}
				continue
			}
		}
		nics[i] = answered
	}
	e.Close()
}
