package libvirt

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
)

// TestMachinesOfOthers: processes that run virtual machines without QEMU are noted once for each program, by their
// names or by KVM's; QEMU and others are not.
func TestMachinesOfOthers(t *testing.T) {
	process := func(pid string, comm string) map[string]string {
		return map[string]string{"proc/" + pid + "/comm": comm + "\n"}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  map[string]string // what and why of what is unseen
	}{
		"nobody": {process("7", "bash"), nil},
		"Cloud Hypervisor, whose name is cut": {process("7", "cloud-hyperviso"), map[string]string{
			"cloud-hyperviso": "mpps judges guests of QEMU alone (1 of its processes, such as 7)"}},
		"Firecracker twice, and crosvm": {treetest.Merged(process("8", "firecracker"), process("9", "firecracker"),
			process("10", "crosvm")), map[string]string{
			"firecracker": "mpps judges guests of QEMU alone (2 of its processes, such as 8)",
			"crosvm":      "mpps judges guests of QEMU alone (1 of its processes, such as 10)"}},
		"one that KVM alone knows": {treetest.Merged(process("11", "myvmm"), map[string]string{
			"sys/kernel/debug/kvm/11-23/exits": "5\n", "sys/kernel/debug/kvm/exits": "9\n"}), map[string]string{
			"myvmm": "mpps judges guests of QEMU alone (1 of its processes, such as 11)"}},
		"QEMU, which is a guest": {treetest.Merged(qemuFiles(400, 0, "0"), map[string]string{
			"sys/kernel/debug/kvm/400-23/exits": "5\n"}), nil},
		"a folder of nobody": {map[string]string{"sys/kernel/debug/kvm/12-3/exits": "5\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &facts.Host{}
			Inventory(t.Context(), treetest.Recorded(t, c.files), h, new(Definitions))
			if len(h.Unseen) != len(c.want) {
				t.Errorf("expected %d, found %+v", len(c.want), h.Unseen)
			}
			for _, u := range h.Unseen {
				if u.Part != facts.UnseenMachines || !u.IsGuests() || u.Why != c.want[u.Of] {
					t.Errorf("%+v, expected %q", u, c.want[u.Of])
				}
			}
		})
	}
}

// TestFilesUnread: a definition that cannot be read is one that keeps an audit from passing.
func TestFilesUnread(t *testing.T) {
	m := treetest.Recorded(t, map[string]string{"etc/libvirt/qemu/a.xml/x": "", "etc/libvirt/qemu/b.xml": "<domain><name>"})
	h := &facts.Host{}
	Inventory(t.Context(), m, h, new(Definitions))
	seen := map[string]bool{}
	for _, u := range h.Unseen {
		seen[u.Of] = u.Part == facts.UnseenDefinition
	}
	if !seen["a"] || !seen["b"] {
		t.Errorf("unseen: %+v", h.Unseen)
	}
}
