package trace

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
