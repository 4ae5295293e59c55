package traffic

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
)

// MaxWorkers is how many workers a generator gets by default at most: the streams of one direction (see package rig).
const MaxWorkers = 512

// TxQueues returns the number of a device's transmit queues in use (real_num_tx_queues), 0 if it is not known: that of
// the driver's channels, else the number of directories in sysfs. netlink's IFLA_NUM_TX_QUEUES counts those allocated.
func (d Device) TxQueues() int {
	n := 0
	err := d.Do(func() error {
		n = txChannels(d.Iface)
		return nil
	})
	if err != nil || n > 0 {
		return n
	}
	return sysfsTxQueues("/sys", d)
}

// txChannels returns the transmit channels of a device in the calling thread's namespace, 0 without ETHTOOL_GCHANNELS.
func txChannels(iface string) int {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(socket)
	// struct ethtool_channels: cmd, four maxima, then the numbers of rx, tx, other and combined.
	words := make([]uint32, 9)
	words[0] = unix.ETHTOOL_GCHANNELS
	if err := nicctl.Call(socket, iface, words); err != nil {
		return 0
	}
	return int(words[6] + words[8])
}

// sysfsTxQueues counts the directories queues/tx-N. What is mounted may belong to another network namespace: its
// interface of that name has another index.
func sysfsTxQueues(sys string, d Device) int {
	dir := filepath.Join(sys, "class/net", d.Iface)
	index, err := os.ReadFile(filepath.Join(dir, "ifindex"))
	if err != nil || strings.TrimSpace(string(index)) != strconv.Itoa(d.Index) {
		return 0
	}
	entries, err := os.ReadDir(filepath.Join(dir, "queues"))
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "tx-") {
			n++
		}
	}
	return n
}

// WorkerCPUs returns the CPUs for a generator with one worker for each transmit queue: different ones among those
// allowed, at most MaxWorkers. It prefers CPUs that the kernel maps to different queues: without XPS it takes the CPU's
// number modulo the queues (packet_pick_tx_queue in net/packet/af_packet.c, virtnet_xdp_get_sq in
// drivers/net/virtio_net.c). Unknown queues (0) count as one.
func WorkerCPUs(allowed []int, queues int) []int {
	n := min(max(queues, 1), len(allowed), MaxWorkers)
	chosen := make([]int, 0, n)
	var rest []int
	taken := map[int]bool{}
	for _, cpu := range allowed {
		if queue := cpu % max(queues, 1); !taken[queue] {
			taken[queue] = true
			chosen = append(chosen, cpu)
		} else {
			rest = append(rest, cpu)
		}
	}
	return append(chosen, rest...)[:n]
}
