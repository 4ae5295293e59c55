package kernel

import (
	"context"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestXenDom0(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		dom0  bool
	}{
		"control domain":                    {map[string]string{"proc/xen/capabilities": "control_d\n"}, true},
		"control domain without xenfs":      {xen("00000000000008c5"), true},
		"guest of Xen":                      {treetest.Merged(xen("00002705"), map[string]string{"proc/xen/capabilities": ""}), false},
		"KVM, whose features are a guest's": {map[string]string{"sys/hypervisor/properties/features": "ffff\n"}, false},
		"no hypervisor":                     {nil, false},
	} {
		h := &facts.Host{}
		KVM(context.Background(), treetest.Recorded(t, c.files), h)
		must.Equal(t, h.KVM.XenDom0, c.dom0, "%s", name)
	}
}

func xen(features string) map[string]string {
	return map[string]string{"sys/hypervisor/type": "xen\n", "sys/hypervisor/properties/features": features + "\n"}
}
