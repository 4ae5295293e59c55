package link

import (
	"path"
	"regexp"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// vdpaBus has a link for every vDPA device (drivers/vdpa/vdpa.c).
const vdpaBus = "sys/bus/vdpa/devices"

var pciFunction = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// vdpas reads the vDPA devices: below what implements them, and with a file for programs where vhost-vdpa has them
// (drivers/vhost/vdpa.c).
func vdpas(m *tree.Tree) (all []facts.VDPA) {
	for _, name := range m.List(vdpaBus) {
		to, err := m.Readlink(path.Join(vdpaBus, name))
		if err != nil {
			continue
		}
		way := strings.Split(path.Dir(to), "/")
		v := facts.VDPA{Name: name, Parent: way[len(way)-1]}
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
