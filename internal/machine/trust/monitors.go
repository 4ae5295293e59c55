package trust

import (
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
)

// monitors are programs that run virtual machines in place of QEMU, by the name of their first thread.
var monitors = []string{"cloud-hypervisor", "firecracker", "crosvm", "stratovirt", "lkvm", "dragonball", "dbs-cli",
	"VBoxHeadless", "VirtualBoxVM", "vmware-vmx", "propolis-server", "openvmm", "krunvm"}

// kvmFolder has a folder PID-FD of each virtual machine of KVM (virt/kvm/kvm_main.c, kvm_create_vm_debugfs), where
// debugfs is mounted and for root alone.
const kvmFolder = "sys/kernel/debug/kvm"

// Monitors returns the processes that run virtual machines and do not have QEMU's name: those that KVM names, and those
// that have the name of such a program, unless their descriptors show that they have no virtual machine of KVM.
// VirtualBox and VMware do without KVM.
func Monitors(m *tree.Tree, all []Process) []Process {
	kvm := map[int]bool{}
	for _, folder := range m.List(kvmFolder) {
		number, _, _ := strings.Cut(folder, "-")
		if pid, err := strconv.Atoi(number); err == nil {
			kvm[pid] = true
		}
	}
	var list []Process
	for _, p := range all {
		named := slices.ContainsFunc(monitors, func(name string) bool { return p.comm == cut(name) })
		if isQEMU(p.comm) || !kvm[p.PID] && !named {
			continue
		}
		if kvm[p.PID] || !m.Live() || ownKernel(p.comm) || !runsNoMachine(m, p.PID) {
			list = append(list, p)
		}
	}
	return list
}

// ownKernel reports whether a program has its own kernel module in place of KVM.
func ownKernel(name string) bool {
	return strings.HasPrefix(name, "VBox") || strings.HasPrefix(name, "VirtualBox") || strings.HasPrefix(name, "vmware")
}
