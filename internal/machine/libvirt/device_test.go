package libvirt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// pooledXML is a guest with an interface from a pool of functions, of which it runs with one, and with the two devices
// of a failover pair.
const pooledXML = `<domain type='kvm'>
  <name>pooled</name>
  <uuid>604803a9-c81f-45a7-839a-a6ab341a1fb0</uuid>
  <memory unit='KiB'>262144</memory>
  <vcpu placement='static'>1</vcpu>
  <devices>
    <interface type='network'>
      <mac address='52:54:00:aa:00:01'/>
      <source network='pool'/>
      <model type='virtio'/>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
    </interface>
    <interface type='bridge'>
      <mac address='52:54:00:aa:00:02'/>
      <source bridge='br0'/>
      <model type='virtio'/>
      <teaming type='persistent'/>
      <alias name='ua-backup0'/>
    </interface>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:aa:00:02'/>
      <source>
        <address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x3'/>
      </source>
      <teaming type='transient' persistent='ua-backup0'/>
    </interface>
  </devices>
</domain>
`

// pooledHost returns a host with that guest running, with the status file of libvirt 11.3.
func pooledHost(t *testing.T) *tree.Tree {
	live := strings.NewReplacer(
		"<domain type='kvm'>", "<domain type='kvm' id='1'>",
		"<source network='pool'/>", "<source network='pool' portid='2c5c8b9f-4c24-43c5-9dc8-4ac5a3a4f001'/>\n      "+
			"<actual type='hostdev' managed='yes'>\n"+
			"        <driver name='vfio'/>\n        <source>\n          <address type='pci' domain='0x0000' "+
			"bus='0x01' slot='0x10' function='0x1'/>\n          <origstates>\n            <unbind/>\n          "+
			"</origstates>\n        </source>\n      </actual>",
		"<address type='pci' domain='0x0000' bus='0x01' slot='0x00'", "<alias name='hostdev0'/>\n      <address "+
			"type='pci' domain='0x0000' bus='0x01' slot='0x00'",
		"<source bridge='br0'/>", "<source bridge='br0'/>\n      <target dev='vnet0'/>",
	).Replace(pooledXML)
	return treetest.Lines(t, map[string]string{
		"etc/libvirt/qemu/pooled.xml": pooledXML,
		"etc/libvirt/qemu/other.xml": strings.NewReplacer("pooled", "other", "604803a9", "704803a9", "function='0x3'",
			"function='0x1'").Replace(pooledXML),
		"run/libvirt/qemu/pooled.xml": "<domstatus state='running' reason='booted' pid='300'>\n" + live +
			"</domstatus>\n",
		"etc/libvirt/qemu/networks/pool.xml": "<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n\n<network>\n  " +
			"<name>pool</name>\n  <uuid>1d2a0d0e-0000-4000-8000-000000000001</uuid>\n" +
			"  <forward mode='hostdev' managed='yes'>\n    <pf dev='ens1f0'/>\n  </forward>\n</network>\n",
		"run/libvirt/network/pool.xml": "<networkstatus>\n  <network>\n    <name>pool</name>\n  " +
			"</network>\n</networkstatus>\n",
		"etc/libvirt/qemu/networks/default.xml": "<network>\n  <name>default</name>\n  " +
			"<uuid>1d2a0d0e-0000-4000-8000-000000000002</uuid>\n  <forward mode='nat'/>\n  <bridge name='virbr0' " +
			"stp='on' delay='0'/>\n</network>\n",
	})
}

