package trace

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/machine/nicctl"
	"mpps/internal/model/setting"
)

// queuesOf is what sysfs says about a device: queues in use, CPUs per transmit queue if XPS is set, NUMA node, and
// whether there is hardware, or something like it, behind the device.
type queuesOf struct {
	rx, tx   int
	xps      []setting.CPUSet
	node     int
	hardware bool
}

// readQueues reads /sys/class/net/NAME of the calling thread's namespace.
func readQueues(name string) queuesOf {
	dir := filepath.Join("/sys/class/net", name)
	q := queuesOf{node: -1}
	entries, _ := os.ReadDir(filepath.Join(dir, "queues")) // a device that is gone has none
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "rx-"):
			q.rx++
		case strings.HasPrefix(e.Name(), "tx-"):
			q.tx++
		}
	}
	set := false
	for i := range q.tx {
		// A device with one transmit queue has no XPS, and one owned by another namespace refuses: no sets at all.
		text, err := os.ReadFile(filepath.Join(dir, "queues", "tx-"+strconv.Itoa(i), "xps_cpus"))
		if err != nil {
			continue
		}
		cpus, err := setting.ParseCPUMask(strings.TrimSpace(string(text)))
		if err != nil {
			continue
		}
		if q.xps == nil {
			q.xps = make([]setting.CPUSet, q.tx)
		}
		q.xps[i], set = cpus, set || len(cpus) > 0
	}
	if !set {
		q.xps = nil
	}
	if _, err := os.Stat(filepath.Join(dir, "device")); err == nil {
		q.hardware = true
	}
	if text, err := os.ReadFile(filepath.Join(dir, "device", "numa_node")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			q.node = n
		}
	}
	return q
}

// amount is how much a queue has carried.
type amount struct{ packets, bytes uint64 }

// byQueue returns the per-queue counters among all statistics of a driver.
func byQueue(device string, statistics map[string]uint64) map[queuepath.Queue]amount {
	queues := map[queuepath.Queue]amount{}
	for name, n := range statistics {
		of, unit, ok := nicctl.OfQueue(name)
		q := queuepath.Queue{Device: device, Direction: queuepath.Direction(of.Direction), Queue: of.Number}
		a := queues[q]
		switch {
		case !ok:
			continue
		case unit == "bytes":
			a.bytes += n
		case unit == "packets" || unit == "cnt":
			a.packets += n
		default: // lost
			continue
		}
		queues[q] = a
	}
	return queues
}

// readCounters reads how much each queue of a device in the calling thread's namespace has carried. A direction with
// one queue uses the device's own counters; one with several queues that the driver does not count separately becomes
// queue −1.
func readCounters(d *queuepath.Device) (map[queuepath.Queue]amount, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(socket)
	queues := map[queuepath.Queue]amount{}
	if driver, err := nicctl.ReadDriver(socket, d.Name); err == nil { // software devices may have no driver
		queues = byQueue(d.Name, nicctl.Statistics(socket, d.Name, driver.Statistics))
	}
	perQueue := map[queuepath.Direction]bool{}
	for q := range queues {
		perQueue[q.Direction] = true
	}
	for way, n := range map[queuepath.Direction]int{queuepath.Rx: d.RxQueues, queuepath.Tx: d.TxQueues} {
		if perQueue[way] {
			continue
		}
		q := queuepath.Queue{Device: d.Name, Direction: way}
		if n > 1 {
			q.Queue = -1
		}
		queues[q] = amount{packets: counter(d.Name, string(way)+"_packets"),
			bytes: counter(d.Name, string(way)+"_bytes")}
	}
	return queues, nil
}

// counter reads a counter of a device, 0 if the device is gone.
func counter(device, name string) uint64 {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", device, "statistics", name))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}
