package link

import (
	"path"
	"regexp"
	"strings"

	genl "github.com/vishvananda/netlink"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// vdpaBus has a link for every vDPA device (drivers/vdpa/vdpa.c).
const vdpaBus = "sys/bus/vdpa/devices"

var pciFunction = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// vdpas reads the vDPA devices: below what implements them, with a file for programs where vhost-vdpa has them
// (drivers/vhost/vdpa.c), and what the kernel tells of them over generic netlink.
func vdpas(m *tree.Tree, h *facts.Host) {
	h.VDPA = vdpaDevices(m)
	if len(h.VDPA) == 0 || !m.Live() {
		return
	}
	configs, err := genl.VDPAGetDevConfigList()
	if err != nil {
		tree.AddUnseen(h, "queue pairs of vDPA devices", tree.Netlink(err))
		return
	}
	parents, _ := genl.VDPAGetMGMTDevList() // without it only the most queue pairs are not known
	for i := range h.VDPA {
		configured(&h.VDPA[i], configs, parents)
	}
}

// configured adds a device's configuration and what its parent could give it. A device that was not offered several
// queue pairs tells no number of them (drivers/vdpa/vdpa.c, vdpa_dev_net_mq_config_fill). Each pair is two virtqueues,
// and one more is for control.
func configured(v *facts.VDPA, configs []*genl.VDPADevConfig, parents []*genl.VDPAMGMTDev) {
	for _, c := range configs {
		if c.Name == v.Name && c.ID == genl.VIRTIO_ID_NET {
			v.Queues, v.MTU = max(1, int(c.Net.Cfg.MaxVQP)), int(c.Net.Cfg.MTU)
		}
	}
	for _, p := range parents {
		if p.DevName == v.Parent {
			v.MostQueues = int(p.MaxVQS / 2)
		}
	}
}

// vdpaParent returns what implements a device, from its way below /sys. The simulator's devices are below nothing
// (drivers/vdpa/vdpa_sim/vdpa_sim.c, vdpasim_create), and those of processes below a device of class vduse, which has
// the same name (drivers/vdpa/vdpa_user/vduse_dev.c, vduse_create_dev).
func vdpaParent(way []string) string {
	parent := way[len(way)-1]
	switch {
	case parent == "devices":
		return facts.VDPASimulator
	case len(way) > 1 && way[len(way)-2] == facts.VDUSE:
		return facts.VDUSE
	}
	return parent
}

func vdpaDevices(m *tree.Tree) (all []facts.VDPA) {
	for _, name := range m.List(vdpaBus) {
		to, err := m.Readlink(path.Join(vdpaBus, name))
		if err != nil {
			continue
		}
		way := strings.Split(path.Dir(to), "/")
		v := facts.VDPA{Name: name, Parent: vdpaParent(way)}
		for _, part := range way {
			if pciFunction.MatchString(part) {
				v.PCI = part // the last: bridges come before
			}
		}
		for _, child := range m.List(path.Join(vdpaBus, name)) {
			if strings.HasPrefix(child, "vhost-vdpa-") {
				v.Node = "/dev/" + child
			}
		}
		all = append(all, v)
	}
	return all
}
