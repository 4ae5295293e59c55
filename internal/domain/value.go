package domain

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// kind is what the values of one path have in common.
type kind struct {
	allowed string                      // in words, for messages
	canon   func(string) (string, bool) // the one spelling of a value; false if it is none. Generous: it reads what others wrote
	wanted  func(v string, on *element, d *Doc) *ValueError
	// wanted, if there is one, says why a canonical value must not be set on this element (the one that holds the
	// value's element: an interface). It leaves Path and Found to the caller.
}

func refuse(allowed, hint string) *ValueError { return &ValueError{Allowed: allowed, Advice: hint} }

func canonSet(s string) (string, bool) {
	set, err := ParseSet(s)
	return FormatSet(set), err == nil
}

func canonInt(s string) (string, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	return strconv.FormatUint(n, 10), err == nil
}

func canonWord(s string) (string, bool) {
	s = strings.TrimSpace(s)
	return s, s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

func intKind(low, high int, hint string) kind {
	allowed := fmt.Sprintf("%d to %d", low, high)
	return kind{allowed: allowed, canon: canonInt, wanted: func(v string, _ *element, _ *Doc) *ValueError {
		if n, _ := strconv.Atoi(v); n < low || n > high {
			return refuse(allowed, hint)
		}
		return nil
	}}
}

func wordKind(hint string, words ...string) kind {
	allowed := strings.Join(words, ", ")
	return kind{allowed: allowed, canon: canonWord, wanted: func(v string, _ *element, _ *Doc) *ValueError {
		if !slices.Contains(words, v) {
			return refuse(allowed, hint)
		}
		return nil
	}}
}

var (
	cpuSet   = kind{allowed: "CPU numbers and ranges such as 0-3,8,^2", canon: canonSet}
	nodeSet  = kind{allowed: "NUMA node numbers and ranges such as 0-1", canon: canonSet}
	yesNo    = wordKind("", "yes", "no")
	onOff    = wordKind("", "on", "off")
	presence = wordKind("to take it away, delete the path", "yes")

	numaMode  = wordKind("", "strict", "preferred", "interleave", "restrictive")
	cpuMode   = wordKind("", "host-passthrough", "host-model", "custom", "maximum")
	cacheMode = wordKind("", "passthrough", "emulate", "disable")
	scheduler = wordKind("fifo and rr need a priority as well", "fifo", "rr", "batch", "idle")
	priority  = intKind(1, 99, "priorities above 49 starve the kernel's own interrupt threads")

	// MAX_TAP_QUEUES is 256 (drivers/net/tun.c): a tap opens no more.
	nicQueues = intKind(1, 256, "a tap has at most 256 queues; more than the guest has vCPUs bring nothing")
	// drivers/net/tun.c, tun_set_coalesce: rx_max_coalesced_frames above NAPI_POLL_WEIGHT (64) becomes 64.
	coalesceFrames = intKind(0, 64, "the tun driver caps it at 64 frames")
	mtuBytes       = intKind(68, 65535, "")
	vlanTag        = intKind(1, 4094, "0 and 4095 are reserved by IEEE 802.1Q")

	nicModel = wordKind("virtio is the one for packet rate; e1000 and rtl8139 are for guests without its driver",
		"virtio", "virtio-transitional", "virtio-non-transitional", "e1000", "e1000e", "igb", "rtl8139", "vmxnet3",
		"ne2k_pci", "pcnet", "usb-net")
)

// queueSize is the number of descriptors of a virtio queue. QEMU takes powers of two from 256 to 1024
// (hw/net/virtio-net.c, VIRTIO_NET_RX_QUEUE_MIN_SIZE and VIRTQUEUE_MAX_SIZE).
func queueSize(tx bool) kind {
	const allowed = "256, 512 or 1024"
	return kind{allowed: allowed, canon: canonInt, wanted: func(v string, nic *element, d *Doc) *ValueError {
		if v != "256" && v != "512" && v != "1024" {
			return refuse(allowed, "QEMU takes powers of two from 256 to 1024")
		}
		if !tx || v == "256" {
			return nil
		}
		switch typ := nic.get(d, "type"); typ {
		case "vhostuser", "vdpa":
			return nil
		default:
			// hw/net/virtio-net.c, virtio_net_max_tx_queue_size: 256 unless the peer is vhost-user or vhost-vdpa.
			return refuse("256 on an interface of type "+clip(typ),
				"only vhost-user and vDPA have more: older QEMU goes back to 256 silently, newer QEMU does not start")
		}
	}}
}

// nicDriver is the back end: libvirt's enum virDomainNetDriver, or the host driver of a passed-through function.
var nicDriver = kind{allowed: "vhost or qemu", canon: canonWord, wanted: func(v string, nic *element, d *Doc) *ValueError {
	if nic.get(d, "type") == "hostdev" {
		if v != "vfio" {
			return refuse("vfio on an interface of type hostdev", "")
		}
		return nil
	}
	if v != "vhost" && v != "qemu" {
		return refuse("vhost or qemu", "vhost runs the queues in the kernel, qemu in the emulator's own threads")
	}
	return nil
}}

// page is one <page> of <hugepages>.
type page struct {
	kib   uint64
	nodes string // canonical set of guest NUMA cells, "" for all
}

// hugePages is "default" for <hugepages/>, or page sizes with the guest cells they are for: "1GiB", "1GiB@0 2MiB@1-3".
var hugePages = kind{allowed: "default, or sizes such as 1GiB or 2MiB@0-1, separated by spaces", canon: func(s string) (string, bool) {
	pages, ok := parsePages(s)
	return formatPages(pages), ok
}, wanted: func(v string, _ *element, _ *Doc) *ValueError {
	pages, _ := parsePages(v)
	for _, p := range pages {
		if bits.OnesCount64(p.kib) != 1 || p.kib < 4 {
			return refuse("page sizes that are powers of two", "x86 has 2MiB and 1GiB")
		}
	}
	if len(pages) > 1 && slices.ContainsFunc(pages, func(p page) bool { return p.nodes == "" }) {
		return refuse("at most one size without cells", "write SIZE@CELLS for each")
	}
	return nil
}}

func parsePages(s string) ([]page, bool) {
	words := strings.Fields(s)
	if len(words) == 1 && (words[0] == "default" || words[0] == "yes") {
		return nil, true
	}
	var pages []page
	for _, w := range words {
		size, nodes, scoped := strings.Cut(w, "@")
		digits := strings.TrimRight(size, "KMGTiB")
		n, err := strconv.ParseUint(digits, 10, 64)
		kib, ok := scaleKiB(n, size[len(digits):])
		if err != nil || !ok || kib == 0 || size == digits {
			return nil, false
		}
		p := page{kib: kib}
		if scoped {
			if p.nodes, ok = canonSet(nodes); !ok {
				return nil, false
			}
		}
		pages = append(pages, p)
	}
	return pages, len(pages) > 0
}

func formatPages(pages []page) string {
	if len(pages) == 0 {
		return "default"
	}
	words := make([]string, len(pages))
	for i, p := range pages {
		words[i] = formatKiB(p.kib)
		if p.nodes != "" {
			words[i] += "@" + p.nodes
		}
	}
	return strings.Join(words, " ")
}

func formatKiB(kib uint64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && kib > 0 && kib%1024 == 0 {
		kib, i = kib/1024, i+1
	}
	return strconv.FormatUint(kib, 10) + units[i]
}

// scaleKiB turns a number with libvirt's unit into KiB, rounded up (src/util/virutil.c, virScaleInteger; the default unit
// of memory is KiB). False if the unit is unknown or the number too large.
func scaleKiB(n uint64, unit string) (uint64, bool) {
	var scale uint64
	switch unit = strings.ToLower(unit); unit {
	case "b", "bytes":
		return n/1024 + min(n%1024, 1), true
	case "":
		scale = 1024
	default:
		i := strings.IndexByte("kmgtpe", unit[0])
		if i < 0 {
			return 0, false
		}
		base := uint64(1024)
		switch unit[1:] {
		case "", "ib":
		case "b":
			base = 1000
		default:
			return 0, false
		}
		scale = 1
		for ; i >= 0; i-- {
			scale *= base
		}
	}
	high, low := bits.Mul64(n, scale)
	if high != 0 || low > 1<<63 {
		return 0, false
	}
	return low/1024 + min(low%1024, 1), true
}
