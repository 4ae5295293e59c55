//go:build lab

package sriov

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// The guest that tries to change its addresses: its NIC on a bridge, and the one that is a virtual function or the
// like.
const (
	tenant     = "ten1"
	tapMAC     = "52:54:00:0a:0d:01"
	functMAC   = "52:54:00:0a:0d:02"
	otherMAC   = "52:54:00:ee:0d:0f" // that it wants
	outside    = "10.99.0.1"         // beyond the card: the bridge that its cable leads to
	functAddr  = "10.99.0.77/24"
	bridgeAddr = "10.98.0.1"
)

// TestTenant brings a guest with a virtual function to "another host" and back, and then has it try to change its
// addresses.
func TestTenant(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	furnish := func() {
		s.Must("systemctl is-system-running --wait >/dev/null; modprobe -a igb vfio-pci kvm_amd vhost_net; ip link " +
			"set " + s.pf + " up")
		s.MPPS(0, "sriov", "create", s.pf, "-n", "2", "--persist", "none")
		s.Must("ip link add brt type bridge forward_delay 0; ip addr add " + bridgeAddr +
			"/24 dev brt; ip link set brt up")
	}
	furnish()
	t.Cleanup(func() {
		s.Must("ip link del brt; ebtables-legacy -t nat -F PREROUTING; rm -f /run/device.xml /run/" + tenant + "*")
	})
	function := func(n string) string {
		return s.Must("basename $(readlink /sys/class/net/" + s.pf + "/device/virtfn" + n + ")")
	}
	home, there := function("0"), function("1")
	must.Get(s.Lab.StartGuestFresh(t.Context(), lab.GuestSpec{Name: tenant, Binary: labtest.Init(t), Agent: true,
		NICs: []lab.NIC{
			{Model: lab.Vhost, Bridge: "brt", Addr: "10.98.0.2/24", Tap: "tten1", MAC: tapMAC},
			{Model: lab.VF, VF: home, MAC: functMAC, Addr: functAddr},
		}}, func(context.Context) error { furnish(); return nil }))(t)
	s.migration(home, there)
	s.addresses(home)
}

// attempt is one way to have a NIC, and what a guest can do about its address there.
type attempt struct {
	name    string
	before  string // on the host; $pf and $pci are the function's, $xml the file with the device that was attached
	nic     string // in the guest: function, tap or plugged
	peer    string // that it can reach
	changes bool   // the guest can give the NIC another address
	works   bool   // and packets come and go with it
	log     string // what the host's kernel says of the attempt
}

// asDevice is a script that puts a device in the place of the one before.
func asDevice(xml string) string {
	return "[ ! -e $xml ] || virsh -q detach-device " + tenant + " $xml --live\ncat > $xml <<EOF\n" + xml +
		"\nEOF\nvirsh -q attach-device " + tenant + " $xml --live\n"
}

const hostdevXML = "<hostdev mode='subsystem' type='pci' managed='yes'><source><address $address/></source></hostdev>"

// attempts are in the order in which they are made: each begins with what the one before has left.
var attempts = []attempt{
	{
		name: "interface type='hostdev': libvirt sets the address", nic: "function", peer: outside,
		log: "attempted to override administratively set MAC address",
	},
	{name: "the same, spoofchk off", before: "ip link set $pf vf 0 spoofchk off", nic: "function", peer: outside},
	{name: "the same, trust on", before: "ip link set $pf vf 0 spoofchk on trust on", nic: "function", peer: outside,
		changes: true, works: true},
	{
		name: "hostdev, and nobody set an address", nic: "function", peer: outside, changes: true, works: true,
		before: "ip link set $pf vf 0 trust off\nvirsh -q detach-interface " + tenant + " hostdev --mac " + functMAC +
			" --live\nip link set $pf vf 0 mac 00:00:00:00:00:00\n" + asDevice(hostdevXML),
	},
	{
		name: "hostdev, the address set by the host", nic: "function", peer: outside,
		before: "virsh -q detach-device " + tenant + " $xml --live; rm $xml\nip link set $pf vf 0 mac " + functMAC +
			"\n" + asDevice(hostdevXML),
		log: "attempted to override administratively set MAC address",
	},
	{name: "virtio on a bridge", nic: "tap", peer: bridgeAddr, changes: true, works: true},
	{
		// What libvirt's filter no-mac-spoofing comes to (src/nwfilter/xml/no-mac-spoofing.xml); the lab's libvirt has
		// no filters.
		name: "virtio on a bridge, with the rule of no-mac-spoofing", nic: "tap", peer: bridgeAddr, changes: true,
		before: "ebtables-legacy -t nat -A PREROUTING -i tten1 -s ! " + tapMAC + " -j DROP",
	},
	{
		name: "virtio on a locked port of a bridge", nic: "tap", peer: bridgeAddr, changes: true,
		before: "ebtables-legacy -t nat -F PREROUTING\nbridge fdb del " + otherMAC + " dev tten1 master || true\n" +
			"bridge fdb replace " + tapMAC + " dev tten1 master static\nbridge link set dev tten1 learning off " +
			"locked on",
	},
	{
		name: "macvtap on the port, as libvirt makes it", nic: "plugged", peer: outside, changes: true,
		before: "bridge link set dev tten1 locked off learning on\nmodprobe macvtap\n" +
			asDevice("<interface type='direct'><mac address='"+functMAC+"'/><source dev='$pf' mode='bridge'/><model "+
				"type='virtio'/></interface>"),
	},
}

