//go:build lab

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// labGuest has a vhost NIC with two queues, an e1000, a vhost NIC with one queue and a virtio NIC without vhost. It has
// nothing to boot: QEMU creates threads and taps all the same.
const labGuest = `<domain type='kvm'>
  <name>guests of lab</name>
  <memory unit='MiB'>64</memory>
  <vcpu placement='static'>2</vcpu>
  <iothreads>1</iothreads>
  <cputune>
    <vcpupin vcpu='0' cpuset='1'/>
    <emulatorpin cpuset='0-1'/>
  </cputune>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
  </os>
  <features><acpi/></features>
  <cpu mode='host-passthrough'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <interface type='bridge'><mac address='52:54:00:aa:00:01'/><source bridge='gbr0'/><model type='virtio'/><driver name='vhost' queues='2' rx_queue_size='1024'/></interface>
    <interface type='bridge'><mac address='52:54:00:aa:00:02'/><source bridge='gbr0'/><model type='e1000'/></interface>
    <interface type='bridge'><mac address='52:54:00:aa:00:03'/><source bridge='gbr0'/><model type='virtio'/></interface>
    <interface type='bridge'><mac address='52:54:00:aa:00:04'/><source bridge='gbr0'/><model type='virtio'/><driver name='qemu'/></interface>
    <graphics type='vnc' port='-1' passwd='sesame'/>
  </devices>
</domain>
`

// startLabGuest defines and starts the guest, and removes it at the end.
func startLabGuest(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "guest.xml")
	must.Do(t, os.WriteFile(file, []byte(labGuest), 0o600))
	sh(t, "ip link add gbr0 type bridge && ip link set gbr0 up")
	t.Cleanup(func() { sh(t, "ip link del gbr0") })
	sh(t, "pidof libvirtd || { virtlogd -d; libvirtd -d; for i in $(seq 300); do test -S /run/libvirt/libvirt-sock && "+
		"break; sleep 0.2; done; }")
	sh(t, "virsh define "+file)
	t.Cleanup(func() { sh(t, "virsh undefine 'guests of lab'") })
	sh(t, "virsh start 'guests of lab'")
	t.Cleanup(func() { sh(t, "virsh destroy 'guests of lab'") })
}

func labInventory(t *testing.T, m *Machine) (*facts.Host, facts.Guest) {
	t.Helper()
	h := m.Inventory(patient(t))
	for _, g := range h.Guests {
		if g.Name == "guests of lab" {
			return h, g
		}
	}
	t.Fatalf("the guest is not among %d; unseen: %+v", len(h.Guests), h.Unseen)
	return nil, facts.Guest{}
}

func TestGuestsOfTheLab(t *testing.T) {
	if !inLab(t) {
		return
	}
	startLabGuest(t)
	m := live(t)

	h, g := labInventory(t, m)
	must.Hold(t, h.KVM.Loaded && h.KVM.Vendor != "" && h.KVM.Vhost && h.KVM.QEMU != "" && h.KVM.Libvirt != "" &&
		h.Virtual != "", "KVM %+v on %q; unseen: %+v", h.KVM, h.Virtual, h.Unseen)
	must.Hold(t, g.Managed && g.State == "running" && g.VCPUs == 2 && len(g.Interfaces) == 4 &&
		g.Interfaces[0].Queues == 2 && len(g.Pending) == 0, "guest: %+v", g)
	must.Lack(t, g.Definition, "sesame")
	roles := map[string]int{}
	for _, thread := range g.Threads {
		name := thread.Role
		if thread.Role == "vhost" {
			name = fmt.Sprintf("vhost %s/%d", thread.NIC, thread.Queue)
		}
		roles[name]++
		want := strings.TrimSpace(sh(t, fmt.Sprintf("taskset -pc %d | sed 's/.*: //'", thread.TID)))
		if cpus, err := setting.ParseCPUs(want); err != nil || !thread.Affinity.Equal(cpus) {
			t.Errorf("thread %d: found CPUs %s, taskset says %s", thread.TID, thread.Affinity, want)
		}
	}
	for _, name := range []string{"emulator", "iothread", "vhost 52:54:00:aa:00:01/0", "vhost 52:54:00:aa:00:01/1",
		"vhost 52:54:00:aa:00:03/0"} {
		must.Hold(t, roles[name] == 1, "%d threads %q among %v", roles[name], name, roles)
	}
	must.Equal(t, roles["vcpu"], 2, "vCPU threads")
	for _, nic := range g.Interfaces {
		for _, tap := range h.Taps {
			if tap.Name == nic.Tap && (tap.Guest != g.Name || tap.Master != "gbr0") {
				t.Errorf("tap %+v of %s", tap, nic.MAC)
			}
		}
		must.Hold(t, nic.Tap != "", "NIC %s has no tap", nic.MAC)
	}
}

