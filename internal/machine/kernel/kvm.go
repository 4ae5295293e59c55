package kernel

import (
	"context"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// kvmModules are the modules whose parameters affect guests.
var kvmModules = []string{"kvm", "kvm_intel", "kvm_amd", "vhost", "vhost_net", "vfio", "vfio_pci", "vfio_iommu_type1",
	"tun"}

// KVM reads the hypervisor modules that are loaded (or built in: these have a directory only if they have parameters)
// and their parameters. The versions of QEMU and libvirt come with the guests.
func KVM(_ context.Context, m *tree.Tree, h *facts.Host) {
	k := &h.KVM
	k.Parameters = map[string]string{}
	k.XenDom0 = xenDom0(m)
	modules := m.Folder("sys/module")
	defer modules.Close()
	for _, name := range kvmModules {
		module := modules.Folder(name)
		if module == nil {
			continue
		}
		switch name {
		case "kvm":
			k.Loaded = true
		case "kvm_intel", "kvm_amd":
			k.Vendor = name
		case "vhost_net":
			k.Vhost = true
		}
		parameters := module.Folder("parameters")
		for _, parameter := range parameters.Names() {
			if text, readable := parameters.Text(parameter); readable {
				k.Parameters[name+"."+parameter] = strings.TrimSpace(text)
			}
		}
		parameters.Close()
		module.Close()
	}
}

// xenDom0 reports whether the machine is Xen's control domain: xenfs says so (drivers/xen/xenfs/super.c,
// capabilities_read) where it is mounted, or the features that Xen offers it have bit 11, XENFEAT_dom0
// (include/xen/interface/features.h).
func xenDom0(m *tree.Tree) bool {
	if strings.Contains(m.Line("proc/xen/capabilities"), "control_d") {
		return true
	}
	features, err := strconv.ParseUint(m.Line("sys/hypervisor/properties/features"), 16, 64)
	return err == nil && m.Line("sys/hypervisor/type") == "xen" && features>>11&1 == 1
}
