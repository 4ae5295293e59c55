package link

import (
	"reflect"
	"testing"

	genl "github.com/vishvananda/netlink"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestVDPA has devices of a VF, of a subfunction, of the simulator and of a process, and one that the host's virtio
// driver has.
func TestVDPA(t *testing.T) {
	const card = "sys/devices/pci0000:40/0000:40:01.1/"
	files := map[string]string{}
	for name, below := range map[string]string{"vdpa0": card + "0000:41:00.2", "vdpa1": card +
		"0000:41:00.0/mlx5_core.sf.4", "vdpa2": "sys/devices", "vdpa3": card + "0000:41:00.3",
		"vduse7": "sys/devices/virtual/vduse/vduse7"} {
		files[vdpaBus+"/"+name] = "-> ../../../" + below[len("sys/"):] + "/" + name
		files[below+"/"+name+"/uevent"] = ""
	}
	files[card+"0000:41:00.2/vdpa0/vhost-vdpa-0/dev"] = "511:0\n"
	files[card+"0000:41:00.0/mlx5_core.sf.4/vdpa1/vhost-vdpa-1/dev"] = "511:1\n"
	files["sys/devices/vdpa2/vhost-vdpa-2/dev"] = "511:2\n"
	files["sys/devices/virtual/vduse/vduse7/vduse7/vhost-vdpa-4/dev"] = "511:4\n"
	want := []facts.VDPA{
		{Name: "vdpa0", Node: "/dev/vhost-vdpa-0", PCI: "0000:41:00.2", Parent: "0000:41:00.2"},
		{Name: "vdpa1", Node: "/dev/vhost-vdpa-1", PCI: "0000:41:00.0", Parent: "mlx5_core.sf.4"},
		{Name: "vdpa2", Node: "/dev/vhost-vdpa-2", Parent: facts.VDPASimulator},
		{Name: "vdpa3", PCI: "0000:41:00.3", Parent: "0000:41:00.3"},
		{Name: "vduse7", Node: "/dev/vhost-vdpa-4", Parent: facts.VDUSE},
	}
	if got := vdpaDevices(treetest.Recorded(t, files)); !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, expected %+v", got, want)
	}
}

// TestVDPAConfigured has a device of 4 of 16 pairs, one that tells no number, and one that the kernel does not list.
func TestVDPAConfigured(t *testing.T) {
	parents := []*genl.VDPAMGMTDev{{BusName: "pci", DevName: "0000:41:00.2", MaxVQS: 33}}
	several, single := &genl.VDPADevConfig{}, &genl.VDPADevConfig{}
	several.Name, several.Net.Cfg.MaxVQP, several.Net.Cfg.MTU = "vdpa0", 4, 9000
	single.Name = "vdpa1"
	several.ID, single.ID = genl.VIRTIO_ID_NET, genl.VIRTIO_ID_NET
	for _, test := range []struct{ device, want facts.VDPA }{
		{facts.VDPA{Name: "vdpa0", Parent: "0000:41:00.2"},
			facts.VDPA{Name: "vdpa0", Parent: "0000:41:00.2", Queues: 4, MostQueues: 16, MTU: 9000}},
		{facts.VDPA{Name: "vdpa1", Parent: "vduse"}, facts.VDPA{Name: "vdpa1", Parent: "vduse", Queues: 1}},
		{facts.VDPA{Name: "vdpa2"}, facts.VDPA{Name: "vdpa2"}},
	} {
		got := test.device
		configured(&got, []*genl.VDPADevConfig{several, single}, parents)
		must.Equal(t, got, test.want, "%s", test.device.Name)
	}
}
