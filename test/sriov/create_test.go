//go:build lab

package sriov

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/change/apply"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// functions tells by other means than mpps how many functions the NIC has, and how many of them have a driver and a
// name.
const functions = `D=/sys/class/net/%s/device; set -- $D/virtfn*; [ -e $1 ] || shift
drivers=0; names=0; for f; do [ -e $f/driver ] && drivers=$((drivers+1)); [ -d $f/net ] && names=$((names+1)); done
echo $(<$D/sriov_numvfs) $# $drivers $names`

func (s *scene) functions() string {
	s.Helper()
	return s.Must(fmt.Sprintf(functions, s.pf))
}

// ofVF is what the kernel says of one function.
func (s *scene) ofVF(number int) string {
	s.Helper()
	return s.Must(fmt.Sprintf("ip link show dev %s | grep 'vf %d '", s.pf, number))
}

// traces are what mpps leaves on a host to have functions back at boot.
const traces = `ls /var/lib/mpps/desired.json /etc/systemd/system/mpps-* /etc/systemd/system/multi-user.target.wants/mpps-* /etc/modprobe.d/*mpps* /etc/systemd/network/*mpps* 2>/dev/null || true`

// withFunction defines a guest that has nothing to boot and is to have one function.
func (s *scene) withFunction(name string, number int) {
	s.Helper()
	pci := s.Must(fmt.Sprintf("basename $(readlink /sys/class/net/%s/device/virtfn%d)", s.pf, number))
	s.MPPS(0, "domain", "render", "--name", name, "--vcpus", "1", "--memory", "128MiB", "--nic", "vf="+pci+
		",mac=52:54:00:0b:00:0"+strconv.Itoa(number), "-o", "/run/"+name+".xml")
	s.Must("virsh -q define /run/" + name + ".xml")
}

// TestCreate makes functions, makes another number of them, is refused while somebody has one, and takes them away;
// each step is undone again in the end.
func TestCreate(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.Must("ip link set " + s.pf + " down")
	first := labtest.Answer[apply.Result](s, 0, "sriov", "create", s.pf, "-n", "2").TX
	must.Equal(t, s.functions(), "2 2 2 2", "count, functions, with drivers, with names")
	must.Equal(t, s.Must("cat /sys/class/net/"+s.pf+"/flags"), "0x1003", "the physical function is not up: flags")
	s.MPPS(0, "sriov", "set", s.pf+"/1", "mac", "52:54:00:0b:00:11", "vlan", "7")
	kept := func(when string) {
		t.Helper()
		if vf := s.ofVF(1); !strings.Contains(vf, "52:54:00:0b:00:11") || !strings.Contains(vf, "vlan 7") {
			t.Errorf("%s: function 1 has lost what was set: %s", when, vf)
		}
	}

	// Another number takes all away; what mpps keeps of those that are there again is set again.
	s.MPPS(0, "sriov", "create", s.pf, "-n", "3", "--no-host-driver")
	must.Equal(t, s.functions(), "3 3 0 0", "count, functions, with drivers, with names")
	kept("with another number")

	s.inUse()

	// A guest that is shut off misses its function afterwards, and it is said.
	s.withFunction("off", 2)
	r := s.MPPS(0, "--json", "sriov", "destroy", s.pf)
	must.Hold(t, strings.Contains(r.Stdout, "guest off is defined with function 2"),
		"nothing is said of the guest:\n%s%s", r.Stdout, r.Stderr)
	s.Must("virsh -q undefine off")
	must.Equal(t, s.functions(), "0 0 0 0", "after destroy")
	must.Equal(t, s.Must(traces), "", "left by destroy")

	s.MPPS(0, "rollback")
	must.Equal(t, s.functions(), "3 3 0 0", "after the rollback of destroy")
	kept("after the rollback of destroy")
	must.Equal(t, s.Must("systemctl is-enabled mpps-vfs mpps-restore; systemctl is-active mpps-restore"),
		"enabled\nenabled\nactive", "services after the rollback of destroy")
	s.MPPS(0, "rollback", first, "--with-later")
	must.Equal(t, s.functions()+s.Must(traces+"; cat /sys/class/net/"+s.pf+"/flags"), "0 0 0 00x1002",
		"after all rollbacks")
	s.MPPS(3, "status", "--detailed-exit-code")
}

// inUse: a running guest of libvirt, its own QEMU and another process are named, and nothing changes.
func (s *scene) inUse() {
	s.Helper()
	refused := func(who string, verb ...string) {
		s.Helper()
		if r := s.MPPS(1, append([]string{"sriov"}, verb...)...); !strings.Contains(
			strings.Join(strings.Fields(r.Stderr), " "), who) {
			s.Errorf("%s: %s, expected %q", verb[0], r.Stderr, who)
		}
	}
	functions := s.functions()
	s.withFunction("on", 0)
	s.Must("virsh -q start --paused on")
	refused("function 0 ("+s.Must("basename $(readlink /sys/class/net/"+s.pf+"/device/virtfn0)")+") by guest on",
		"create", s.pf, "-n", "5")
	s.Must("virsh -q destroy on; virsh -q undefine on")

	own := s.Must(`F=$(readlink -f /sys/class/net/` + s.pf +
		`/device/virtfn2); echo vfio-pci >$F/driver_override; echo ${F##*/} >/sys/bus/pci/drivers_probe
qemu-system-x86_64 -name own -nodefaults -display none -machine q35 -accel tcg -m 64 -S -device vfio-pci,host=${F##*/} >/run/own.log 2>&1 & echo $!`)
	s.Must("for i in $(seq 600); do ls -l /proc/" + own + "/fd | grep -q vfio/[0-9] && break; sleep 0.1; done; cat " +
		"/run/own.log")
	refused("guest own", "destroy", s.pf)
	s.Must("kill " + own + "; while [ -d /proc/" + own + " ]; do sleep 0.1; done")

	other := s.Must(`G=$(basename $(readlink /sys/class/net/` + s.pf +
		`/device/virtfn2/iommu_group)); sleep 1000 9<>/dev/vfio/$G >/dev/null 2>&1 & echo $!`)
	refused("sleep (process "+other+")", "destroy", s.pf)
	s.Must(`kill ` + other + `; F=$(readlink -f /sys/class/net/` + s.pf +
		`/device/virtfn2); echo >$F/driver_override; echo ${F##*/} >$F/driver/unbind`)
	if now := s.functions(); now != functions {
		s.Errorf("functions after the refusals: %s, before %s", now, functions)
	}
}

