package vf

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// pciTree returns pfTree with its functions in /sys/bus/pci/devices.
func pciTree() map[string]string {
	files := pfTree("igb", 7, 3)
	for i := range 3 {
		files[pciDevices+"/"+functionAddress(i)] = "-> ../../../devices/pci0000:00/" + functionAddress(i)
		files["sys/devices/pci0000:00/"+functionAddress(i)+"/driver_override"] = "(null)\n"
	}
	return files
}

func TestDriverOfADevice(t *testing.T) {
	files := pciTree()
	files["sys/devices/pci0000:00/"+functionAddress(1)+"/driver_override"] = "vfio-pci\n"
	delete(files, "sys/devices/pci0000:00/"+functionAddress(2)+"/driver")
	m := treetest.Recorded(t, files)
	all := Mechanisms(m)
	for pci, want := range map[string]string{functionAddress(0): "igbvf", functionAddress(1): "igbvf override:vfio-pci",
		functionAddress(2): "none"} {
		a := setting.Of(setting.PCIDriver, pci)
		found := all.Read(t.Context(), a)
		canonical, err := setting.Kinds[setting.PCIDriver].Canonical(found.Value)
		must.Hold(t, found.State == setting.Known && found.Value == want && err == nil && canonical == want,
			"%s: %+v, expected %s (%v)", a, found, want, err)
	}
	for _, pci := range []string{"0000:01:10.7", "../../../proc", "igb"} {
		if found := all.Read(t.Context(), setting.Of(setting.PCIDriver, pci)); !found.NoObject {
			t.Errorf("%s: %+v", pci, found)
		}
	}
}

// TestWhoHasADevice: a device in use is neither unbound nor reset.
func TestWhoHasADevice(t *testing.T) {
	for who, more := range map[string]map[string]string{
		"":                              {},
		"dpdk (process 78) has it open": {"proc/78/comm": "dpdk\n", "proc/78/fd/9": "-> /dev/vfio/20"},
		"dpdk (process 79) has it open": {
			"proc/79/comm": "dpdk\n", "proc/79/fd/9": "-> /dev/uio4", "sys/devices/pci0000:00/" + functionAddress(0) +
				"/uio/uio4/name": "igb_uio\n",
		},
		"qemu (process 80) has it open": { // vDPA: the function keeps its driver
			"proc/80/comm": "qemu\n", "proc/80/fd/9": "-> /dev/vhost-vdpa-3", "sys/devices/pci0000:00/" +
				functionAddress(0) + "/vdpa0/vhost-vdpa-3/dev": "511:3\n",
		},
		"what guest fw2 runs with cannot be determined: ": {"run/libvirt/qemu/fw2.xml": "<domstatus state='running' " +
			"reason='booted' pid='9'><domain type='kvm' id='1'><name>fw2</domain></domstatus>"},
		"its interface eth0v0 is up: take it down first": {"sys/devices/pci0000:00/" + functionAddress(0) +
			"/net/eth0v0/flags": "0x1003\n"},
		"guest fw1 runs with it": {"run/libvirt/qemu/fw1.xml": "<domstatus state='running' reason='booted' " +
			"pid='9'><domain type='kvm' id='1'><name>fw1</name><devices><hostdev mode='subsystem' type='pci' " +
			"managed='yes'><source><address domain='0x0000' bus='0x01' slot='0x10' " +
			"function='0x0'/></source></hostdev></devices></domain></domstatus>"},
	} {
		files := pciTree()
		maps.Copy(files, more)
		m := treetest.Recorded(t, files)
		got := deviceUser(m, functionAddress(0))
		if unknown := strings.HasPrefix(who, "what guest"); unknown && strings.HasPrefix(got, who) {
			continue // it may be any function
		} else if unknown || got != who {
			t.Errorf("%q has it, expected %q", got, who)
		}
		must.Equal(t, deviceUser(m, functionAddress(1)), "", "another one")
		err := rebind(t.Context(), m, functionAddress(0), "vfio-pci", "")
		if err == nil || who != "" && err.Error() != who {
			t.Errorf("taken from its driver: %v, expected %q", err, who)
		}
		if done := ResetFunction(t.Context(), m, functionAddress(0)); !strings.Contains(done.Why,
			tree.ErrNotLive.Error()) {
			t.Errorf("a recorded function was reset: %+v", done)
		}
	}
}

// TestInAnotherNamespace: a VF whose interface is in a container is reported, and neither its driver nor the number of
// VFs is changed.
func TestInAnotherNamespace(t *testing.T) {
	files := pciTree()
	dir := "sys/devices/pci0000:00/" + functionAddress(1)
	delete(files, dir+"/net/eth0v1/ifindex")
	delete(files, "sys/class/net/eth0v1")
	files[dir+"/net/"] = ""
	bound := "sys/devices/pci0000:00/" + functionAddress(2)
	delete(files, bound+"/net/eth0v2/ifindex") // its driver makes no interface: there is no directory either
	m := treetest.Recorded(t, files)
	pf := facts.NIC{Name: "eth0", Driver: "igb", SRIOV: &facts.SRIOV{Enabled: 3}}
	for i, f := range link.FunctionsOf(m, &facts.Host{}, pf, nil) {
		if want := map[int]string{1: facts.OtherNamespace}[i]; f.Holder != want || f.Elsewhere != (want != "") {
			t.Errorf("function %d is held by %q, expected %q", i, f.Holder, want)
		}
	}
	must.Say(t, rebind(t.Context(), m, functionAddress(1), "", ""), "container", "taken from its driver")
	var used *InUse
	if err := vfCountOf(m).make(t.Context(), countOfPF, 0); !errors.As(err, &used) || len(used.Uses) != 1 ||
		!strings.Contains(used.Uses[0], "container") {
		t.Errorf("taken away: %v", err)
	}
}

// TestHolders: processes that have a VF open and are not a running guest are reported; a VF with a network driver on
// the host has no holder.
func TestHolders(t *testing.T) {
	files := pciTree()
	maps.Copy(files, map[string]string{"proc/78/comm": "dpdk\n", "proc/78/fd/9": "-> /dev/vfio/20",
		"proc/78/fd/10": "-> /dev/vfio/21"})
	m := treetest.Recorded(t, files)
	h := &facts.Host{VFs: []facts.VF{
		{PCI: functionAddress(0), Driver: "vfio-pci"}, {PCI: functionAddress(1), Driver: "igbvf"},
		{PCI: functionAddress(2), Driver: "vfio-pci"},
	}}
	Holders(t.Context(), m, h)
	must.Hold(t, h.VFs[0].Holder == "dpdk (process 78)" && h.VFs[1].Holder+h.VFs[2].Holder == "", "%+v", h.VFs)
	h.Guests = []facts.Guest{{Name: "fw1", State: "running"}}
	h.VFs[0].Guest, h.VFs[0].Holder = "fw1", ""
	if Holders(t.Context(), m, h); h.VFs[0].Holder != "" {
		t.Errorf("a guest's own process is told: %+v", h.VFs[0])
	}
}
