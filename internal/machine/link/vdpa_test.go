package link

import (
	"reflect"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
)

// TestVDPA has devices of a VF, of a subfunction, of the simulator, and one that the host's virtio driver has.
func TestVDPA(t *testing.T) {
	const card = "sys/devices/pci0000:40/0000:40:01.1/"
	files := map[string]string{}
	for name, below := range map[string]string{"vdpa0": card + "0000:41:00.2", "vdpa1": card +
		"0000:41:00.0/mlx5_core.sf.4", "vdpa2": "sys/devices/vdpasim_net", "vdpa3": card + "0000:41:00.3"} {
		files[vdpaBus+"/"+name] = "-> ../../../" + below[len("sys/"):] + "/" + name
		files[below+"/"+name+"/uevent"] = ""
	}
	files[card+"0000:41:00.2/vdpa0/vhost-vdpa-0/dev"] = "511:0\n"
	files[card+"0000:41:00.0/mlx5_core.sf.4/vdpa1/vhost-vdpa-1/dev"] = "511:1\n"
	files["sys/devices/vdpasim_net/vdpa2/vhost-vdpa-2/dev"] = "511:2\n"
	want := []facts.VDPA{
		{Name: "vdpa0", Node: "/dev/vhost-vdpa-0", PCI: "0000:41:00.2", Parent: "0000:41:00.2"},
		{Name: "vdpa1", Node: "/dev/vhost-vdpa-1", PCI: "0000:41:00.0", Parent: "mlx5_core.sf.4"},
		{Name: "vdpa2", Node: "/dev/vhost-vdpa-2", Parent: "vdpasim_net"},
		{Name: "vdpa3", PCI: "0000:41:00.3", Parent: "0000:41:00.3"},
	}
	if got := vdpas(treetest.Recorded(t, files)); !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, expected %+v", got, want)
	}
}