// TestFunctionsByUdev: with a .link file udev makes the functions when the card appears, and the NIC keeps its name.
func TestFunctionsByUdev(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.MPPS(0, "sriov", "create", s.pf, "-n", "3", "--persist", "link", "--blacklist")
	link := s.Must("cat /etc/systemd/network/70-mpps-" + s.pf + ".link /etc/modprobe.d/90-mpps-vf-igbvf.conf")
	must.Hold(t, strings.Contains(link, "SR-IOVVirtualFunctions=3") && strings.Contains(link, "NamePolicy=") &&
		strings.Contains(link, "blacklist igbvf"), "files:\n%s", link)
	must.Equal(t, s.Must("grep -c vf-count /var/lib/mpps/desired.json || true"), "0",
		"a service makes the functions too")
	// The card appears again.
	s.Must("udevadm control --reload; D=$(basename $(readlink /sys/class/net/" + s.pf +
		"/device)); echo $D >/sys/bus/pci/drivers/igb/unbind; echo $D >/sys/bus/pci/drivers/igb/bind; udevadm settle")
	if got := s.functions(); !strings.HasPrefix(got, "3 3 ") {
		t.Errorf("after the card appeared: %s", got)
	}
	for _, f := range labtest.Answer[facts.Host](s, 0, "inspect").Housekeeping.VFFiles {
		must.Equal(t, f.Device, s.pf, "%s makes functions of", f.Path)
	}
	s.MPPS(0, "sriov", "destroy", s.pf)
	must.Equal(t, s.Must(traces), "", "left by destroy")
}

// TestFunctionsAtBoot: functions and what is set of them are there after a reboot before libvirt starts, and a guest
// that libvirt starts by itself has its function.
func TestFunctionsAtBoot(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.MPPS(0, "sriov", "create", s.pf, "-n", "3", "--no-host-driver")
	must.Equal(t, s.functions(), "3 3 0 0", "without drivers of the host")
	s.MPPS(0, "sriov", "set", s.pf+"/1", "mac", "52:54:00:0b:00:11", "vlan", "7", "rate", "100")
	s.withFunction("auto", 2)
	s.Must("virsh -q autostart auto")
	must.Do(t, s.Lab.Reboot(t.Context()))
	must.Equal(t, s.Must("systemctl is-system-running --wait || systemctl --failed --no-legend; systemctl is-active "+
		"mpps-vfs || journalctl -b -u mpps-vfs --no-pager"), "running\nactive", "after the reboot the host")
	if got := s.functions(); !strings.HasPrefix(got, "3 3 ") {
		t.Errorf("after the reboot: %s", got)
	}
	if vf := s.ofVF(1); !strings.Contains(vf, "52:54:00:0b:00:11") || !strings.Contains(vf, "vlan 7") ||
		!strings.Contains(vf, "max_tx_rate 100Mbps") {
		t.Errorf("function 1 after the reboot: %s", vf)
	}
	// By systemd's own clock: the functions were there before libvirt's daemon was started.
	times := strings.Fields(s.Must(
		`for u in mpps-vfs libvirtd; do systemctl show -P ExecMainStartTimestampMonotonic -P ExecMainExitTimestampMonotonic $u.service; done; systemctl is-active mpps-vfs`))
	if len(times) != 5 || times[4] != "active" {
		t.Fatalf("services: %v\n%s", times, s.Must("journalctl -b -u mpps-vfs --no-pager"))
	}
	made, errMade := strconv.Atoi(times[1])
	started, errStarted := strconv.Atoi(times[2])
	must.Hold(t, errMade == nil && errStarted == nil && made != 0 && made <= started,
		"functions were made by %d µs, libvirtd started at %d µs", made, started)
	t.Logf("functions %.1f s before libvirtd\n%s", float64(started-made)/1e6,
		s.Must("journalctl -b -u mpps-vfs -o short-monotonic --no-pager"))
	if got := s.Must("for i in $(seq 240); do virsh domstate auto | grep -q running && break; sleep 0.5; done; virsh " +
		"domstate auto"); strings.TrimSpace(got) != "running" {
		t.Errorf("the guest that starts by itself is %s\n%s", got,
			s.Must("journalctl -b -u libvirtd --no-pager | tail"))
	}
	if r := s.MPPS(1, "sriov", "destroy", s.pf); !strings.Contains(r.Stderr, "guest auto") {
		t.Errorf("while the guest runs: %s", r.Stderr)
	}
	s.Must("virsh -q destroy auto; virsh -q undefine auto")
	s.MPPS(0, "sriov", "destroy", s.pf)
	must.Equal(t, s.functions()+s.Must(traces), "0 0 0 0", "after destroy")
}