// addresses has a guest try to change the address of each kind of NIC, with what the host can do about it.
func (s *scene) addresses(pci string) {
	s.Helper()
	host := fmt.Sprintf("set -e\npf=%s pci=%s xml=/run/device.xml address=\"domain='0x%s' bus='0x%s' slot='0x%s' "+
		"function='0x%s'\"\n",
		s.pf, pci, pci[:4], pci[5:7], pci[8:10], pci[11:])
	for _, a := range attempts {
		began := time.Now()
		s.Must(host + a.before + "\ndmesg -C")
		got := s.try(a)
		must.Hold(s, got.changes == a.changes && got.works == a.works,
			"%s: changes %v, works %v; expected %v and %v:\n%s", a.name, got.changes, got.works, a.changes, a.works,
			got.text)
		if log := s.Must("dmesg"); !strings.Contains(log, a.log) {
			s.Errorf("%s: the host's kernel does not say %q:\n%s", a.name, a.log, log)
		}
		s.Logf("%5.1f s  %s: changes %v, works %v", time.Since(began).Seconds(), a.name, got.changes, got.works)
	}
}

// outcome is what came of an attempt.
type outcome struct {
	changes, works bool
	text           string
}

// try gives a NIC of the guest another address, sees whether packets come and go with it, and gives it its own again,
// with which they must.
func (s *scene) try(a attempt) outcome {
	s.Helper()
	find := map[string]string{
		"function": "n=$(ls /sys/bus/pci/drivers/igbvf/*/net)\nn=${n##*:}\nset -- $n\nn=$1",
		"tap":      "n=eth0",
		"plugged":  "n=$(ls /sys/class/net | grep -v 'lo\\|eth0')",
	}[a.nic]
	own := `busybox ip link set $n up
[ $n = eth0 ] || busybox ip addr replace ` + functAddr + ` dev $n
reach() { for i in 1 2 3 4 5 6 7 8; do busybox ping -c 1 -W 1 ` + a.peer + ` >/dev/null && return 0; done; return 1; }
`
	must := func(script string) string {
		s.Helper()
		text, code := s.inside(tenant, find+"\n"+own+script)
		must.Need(s, code == 0, "%s: exit %d\n%s", a.name, code, text)
		return text
	}
	text := must(`reach || { echo "out of reach with its own address"; exit 3; }
echo "own $(cat /sys/class/net/$n/address)"
busybox ip link set $n address ` + otherMAC + `
echo "now $(cat /sys/class/net/$n/address)"
for i in 1 2 3; do busybox ping -c 1 -W 1 ` + a.peer + ` >/dev/null && echo works && exit 0; done; true`)
	changes := strings.Contains(text, "now "+otherMAC)
	if shown := s.Must("ip link show " + s.pf + " | grep 'vf 0 '"); a.nic == "function" &&
		strings.Contains(shown, otherMAC) != a.changes {
		s.Errorf("%s: the host shows %s", a.name, shown)
	}
	_, before, _ := strings.Cut(text, "own ")
	before, _, _ = strings.Cut(before, "\n")
	must("busybox ip link set $n address " + before + "\nreach || { echo out of reach with its own address again; " +
		"exit 3; }")
	return outcome{changes: changes, works: changes && strings.Contains(text, "works"), text: text}
}