func TestDevicesOfARunningGuest(t *testing.T) {
	m := pooledHost(t)
	all := Mechanisms(m, new(Definitions))
	for address, want := range map[string]string{
		"domain-device:pooled/interface/52:54:00:aa:00:01": "network=pool model=virtio",
		"domain-device:pooled/interface/52:54:00:aa:00:02@persistent": "bridge=br0 model=virtio teaming=persistent " +
			"alias=ua-backup0",
		"domain-device:pooled/interface/52:54:00:aa:00:02@transient": "hostdev pci=0000:01:10.3 managed=yes " +
			"teaming=transient:ua-backup0",
		"domain-device:pooled/interface/52:54:00:aa:00:09": "absent",
		"domain-device:pooled/hostdev/0000:01:10.7":        "absent",
		"domain-device:other/interface/52:54:00:aa:00:01":  "absent",
		"domain-device:nobody/hostdev/0000:01:10.7":        "absent",
		"domain-device:pooled/interface/52:54:00:aa:00:02": "unknown",
		"domain-device:pooled/vcpupin/0":                   "unknown",
		"domain:pooled/interface/52:54:00:aa:00:02@transient": "hostdev pci=0000:01:10.3 managed=yes " +
			"teaming=transient:ua-backup0",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		found := all.Read(t.Context(), a)
		must.Hold(t, found.String() == want, "%s is %s (%s), expected %s", address, found, found.Why, want)
		must.Equal(t, found.NoObject, a.Object() != "pooled", "%s: that the guest does not run is said", address)
		if found.State == setting.Known && !strings.Contains(found.Verbatim, "<interface") {
			t.Errorf("%s: it comes back as %q", address, found.Verbatim)
		}
		must.Refuse(t, all.Write(t.Context(), a, setting.Missing("")), "%s was written in a recorded tree", address)
	}
}

// TestFunctionsOfPools: an interface of a pool network runs with a function, which belongs to that guest even if other
// definitions have it.
func TestFunctionsOfPools(t *testing.T) {
	m := pooledHost(t)
	h := &facts.Host{VFs: []facts.VF{{PCI: "0000:01:10.1"}, {PCI: "0000:01:10.3"}, {PCI: "0000:01:10.5"}}}
	Inventory(t.Context(), m, h, new(Definitions))
	must.Hold(t, h.VFs[0].Guest == "pooled" && h.VFs[1].Guest == "pooled" && h.VFs[2].Guest == "",
		"functions: %+v", h.VFs)
	for _, g := range h.Guests {
		first, third := g.Interfaces[0], g.Interfaces[2]
		switch g.Name {
		case "pooled":
			must.Hold(t, first.Function == "0000:01:10.1" && first.Source == "pool" &&
				third.Function == "0000:01:10.3" && third.Teaming == "transient" &&
				g.Interfaces[1].Alias == "ua-backup0", "interfaces: %+v", g.Interfaces)
			must.Hold(t, len(g.Functions) == 2 && len(g.Plugged) == 0 && len(g.Pending) == 0 &&
				g.Interfaces[1].Tap == "vnet0" && third.Tap == "", "%+v", g)
		case "other":
			must.Hold(t, first.Function == "" && len(g.Functions) == 0,
				"interfaces of a guest that is off: %+v", g.Interfaces)
		}
	}
}

func TestNetworksOfLibvirt(t *testing.T) {
	m := pooledHost(t)
	all := Mechanisms(m, new(Definitions))
	for address, want := range map[string]string{
		"virt-network:pool/definition": "hostdev pf=ens1f0 managed=yes",
		"virt-network:pool/active":     "yes",
		"virt-network:pool/autostart":  "no",
		"virt-network:default/definition": "<network><forward mode='nat'/><bridge name='virbr0' stp='on' " +
			"delay='0'/></network>",
		"virt-network:default/active":  "no",
		"virt-network:none/definition": "absent",
		"virt-network:none/active":     "no",
		"virt-network:pool/bridge":     "unknown",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		if found := all.Read(t.Context(), a); found.String() != want || found.NoObject {
			t.Errorf("%s is %s (%s), expected %s", address, found, found.Why, want)
		}
		must.Refuse(t, all.Write(t.Context(), a, setting.Value("yes")), "%s was written in a recorded tree", address)
	}
	err := virtNetworks{m}.checkUnused(t.Context(), "pool")
	must.Say(t, err, "running guests: pooled", "a network in use")
	must.Succeed(t, (virtNetworks{m}).checkUnused(t.Context(), "default"), "a network that nobody uses")
}

// handed is a libvirt of a recorded tree that records which devices it is asked to plug and unplug.
type handed struct {
	driver
	does  func(command, text string) error
	asked []string
}

