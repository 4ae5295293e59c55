package link

import (
	"path"
	"strconv"

	"mpps/internal/machine/irq"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// queues reads the queues of a device by the directories in queues/, which are those in use: how many receive and
// transmit, and by queue which CPUs RPS spreads to and which CPUs XPS lets send there. A device with one transmit queue
// has no XPS; its entry is the empty set.
func queues(m *tree.Tree, dir string) (rx, tx int, rps, xps []setting.CPUSet) {
	names := m.List(path.Join(dir, "queues"))
	rps, xps = []setting.CPUSet{}, []setting.CPUSet{}
	for _, name := range names {
		if queueNumber(name, "rx-") >= 0 {
			rx++
		}
		if queueNumber(name, "tx-") >= 0 {
			tx++
		}
	}
	queues := m.Folder(path.Join(dir, "queues"))
	defer queues.Close()
	for i := range min(rx, tree.MaxQueues) {
		rps = append(rps, irq.MaskFile(queues, "rx-"+strconv.Itoa(i)+"/rps_cpus"))
	}
	for i := range min(tx, tree.MaxQueues) {
		if tx == 1 {
			xps = append(xps, setting.CPUSet{})
			continue
		}
		xps = append(xps, irq.MaskFile(queues, "tx-"+strconv.Itoa(i)+"/xps_cpus"))
	}
	return rx, tx, rps, xps
}

// classes are how many traffic classes a device's transmit queues are divided into; 0 where they are not. Without
// classes the kernel says 0 of each queue (net/core/net-sysfs.c, traffic_class_show, since Linux 4.18).
func classes(m *tree.Tree, dir string, tx int) int {
	highest := 0
	for i := range min(tx, tree.MaxQueues) {
		highest = max(highest, m.Number(path.Join(dir, "queues", "tx-"+strconv.Itoa(i), "traffic_class"), 0))
	}
	if highest == 0 {
		return 0
	}
	return highest + 1
}
