package link

import (
	"path"
	"strconv"
	"strings"

	"mpps/internal/machine/irq"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// queueCounts returns the numbers of receive and transmit queues, given the names in a device's queues/: rx-0, tx-0 …
func queueCounts(names []string) (rx, tx int) {
	for _, name := range names {
		direction, digits, _ := strings.Cut(name, "-")
		if _, err := strconv.ParseUint(digits, 10, 31); err != nil {
			continue
		}
		switch direction {
		case "rx":
			rx++
		case "tx":
			tx++
		}
	}
	return rx, tx
}

// queues returns the numbers of a device's queues in use, from the directories in queues/, and for each queue the CPUs
// of its RPS and XPS. A device with one transmit queue has no XPS; its entry is the empty set.
func queues(m *tree.Tree, dir string) (rx, tx int, rps, xps []setting.CPUSet) {
	rx, tx = queueCounts(m.List(path.Join(dir, "queues")))
	rps, xps = []setting.CPUSet{}, []setting.CPUSet{}
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

// classes returns the number of traffic classes of a device's transmit queues; 0 without classes. The kernel then shows
// class 0 for each queue (net/core/net-sysfs.c, traffic_class_show, since Linux 4.18).
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