func (h *handed) device(_ context.Context, command, guest, text string) error {
	h.asked = append(h.asked, command+" "+guest+" "+text)
	return h.does(command, text)
}

// TestUnplugWaits until the guest has released a device, and reports if it does not.
func TestUnplugWaits(t *testing.T) {
	const status = "run/libvirt/qemu/pooled.xml"
	a := setting.Of(setting.DomainDevice, "pooled", "interface/52:54:00:aa:00:02@transient")
	for name, c := range map[string]struct {
		does    func(m *tree.Tree) error
		problem string
		doubt   bool
	}{
		"let go a moment later": {does: func(m *tree.Tree) error {
			text, err := m.Read(status)
			from, to := strings.LastIndex(text, "    <interface"), strings.LastIndex(text, "  </devices>")
			time.AfterFunc(2*poll/3, func() {
				_ = os.WriteFile(filepath.Join(m.Path, status), []byte(text[:from]+text[to:]), 0o600)
			})
			return err
		}},
		"shut down meanwhile": {does: func(m *tree.Tree) error { return os.Remove(filepath.Join(m.Path, status)) }},
		"kept": {does: func(*tree.Tree) error { return nil }, problem: "still has it after 900ms",
			doubt: true},
		"refused": {does: func(*tree.Tree) error { return errors.New("device not found") },
			problem: "device not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pooledHost(t)
			v := &handed{driver: libvirtFiles{m}, does: func(string, string) error { return c.does(m) }}
			err := devices{m, 3 * poll}.unplug(t.Context(), v, a)
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) ||
				errors.Is(err, setting.ErrInDoubt) != c.doubt {
				t.Errorf("%v, expected %q", err, c.problem)
			}
			must.Hold(t, len(v.asked) == 1 &&
				strings.HasPrefix(v.asked[0], "detach-device pooled <interface type='hostdev' "+"managed='yes'>") &&
				strings.Contains(v.asked[0], "function='0x3'"), "libvirt was asked %q", v.asked)
		})
	}
	m := pooledHost(t)
	text := must.Get(m.Read(status))(t)
	must.Do(t, os.WriteFile(filepath.Join(m.Path, status),
		[]byte(strings.Replace(text, "state='running'", "state='paused'", 1)), 0o600))
	v := &handed{driver: libvirtFiles{m}}
	if err := (devices{m, time.Second}).unplug(t.Context(), v, a); err == nil ||
		!strings.Contains(err.Error(), "is paused") || len(v.asked) != 0 {
		t.Errorf("of a paused guest: %v, asked %q", err, v.asked)
	}
}

// TestPlugFindsAnotherPlace if the former address in the guest is taken.
func TestPlugFindsAnotherPlace(t *testing.T) {
	m := pooledHost(t)
	const status = "run/libvirt/qemu/pooled.xml"
	a := setting.Of(setting.DomainDevice, "pooled", "hostdev/0000:01:10.5")
	const element = "<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x0000' bus='0x01' " +
		"slot='0x10' function='0x5'/></source>"
	was := setting.Value("managed")
	was.Verbatim = "0 " + element + "<address type='pci' domain='0x0000' bus='0x07' slot='0x00' " +
		"function='0x0'/></hostdev>"
	v := &handed{driver: libvirtFiles{m}}
	v.does = func(_, text string) error {
		if strings.Contains(text, "bus='0x07'") {
			return errors.New("Attempted double use of PCI Address 0000:07:00.0")
		}
		now, err := m.Read(status)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(m.Path, status),
			[]byte(strings.Replace(now, "  </devices>", text+"\n  </devices>", 1)), 0o600)
	}
	doc := must.Get(runningDocument(t.Context(), m, "pooled"))(t)
	text, err := doc.Device(a.Rest(), was.Value, was.Verbatim)
	must.Need(t, err == nil && text == was.Verbatim[2:], "%v: %s", err, text)
	if err := (devices{m, time.Second}).plug(t.Context(), v, a, text, was); err != nil || len(v.asked) != 2 {
		t.Errorf("%v, libvirt was asked %q", err, v.asked)
	}
	must.Equal(t, Mechanisms(m, new(Definitions)).Read(t.Context(), a).String(), "managed", "it runs with")
}
