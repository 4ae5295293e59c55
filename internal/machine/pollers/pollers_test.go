package pollers

import (
	"context"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// process returns the files of a process: its descriptors, and threads as "TID state CPUs".
func files(pid, comm, hugepages string, descriptors []string, threads ...string) map[string]string {
	at := "proc/" + pid + "/"
	all := map[string]string{at + "comm": comm + "\n", at + "status": "Name:\t" + comm + "\nHugetlbPages:\t " +
		hugepages + " kB\n"}
	for i, file := range descriptors {
		all[at+"fd/"+string(rune('3'+i))] = "-> " + file
	}
	for _, thread := range threads {
		f := strings.Fields(thread)
		all[at+"task/"+f[0]+"/status"] = "Name:\tx\nState:\t" + f[1] + " (x)\nCpus_allowed_list:\t" + f[2] +
			"\nvoluntary_ctxt_switches:\t5\n"
	}
	return all
}

func TestPollersOfTree(t *testing.T) {
	const nic, nvme = "sys/bus/pci/devices/0000:41:00.0/", "sys/bus/pci/devices/0000:42:00.0/"
	m := treetest.Recorded(t, treetest.Merged(map[string]string{
		nic + "class": "0x020000\n", nic + "iommu_group": "-> /sys/kernel/iommu_groups/12",
		nvme + "class": "0x010802\n", nvme + "iommu_group": "-> /sys/kernel/iommu_groups/13",
		"sys/bus/pci/drivers/vfio-pci/0000:41:00.0": "", "sys/bus/pci/drivers/vfio-pci/0000:42:00.0": "",
		"sys/class/uio/uio0/device":                              "-> ../../../bus/pci/devices/0000:43:00.0",
		"sys/bus/pci/devices/0000:43:00.0/class":                 "0x020000\n",
		"sys/class/uio/uio0/x":                                   "",
		"sys/class/infiniband_verbs/uverbs0/device/net/ens1/mtu": "1500\n",
	},
		files("10", "innocent", "4194304", []string{"/dev/vfio/12", "/dev/hugepages/x"}, "10 S 0-7", "11 R 3", "12 R 5", "13 R 0-7", "14 S 6"),
		files("20", "spdk_tgt", "2048", []string{"/dev/vfio/13"}, "20 R 1"),
		files("30", "cloud-hypervisor", "0", []string{"/dev/vfio/12", "anon_inode:kvm-vm"}, "30 R 2"),
		files("40", "qemu-system-x86", "0", []string{"/dev/vfio/12"}, "40 R 2"),
		files("50", "vpp", "1024", []string{"/dev/infiniband/uverbs0"}, "50 R 7"),
		files("60", "ib_write_bw", "0", []string{"/dev/infiniband/uverbs0"}, "60 R 6"),
		files("70", "editor", "0", []string{"/home/x/12", "/tmp/uverbs0"}, "70 R 6"),
	))
	h := &facts.Host{NICs: []facts.NIC{{Name: "ens1", Index: 2}}, Guests: []facts.Guest{{Name: "vm1", PID: 40}}}
	Inventory(context.Background(), m, h)
	want := []facts.Poller{
		{PID: 10, Comm: "innocent", CPUs: setting.CPUs(3, 5), Functions: []string{"0000:41:00.0"}, Hugepages: 4 << 30},
		{PID: 50, Comm: "vpp", CPUs: setting.CPUs(7), NICs: []string{"ens1"}, Hugepages: 1 << 20},
	}
	must.Hold(t, reflect.DeepEqual(h.Pollers, want), "got %+v\nwant %+v", h.Pollers, want)
}

func TestNothingToHoldMeansNoSearch(t *testing.T) {
	m := treetest.Recorded(t, files("10", "busy", "2048", []string{"/dev/vfio/12"}, "10 R 3"))
	if s := search(m, &facts.Host{}); s.worthwhile() {
		t.Errorf("looks for %v", s.files)
	}
}

func TestMessagesOfSockets(t *testing.T) {
	attribute := func(kind uint16, value string) string {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return string(b)
	}
	head := func(size int, inode uint32) string {
		b := make([]byte, size)
		binary.NativeEndian.PutUint32(b[4:], inode)
		return string(b)
	}
	number := func(n uint32) string { return string(binary.NativeEndian.AppendUint32(nil, n)) }
	one := parseUnix([]byte(head(unixMessage, 7) + attribute(unixName, "/run/vhu1\x00") + attribute(unixPeer, number(8))))
	must.Equal(t, one, unixSocket{7, 8, "/run/vhu1"}, "one")
	bound, is := parseXDP([]byte(head(xdpMessage, 9) + attribute(xdpInfo, number(4)+number(1))))
	must.Hold(t, is && bound == (xdpSocket{9, 4}), "%+v", bound)
	if _, is := parseXDP([]byte(head(xdpMessage, 9))); is {
		t.Error("a socket without a device is bound")
	}
}

func TestSocketsOfProtocols(t *testing.T) {
	const text = "protocol  size sockets  memory press maxhdr  slab module\nXDP        960      2      -1   NI       0   no\n" +
		"PACKET    1344      0      -1   NI       0   no   kernel\n"
	must.Hold(t, socketsOf(text, "XDP") && !socketsOf(text, "PACKET") && !socketsOf(text, "TCP"), "misread")
}
