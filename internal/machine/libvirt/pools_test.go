package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// Networks in the files of libvirt 11.3: an active one with autostart on a whole PF, one with listed functions, a
// bridge, and a transient one.
func TestPools(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"etc/libvirt/qemu/networks/fast.xml": `<!--
WARNING: THIS IS AN AUTO-GENERATED FILE.
-->

<network>
  <name>fast</name>
  <uuid>1d2a0d0e-0000-4000-8000-000000000001</uuid>
  <forward mode='hostdev' managed='yes'>
    <pf dev='ens1f0'/>
  </forward>
</network>`,
		"etc/libvirt/qemu/networks/listed.xml": `<network><name>listed</name><forward mode='hostdev' managed='no'>
    <driver name='vfio'/>
    <address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x1'/>
    <address type='pci' domain='0x0000' bus='0x01' slot='0x1f' function='0x7'/>
  </forward></network>`,
		"etc/libvirt/qemu/networks/default.xml": `<network><name>default</name><forward mode='nat'/><bridge name='virbr0'/></network>`,
		"run/libvirt/network/fast.xml":          `<networkstatus><class_id bitmap='0-2'/><network><name>fast</name></network></networkstatus>`,
		"run/libvirt/network/passing.xml": `<networkstatus>
  <class_id bitmap='0-2'/>
  <floor sum='0'/>
  <network>
    <name>passing</name>
    <forward mode='hostdev' managed='yes'>
      <pf dev='ens1f1'/>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x2'/>
    </forward>
  </network>
</networkstatus>`,
		"etc/libvirt/qemu/networks/broken.xml": `<network><name>`,
	} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "etc/libvirt/qemu/networks/autostart"), 0o755))
	must.Do(t, os.Symlink("/etc/libvirt/qemu/networks/fast.xml",
		filepath.Join(dir, "etc/libvirt/qemu/networks/autostart/fast.xml")))
	m := must.Get(tree.Open(dir))(t)
	defer m.Close()
	var h facts.Host
	Pools(context.Background(), m, &h)
	want := []facts.Pool{
		{Network: "fast", PF: "ens1f0", Managed: true, Active: true, Autostart: true},
		{Network: "listed", Functions: []string{"0000:01:10.1", "0000:01:1f.7"}},
		{Network: "passing", PF: "ens1f1", Managed: true, Active: true},
	}
	must.Hold(t, reflect.DeepEqual(h.Pools, want), "found %+v", h.Pools)
	must.Hold(t, len(h.Unseen) == 1 && h.Unseen[0].What == "network broken of libvirt", "unseen %+v", h.Unseen)
	if h.PoolOf(&facts.VF{PF: "ens1f9", PCI: "0000:01:1f.7"}).Network != "listed" ||
		h.PoolOf(&facts.VF{PF: "ens1f9", PCI: "0000:01:1f.6"}) != nil ||
		h.PoolOf(&facts.VF{PF: "ens1f0", PCI: "0000:01:10.0"}).Network != "fast" {
		t.Error("functions are taken for those of other pools")
	}
}
