// Package ethtool reads and writes the driver settings of NICs (rings, channels, coalescing, features, flow hash) over
// generic netlink, or by ioctl if the kernel has no netlink interface for them.
package ethtool

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// Conn reads and writes drivers' settings. It uses generic netlink, which shows what a driver supports, changes one
// field without touching the others, and explains refusals. It uses the ioctl for what netlink lacks (flow hash before
// 6.17, statistics, firmware version) and on kernels before 5.6, which have no netlink interface.
type Conn struct {
	conn   *genetlink.Conn // nil if the kernel has no ethtool family
	family uint16
	fd     int // socket for the ioctl
}

// Dial opens both interfaces in the network namespace of the calling thread.
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
// after the command, and in the netlink message, after the header (include/uapi/linux/ethtool.h and
// ethtool_netlink.h): word i of the structure is attribute i+1 of the message.
type group struct {
	what               string
	get, set           uint8  // netlink messages
	ioctlGet, ioctlSet uint32 // ioctl commands
	fields             []string
	switches           []string // on/off fields: 8 bits wide in netlink
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

// usualCoalescing are the fields that are reported even as zero if only the ioctl is available: it returns zero also
// for fields that the driver does not have.
var usualCoalescing = []string{"rx-usecs", "tx-usecs", "rx-frames", "tx-frames", "adaptive-rx", "adaptive-tx"}

// value returns a field's number in the canonical form of its setting.
func (g group) value(field string, n uint32) string {
	if slices.Contains(g.switches, field) {
		return onOff(n != 0)
	}
	return strconv.FormatUint(uint64(n), 10)
}

// parse is the inverse of value.
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

// read returns the fields of a group that the driver has, by name. The error wraps EOPNOTSUPP if it has none.
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

// featureState is a feature and whether it is requested.
type featureState struct {
	facts.Feature
	requested bool
}

// Features returns the device's features in the order of the kernel's bits.
func (e *Conn) Features(device string) ([]featureState, error) {
	if e.conn != nil {
		return e.featuresNetlink(device)
	}
	return e.featuresIoctl(device)
}

// feature returns one feature. The error wraps EOPNOTSUPP if the kernel has no such feature.
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

// setFeature requests a feature on or off. The kernel remembers the request and grants what the device and its other
// features allow: read the feature afterwards to see whether it took effect.
func (e *Conn) setFeature(device, feature string, on bool) error {
	if e.conn != nil {
		return e.setFeatureNetlink(device, feature, on)
	}
	return e.setFeatureIoctl(device, feature, on)
}

// fill sets the fields of a NIC that come from the driver. Groups that the driver does not have stay empty; any other
// error is returned.
func (e *Conn) fill(n *facts.NIC) error {
	none := func(err error) bool { return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) }
	read := func(g group) (map[string]uint32, error) {
		values, err := e.read(g, n.Name)
		if err != nil && !none(err) {
			return nil, fmt.Errorf("%s: %w", g.what, err)
		}
		return values, nil
	}
	values, err := read(channelGroup)
	if err != nil {
		return err
	}
	if values != nil {
		n.Channels = &facts.Channels{
			Rx: int(values["rx"]), Tx: int(values["tx"]), Other: int(values["other"]),
			Combined: int(values["combined"]),
			MaxRx:    int(values["rx-max"]), MaxTx: int(values["tx-max"]), MaxOther: int(values["other-max"]),
			MaxCombined: int(values["combined-max"]),
		}
	}
	if values, err = read(ringGroup); err != nil {
		return err
	}
	if values != nil {
		n.Rings = &facts.Rings{
			Rx: int(values["rx"]), Tx: int(values["tx"]), MaxRx: int(values["rx-max"]), MaxTx: int(values["tx-max"]),
		}
	}
	if values, err = read(coalesceGroup); err != nil {
		return err
	}
	n.Coalesce = map[string]string{}
	for field, value := range values {
		n.Coalesce[field] = coalesceGroup.value(field, value)
	}
	features, err := e.Features(n.Name)
	if err != nil && !none(err) {
		return fmt.Errorf("features: %w", err)
	}
	n.Features = make([]facts.Feature, 0, len(features))
	for _, f := range features {
		n.Features = append(n.Features, f.Feature)
	}
	n.FlowHash = map[string]string{}
	for _, flow := range flowNames {
		if letters, err := e.flowHash(n.Name, flow); err == nil && (letters != "" || spreadsByHash(features)) {
			n.FlowHash[flow] = letters
		}
	}
	n.RSS = e.rss(n.Name)
	driver, err := nicctl.ReadDriver(e.fd, n.Name)
	if err != nil {
		return nil // a driver without it (none in the kernel today) has no statistics either
	}
	n.Firmware = driver.Firmware
	for name, value := range nicctl.Statistics(e.fd, n.Name, driver.Statistics) {
		if showsLoss(name) {
			n.Stats[name] = value
		}
	}
	return nil
}

// spreadsByHash reports whether a device distributes packets by a hash. virtio_net without VIRTIO_NET_F_RSS or
// VIRTIO_NET_F_HASH_REPORT returns no fields instead of an error.
func spreadsByHash(features []featureState) bool {
	for _, f := range features {
		if f.Name == "rx-hashing" {
			return f.On || !f.Fixed
		}
	}
	return false
}

// lossWords are parts of the names of driver counters for lost or delayed packets. Each driver has its own names: igb
// and ixgbe rx_no_buffer_count, rx_missed_errors, rx_no_dma_resources; i40e port.rx_dropped, rx_discards; mlx5
// rx_out_of_buffer, rx_discards_phy; virtio rx0_drops; ena queue_0_rx_bad_desc_num; bnx2x rx_fifo_discards.
var lossWords = []string{
	"missed", "no_buffer", "no_dma", "out_of_buffer", "discard", "drop", "fifo", "alloc_failed", "alloc_rx", "timeout",
	"busy", "restart", "overrun", "overflow",
}

// perQueueLimit is the number of queues whose driver counters are kept: those of 64 queues in 10 kinds would swamp a
// snapshot.
const perQueueLimit = 16

// showsLoss reports whether a driver counter is kept.
func showsLoss(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(lossWords, func(part string) bool { return strings.Contains(lower, part) }) &&
		queueIndex(lower) < perQueueLimit
}

// queueIndex returns the first number in a counter's name ("rx_queue_17_drops"), 0 if there is none.
func queueIndex(name string) int {
	at := strings.IndexAny(name, "0123456789")
	if at < 0 {
		return 0
	}
	digits := name[at:]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// patience is how long one NIC's driver may take for all requests. Drivers read registers and firmware under the RTNL
// lock; one that hangs must not hang the inventory.
const patience = 5 * time.Second

// Fill sets the fields of the NICs that come from their drivers.
func Fill(ctx context.Context, h *facts.Host, nics []facts.NIC) {
	if len(nics) == 0 {
		return
	}
	e, err := Dial()
	if err != nil {
		tree.AddUnseen(h, "driver settings of NICs", err)
		return
	}
	for i := range nics {
		answered := nics[i] // a copy: a hanging call may still write to it after the deadline
		answered.Stats = make(map[string]uint64, len(nics[i].Stats))
		maps.Copy(answered.Stats, nics[i].Stats)
		limited, cancel := context.WithTimeout(ctx, patience)
		err := setting.Within(limited, func() error { return e.fill(&answered) })
		cancel()
		if err != nil {
			tree.AddUnseen(h, "driver settings of "+nics[i].Name, err)
			if limited.Err() != nil {
				// The call may hang for ever, and it uses our sockets: open new ones for the other NICs.
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
