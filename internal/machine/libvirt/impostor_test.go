package libvirt

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// qemuFiles returns the files of a process that calls itself the QEMU of guest vm1.
func qemuFiles(pid, uid int, cpus string) map[string]string {
	at := fmt.Sprintf("proc/%d/", pid)
	status := fmt.Sprintf("Name:\tqemu-system-x86\nUid:\t%d\t%d\t%d\t%d\nCpus_allowed_list:\t%s\n", uid, uid, uid, uid,
		cpus)
	stat := treetest.Stat(pid, "qemu-system-x86", 100+pid, 0, 0, 0)
	task := fmt.Sprintf("%stask/%d/", at, pid)
	return map[string]string{
		at + "comm": "qemu-system-x86\n", at + "stat": stat, at + "status": status, task + "stat": stat,
		task + "status": status,
		at + "cmdline":  "qemu-system-x86_64\x00-name\x00guest=vm1,debug-threads=on\x00-smp\x002\x00",
	}
}

// TestImpostor: of several processes that call themselves the QEMU of a guest, the one that libvirt started is read,
// and without libvirt the one of the system. A person's is shown, and never read in its place, whatever its number.
func TestImpostor(t *testing.T) {
	const person, libvirtQEMU = 1000, 64055
	started := map[string]string{"run/libvirt/qemu/vm1.pid": "400\n"}
	link := func(pid int, name, target string) map[string]string {
		return map[string]string{fmt.Sprintf("proc/%d/%s", pid, name): "-> " + target}
	}
	for name, c := range map[string]struct {
		files      map[string]string
		affinity   string // of the guest's emulator
		pid        int    // of the guest; 0: it does not run
		unverified string // their PIDs
	}{
		"alone": {qemuFiles(400, libvirtQEMU, "0-1"), "0-1", 400, "[]"},
		"of libvirt, between two of a person": {treetest.Merged(started, qemuFiles(300, person, "3"),
			qemuFiles(400, libvirtQEMU, "0-1"), qemuFiles(500, person, "3")), "0-1", 400, "[300 500]"},
		"of libvirt, which runs it for a person": {treetest.Merged(started, qemuFiles(400, person, "0-1"),
			qemuFiles(500, person, "3")), "0-1", 400, "[500]"},
		"of root without libvirt, between two of a person": {treetest.Merged(qemuFiles(300, person, "3"),
			qemuFiles(400, 0, "0-1"), qemuFiles(500, person, "3")), "0-1", 400, "[300 500]"},
		"a person's alone": {qemuFiles(300, person, "3"), "absent", 0, "[300]"},
		"libvirt's file names another guest": {treetest.Merged(qemuFiles(300, person, "3"),
			map[string]string{"run/libvirt/qemu/vm2.pid": "300\n"}), "absent", 0, "[300]"},
		"a script of a system account": {treetest.Merged(qemuFiles(300, 33, "3"),
			link(300, "exe", "/usr/bin/python3.13")), "absent", 0, "[300]"},
		"root of a container": {treetest.Merged(qemuFiles(300, 0, "3"), link(300, "exe", "/bin/dash"),
			link(300, "ns/pid", "pid:[2]"), link(1, "ns/pid", "pid:[1]")), "absent", 0, "[300]"},
		"its program was updated": {treetest.Merged(qemuFiles(400, 33, "0-1"),
			link(400, "exe", "/usr/bin/qemu-system-x86_64 (deleted)")), "0-1", 400, "[]"},
		"two of the system": {treetest.Merged(qemuFiles(300, 0, "3"), qemuFiles(400, 0, "0-1")), "unknown", 300, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			m := treetest.Recorded(t, c.files)
			a := setting.Of(setting.ThreadAffinity, "vm1", "emulator")
			if r := Mechanisms(m, new(Definitions)).Read(t.Context(), a); r.String() != c.affinity {
				t.Errorf("expected affinity %s, found %s (%s)", c.affinity, r, r.Why)
			}
			h := &facts.Host{}
			Inventory(t.Context(), m, h, new(Definitions))
			pid := 0
			for _, g := range h.Guests {
				if g.Name == "vm1" {
					pid = g.PID
				}
			}
			var unverified []int
			for _, u := range h.Unverified {
				must.Hold(t, u.Guest == "vm1" && u.Comm == "qemu-system-x86" && u.Why != "", "unverified: %+v", u)
				unverified = append(unverified, u.PID)
			}
			must.Hold(t, pid == c.pid && fmt.Sprint(unverified) == c.unverified,
				"expected PID %d and %s unverified, found %d and %v", c.pid, c.unverified, pid, unverified)
		})
	}
}

// TestImpostorTakesNothing: a process that claims the UUID of a guest of libvirt and its devices has neither.
func TestImpostorTakesNothing(t *testing.T) {
	files := qemuFiles(900, 1000, "3")
	files["proc/900/cmdline"] = strings.Join([]string{"qemu-system-x86_64", "-name", "guest=vm 1", "-uuid",
		"604803a9-c81f-45a7-839a-a6ab341a1fa9", "-device", "vfio-pci,host=0000:01:10.1", "-netdev",
		"tap,id=a,ifname=vnet3", "-device", "virtio-net-pci,netdev=a,mac=52:54:00:aa:00:01"}, "\x00")
	look := func(more map[string]string) facts.Host {
		m := guestHostWith(t, more)
		h := facts.Host{Taps: []facts.Tap{{Name: "vnet3"}}, VFs: []facts.VF{{PF: "eth0", PCI: "0000:01:10.1"}}}
		Inventory(t.Context(), m, &h, new(Definitions))
		return h
	}
	without, with := look(nil), look(files)
	must.Equal(t, len(with.Unverified), 1, "unverified: %+v", with.Unverified)
	if found := facts.Diff(&without, &with); len(found) > 0 || len(with.Guests) != len(without.Guests) {
		t.Errorf("the host differs: %+v", found)
	}
	m := guestHostWith(t, files)
	must.Equal(t, GuestsOf(m, trust.Processes(m))[900], "", "the process is taken for a guest's")
}

// TestClaimIsAName: of a process that only has QEMU's name, the name that it claims is all that is made of its command
// line, whatever that repeats.
func TestClaimIsAName(t *testing.T) {
	for _, uid := range []int{0, 1000} {
		files := qemuFiles(900, uid, "3")
		files["proc/900/cmdline"] += strings.Repeat("-netdev\x00user,id=a\x00", 8)
		m := treetest.Recorded(t, files)
		q, ok := readQEMU(m, trust.QEMUs(m, trust.Processes(m))[0])
		must.Hold(t, ok && q.name == "vm1" && (len(q.nics) == 0) == (uid != 0), "of user %d: %+v", uid, q)
	}
}
