package libvirt

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
)

// TestOwnersOfProcesses: Proxmox's guest is one whose process its PID file names, KubeVirt's one in a pod below
// virt-launcher. What a command line says of itself is not enough.
func TestOwnersOfProcesses(t *testing.T) {
	line := strings.ReplaceAll("/usr/bin/kvm -id 101 -name web,debug-threads=on -smbios "+
		"type=1,uuid=11111111-2222-3333-4444-555555555555 -smp 2 -pidfile /var/run/qemu-server/101.pid ", " ", "\x00")
	with := func(more map[string]string) map[string]string {
		return treetest.Merged(qemuFiles(400, 0, "0-1"), map[string]string{"proc/400/cmdline": line}, more)
	}
	parent := func(name string) map[string]string {
		return map[string]string{"proc/77/task/77/comm": name + "\n", "proc/77/comm": name + "\n",
			"proc/400/stat": strings.Replace(treetest.Stat(400, "kvm", 500, 0, 0, 0), ") S 1 ", ") S 77 ", 1)}
	}
	const ofPod = "qemu-kvm\x00-name\x00guest=shop_web,debug-threads=on\x00"
	pod := map[string]string{"proc/400/cgroup": "0::/kubepods.slice/kubepods-podx.slice/cri-containerd-y.scope\n"}
	for what, c := range map[string]struct {
		files    map[string]string
		platform facts.Platform
		id       string
	}{
		"Proxmox":                  {map[string]string{"run/qemu-server/101.pid": "400\n"}, facts.Proxmox, "101"},
		"no PID file":              {nil, facts.QEMU, ""},
		"a PID file of another":    {map[string]string{"run/qemu-server/101.pid": "401\n"}, facts.QEMU, ""},
		"another guest's PID file": {map[string]string{"run/qemu-server/102.pid": "400\n"}, facts.QEMU, ""},
		"a way out of the folder": {map[string]string{"proc/400/cmdline": strings.Replace(line, "101", "../x", 1),
			"run/x.pid": "400\n"}, facts.QEMU, ""},
		"KubeVirt": {treetest.Merged(pod, parent("virt-launcher-m"), map[string]string{
			"proc/400/cmdline": ofPod}), facts.KubeVirt, "shop/web"},
		"Harvester": {treetest.Merged(pod, parent("virt-launcher-m"), map[string]string{
			"etc/harvester-release.yaml": "a: b\n", "proc/400/cmdline": ofPod}), facts.Harvester, "shop/web"},
		"a pod of another":          {treetest.Merged(pod, parent("sh")), facts.QEMU, ""},
		"virt-launcher in no pod":   {parent("virt-launcher-m"), facts.QEMU, ""},
		"Harvester without the pod": {map[string]string{"etc/harvester-release.yaml": "a: b\n"}, facts.QEMU, ""},
	} {
		t.Run(what, func(t *testing.T) {
			h := &facts.Host{}
			Inventory(t.Context(), treetest.Recorded(t, with(c.files)), h, new(Definitions))
			if len(h.Guests) != 1 || h.Guests[0].Owner == nil {
				t.Fatalf("guests %+v, not verified %+v", h.Guests, h.Unverified)
			}
			if o := h.Guests[0].Owner; o.Platform != c.platform || o.ID != c.id {
				t.Errorf("expected %s %q, found %+v", c.platform, c.id, o)
			}
		})
	}
}
