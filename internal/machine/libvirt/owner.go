package libvirt

import (
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
)

// findOwner returns who started a QEMU that libvirt does not know here.
func (q *qemu) findOwner(m *tree.Tree, p trust.QEMU) *facts.Owner {
	switch {
	case q.number != "" && p.Proxmox(m, q.number):
		return facts.ProxmoxOwner(q.number)
	case p.InLauncher(m):
		return &facts.Owner{Platform: facts.KubeVirt, ID: facts.KubeVirtID(q.name),
			Evidence: "a virt-launcher in a pod of Kubernetes is its parent"}
	}
	if folder, incus := p.Instance(m, q.pidFile, q.name); folder != "" {
		platform := facts.LXD
		if incus {
			platform = facts.Incus
		}
		return facts.InstanceOwner(platform, folder)
	}
	if owner, found := facts.MakerOf(q.system, q.uuid); found {
		return &owner
	}
	return &facts.Owner{Platform: facts.QEMU}
}

// harvesterRelease is on nodes of Harvester alone (harvester-installer writes it).
const harvesterRelease = "etc/harvester-release.yaml"

// nameHarvester gives KubeVirt's guests of a node of Harvester to Harvester, whose virtual machines they are.
func nameHarvester(m *tree.Tree, h *facts.Host) {
	for g := range facts.Each(h.Guests) {
		if g.Owner != nil && g.Owner.Platform == facts.KubeVirt && m.Exists(harvesterRelease) {
			g.Owner.Platform = facts.Harvester
			g.Owner.Evidence += ", and the node has /" + harvesterRelease
		}
	}
}
