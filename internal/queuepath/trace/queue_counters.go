package trace

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/nicctl"
	"mpps/internal/queuepath"
)

// amount is how much a queue has carried.
type amount struct{ packets, bytes uint64 }

// queueCounters are the names by which drivers tell what each of their queues carried (ethtool -S); in brackets direction, queue
// and unit stand by these names.
var queueCounters = []*regexp.Regexp{
	// igb, igc, ixgbe, ixgbevf, ice, fm10k, hv_netvsc, virtio_net up to 6.9
	regexp.MustCompile(`^(?P<way>rx|tx)_queue_(?P<queue>\d+)_(?P<unit>packets|bytes)$`),
	// mlx4, mlx5, virtio_net from 6.10 on
	regexp.MustCompile(`^(?P<way>rx|tx)(?P<queue>\d+)_(?P<unit>packets|bytes)$`),
	// i40e, iavf, with the direction twice in older ones
	regexp.MustCompile(`^(?P<way>rx|tx)-(?P<queue>\d+)\.(?:[rt]x_)?(?P<unit>packets|bytes)$`),
	// gve
	regexp.MustCompile(`^(?P<way>rx|tx)_(?P<unit>packets|bytes)\[(?P<queue>\d+)\]$`),
	// bnx2x, bnxt: to one, to some and to all apart
	regexp.MustCompile(`^\[(?P<queue>\d+)\]: (?P<way>rx|tx)_[ubm]cast_(?P<unit>packets|bytes)$`),
	// ena
	regexp.MustCompile(`^queue_(?P<queue>\d+)_(?P<way>rx|tx)_(?P<unit>cnt|bytes)$`),
	// veth: what came through NAPI, by XDP or GRO (drivers/net/veth.c, veth_rq_stats_desc)
	regexp.MustCompile(`^(?P<way>rx)_queue_(?P<queue>\d+)_xdp_(?P<unit>packets|bytes)$`),
}

// byQueue picks the counters of queues out of all that a driver has.
func byQueue(device string, statistics map[string]uint64) map[queuepath.Queue]amount {
	queues := map[queuepath.Queue]amount{}
	for name, n := range statistics {
		for _, form := range queueCounters {
			m := form.FindStringSubmatch(name)
			if m == nil {
				continue
			}
			number, err := strconv.Atoi(m[form.SubexpIndex("queue")])
			if err != nil || number >= none {
				break
			}
			q := queuepath.Queue{Device: device, Direction: queuepath.Direction(m[form.SubexpIndex("way")]), Queue: number}
			a := queues[q]
			if m[form.SubexpIndex("unit")] == "bytes" {
				a.bytes += n
			} else {
				a.packets += n
			}
			queues[q] = a
			break
		}
	}
	return queues
}

// readCounters reads what each queue of a device of the calling thread's namespace has carried. A direction with one queue is
// told by the device's own counters; one with several that its driver does not tell apart is queue −1.
func readCounters(d *queuepath.Device) (map[queuepath.Queue]amount, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(socket)
	queues := map[queuepath.Queue]amount{}
	if driver, err := nicctl.ReadDriver(socket, d.Name); err == nil { // software devices may have none
		queues = byQueue(d.Name, nicctl.Statistics(socket, d.Name, driver.Statistics))
	}
	told := map[queuepath.Direction]bool{}
	for q := range queues {
		told[q.Direction] = true
	}
	for way, n := range map[queuepath.Direction]int{queuepath.Rx: d.RxQueues, queuepath.Tx: d.TxQueues} {
		if told[way] {
			continue
		}
		q := queuepath.Queue{Device: d.Name, Direction: way}
		if n > 1 {
			q.Queue = -1
		}
		queues[q] = amount{packets: counter(d.Name, string(way)+"_packets"), bytes: counter(d.Name, string(way)+"_bytes")}
	}
	return queues, nil
}

// counter is a counter of a device, 0 where the device has gone.
func counter(device, name string) uint64 {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", device, "statistics", name))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}
