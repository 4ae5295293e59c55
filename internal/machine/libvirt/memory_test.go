package libvirt

import (
	"fmt"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestProcessorAndMemory: what Proxmox, libvirt in a pod and Incus say of the processor and the memory.
func TestProcessorAndMemory(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		mode  string
		pages bool
		nodes string
	}{
		"nothing is said":   {[]string{"-smp", "2"}, "custom", false, ""},
		"Proxmox's default": {[]string{"-cpu", "qemu64,+aes,enforce,+kvm_pv_eoi,vendor=GenuineIntel"}, "custom", false, ""},
		"Proxmox's host":    {[]string{"-cpu", "host,+kvm_pv_eoi,+kvm_pv_unhalt"}, "host-passthrough", false, ""},
		"Proxmox's numa0 of a node": {[]string{"-object", "memory-backend-ram,id=ram-node0,size=4096M,host-nodes=1,policy=bind",
			"-numa", "node,nodeid=0,cpus=0-3,memdev=ram-node0"}, "custom", false, "1"},
		"Proxmox's huge pages": {[]string{"-object", "memory-backend-file,id=ram-node0,size=4096M," +
			"mem-path=/run/hugepages/kvm/1048576kB,share=on,prealloc=yes,host-nodes=0,policy=bind", "-object",
			"memory-backend-file,id=ram-node1,size=4096M,mem-path=/run/hugepages/kvm/1048576kB,share=on,host-nodes=1," +
				"policy=bind"}, "custom", true, "0-1"},
		"preferred is not bound": {[]string{"-object", "memory-backend-ram,id=r,size=1G,host-nodes=1,policy=preferred"},
			"custom", false, ""},
		"libvirt's JSON": {[]string{"-cpu", "host,migratable=on", "-object", `{"qom-type":"memory-backend-file","id":"m0",` +
			`"mem-path":"/dev/hugepages/libvirt/qemu/1-vm","prealloc":true,"size":4294967296,"host-nodes":[0,1],` +
			`"policy":"bind"}`}, "host-passthrough", true, "0-1"},
		"a memfd":                     {[]string{"-object", "memory-backend-memfd,id=mem0,size=1G,share=on,hugetlb=on"}, "custom", true, ""},
		"an object that is no memory": {[]string{"-object", "iothread,id=hugepages"}, "custom", false, ""},
	} {
		q := parseQEMU(append([]string{"qemu"}, c.args...))
		if g := q.guest(); g.CPUMode != c.mode || g.Hugepages != c.pages || g.MemoryNodes.String() != c.nodes {
			t.Errorf("%s: %s, huge pages %t, nodes %q", name, g.CPUMode, g.Hugepages, g.MemoryNodes)
		}
	}
}

// TestTapOfPod: the index of a macvtap counts in the pod's network namespace, where another device has it than here.
func TestTapOfPod(t *testing.T) {
	files := treetest.Merged(qemuFiles(400, 0, "0-1"), map[string]string{
		"proc/400/cmdline": "qemu-kvm\x00-name\x00guest=shop_web\x00-netdev\x00tap,fd=30,id=hostnet0,vhost=on,vhostfd=31\x00" +
			"-device\x00virtio-net-pci,netdev=hostnet0,mac=02:00:00:00:00:01\x00",
		"proc/400/fd/30": "-> /dev/tap3", "proc/400/ns/net": "-> net:[4026532999]", "proc/1/ns/net": "-> net:[4026531840]",
		"sys/class/net/eth0/ifindex": "3\n",
		"proc/400/net/dev_mcast": "1    lo              1     0     333300000001\n" +
			"3    tap0            1     0     333300000001\n",
	})
	h := &facts.Host{}
	Inventory(t.Context(), treetest.Recorded(t, files), h, new(Definitions))
	must.Hold(t, len(h.Guests) == 1 && len(h.Guests[0].Interfaces) == 1 && h.Guests[0].Interfaces[0].Tap == "tap0" &&
		h.Guests[0].Elsewhere, "guests: %+v", h.Guests)
}

// TestReadConfig: of a guest of Incus, whose processors are in a file of -readconfig and whose NICs were plugged in,
// the vCPUs are counted by their threads.
func TestReadConfig(t *testing.T) {
	files := treetest.Merged(qemuFiles(400, 0, "0-1"), map[string]string{"proc/400/cmdline": "/opt/incus/bin/" +
		"qemu-system-x86_64\x00-S\x00-name\x00web1\x00-cpu\x00host,hv_passthrough\x00-nodefaults\x00-readconfig\x00" +
		"/run/incus/web1/qemu.conf\x00"})
	for tid := 401; tid <= 403; tid++ {
		name, at := fmt.Sprintf("CPU %d/KVM", tid-401), fmt.Sprintf("proc/400/task/%d/", tid)
		files[at+"comm"], files[at+"stat"] = name+"\n", treetest.Stat(tid, name, tid, 0, 0, 0)
		files[at+"status"] = "Name:\t" + name + "\nCpus_allowed_list:\t0-1\n"
	}
	h := &facts.Host{}
	Inventory(t.Context(), treetest.Recorded(t, files), h, new(Definitions))
	must.Hold(t, len(h.Guests) == 1 && h.Guests[0].VCPUs == 3 && h.Guests[0].Platform() == facts.QEMU &&
		h.Guests[0].CPUMode == "host-passthrough", "guests: %+v", h.Guests)
}