// TestValuesOfGuestsOfTheLab writes values, restores them, restarts the guest, and finds the host as it was.
func TestValuesOfGuestsOfTheLab(t *testing.T) {
	if !inLab(t) {
		return
	}
	startLabGuest(t)
	m := live(t)
	const guest, nic = "guests of lab", "interface/52:54:00:aa:00:01/"
	before, _ := labInventory(t, m)
	definition := sh(t, "virsh dumpxml --inactive 'guests of lab'")
	all := m.Mechanisms()
	for _, c := range []struct {
		address, to string
		refused     string
	}{
		{"domain:" + guest + "/" + nic + "driver.queues", "4", ""},
		{"domain:" + guest + "/" + nic + "driver.rx_queue_size", "512", ""},
		{"domain:" + guest + "/vcpupin/1", "3", ""},
		{"domain:" + guest + "/vcpupin/0", "", ""},
		{"domain:" + guest + "/interface/52:54:00:aa:00:02/model", "virtio", ""},
		{"domain:" + guest + "/" + nic + "driver.rx_queue_size", "1000", "1000"},
		{"domain:" + guest + "/interface/52:54:00:00:00:00/driver.queues", "2", "no such interface"},
		{"thread-affinity:" + guest + "/vhost/52:54:00:aa:00:01/1", "1", ""},
		{"thread-affinity:" + guest + "/vcpu/1", "2-3", ""},
		{"thread-affinity:" + guest + "/vhost/52:54:00:aa:00:01/1", "2-3", "allows CPUs 0-1"},
		{"thread-affinity:" + guest + "/vhost/52:54:00:aa:00:04/0", "1", "no such thread"},
	} {
		a := must.Get(setting.ParseAddress(c.address))(t)
		was, to := all.Read(patient(t), a), setting.Value(c.to)
		if c.to == "" {
			to = setting.Missing("")
		}
		err := all.Write(patient(t), a, to)
		switch now := all.Read(patient(t), a); {
		case c.refused != "":
			must.Hold(t, err != nil && strings.Contains(err.Error(), c.refused) && now.Same(was),
				"%s: expected a refusal with %q, found %v; was %s, is %s", a, c.refused, err, was, now)
			continue
		case err != nil || !now.Same(to):
			t.Errorf("%s: wanted %s, found %s (%v)", a, to, now, err)
		}
		must.Succeed(t, all.Write(patient(t), a, was), "%s: putting %s back", a, was)
	}
	must.Equal(t, sh(t, "virsh dumpxml --inactive 'guests of lab'"), definition, "the definition is another one")
	must.Equal(t, sh(t, "grep -c sesame '/etc/libvirt/qemu/guests of lab.xml'"), "1",
		"the password is gone from the definition")

	sh(t, "virsh attach-interface 'guests of lab' bridge gbr0 --model virtio --mac 52:54:00:aa:00:09 --live")
	plugged := setting.Of(setting.ThreadAffinity, guest, "vhost", "52:54:00:aa:00:09", "0")
	if found := all.Read(patient(t), plugged); found.State != setting.Known {
		t.Errorf("vhost worker of a NIC that was plugged in: %s (%s)", found, found.Why)
	}
	sh(t, "virsh destroy 'guests of lab' && virsh start 'guests of lab'")
	after, _ := labInventory(t, m)
	for _, d := range facts.Diff(before, after) {
		t.Errorf("differs after a new start: %+v", d)
	}

	var start, end syscall.Rusage
	var startOf, endOf syscall.Rusage
	for range 3 { // the first reads what the others find in memory
		_, _ = syscall.Getrusage(syscall.RUSAGE_SELF, &start), syscall.Getrusage(syscall.RUSAGE_CHILDREN, &startOf)
		began := time.Now()
		m.Inventory(patient(t))
		_, _ = syscall.Getrusage(syscall.RUSAGE_SELF, &end), syscall.Getrusage(syscall.RUSAGE_CHILDREN, &endOf)
		used := end.Utime.Nano() + end.Stime.Nano() - start.Utime.Nano() - start.Stime.Nano() +
			endOf.Utime.Nano() + endOf.Stime.Nano() - startOf.Utime.Nano() - startOf.Stime.Nano()
		t.Logf("inventory: %v of CPU, %v", time.Duration(used).Round(time.Millisecond),
			time.Since(began).Round(time.Millisecond))
	}
}
