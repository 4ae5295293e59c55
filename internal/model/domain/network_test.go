package domain

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

const poolXML = `<network>
  <name>pool</name>
  <uuid>1d2a0d0e-0000-4000-8000-000000000001</uuid>
  <forward mode='hostdev' managed='yes'>
    <pf dev='ens1f0'/>
  </forward>
  <vlan>
    <tag id='7'/>
  </vlan>
</network>
`

func TestNetworkValues(t *testing.T) {
	for text, want := range map[string]string{
		poolXML: "hostdev pf=ens1f0 managed=yes vlan=7",
		"<!--\n<network> is what follows\n-->\n" + poolXML:                                           "hostdev pf=ens1f0 managed=yes vlan=7",
		"<networkstatus><floor sum='0'/>" + poolXML + "</networkstatus>":                             "hostdev pf=ens1f0 managed=yes vlan=7",
		networkText("a b", "", "hostdev functions=0000:01:10.0,0000:01:10.2 managed=no driver=vfio"): "hostdev functions=0000:01:10.0,0000:01:10.2 managed=no driver=vfio",
		strings.Replace(poolXML, "<pf dev='ens1f0'/>", "<pf dev='ens1f0'/><!-- a note -->",
			1): "hostdev pf=ens1f0 managed=yes vlan=7",
		"<network><name>n</name><forward mode='bridge'/><bridge name='br0'/></network>": "<network><forward mode='bridge'/><bridge name='br0'/></network>",
		strings.Replace(poolXML, "  <vlan>", "  <portgroup name='x'/>\n  <vlan>",
			1): "<network><forward mode='hostdev' managed='yes'><pf dev='ens1f0'/></forward><portgroup " +
			"name='x'/><vlan><tag id='7'/></vlan></network>",
		strings.Replace(poolXML, "<tag id='7'/>", "<tag id='7'/><tag id='8'/>",
			1): "<network><forward mode='hostdev' managed='yes'><pf dev='ens1f0'/></forward><vlan><tag id='7'/><tag " +
			"id='8'/></vlan></network>",
		"<domain/>": "",
	} {
		got, verbatim, err := NetworkValue(text)
		if (err != nil) != (want == "") || got != want {
			t.Errorf("%s\nreads %q (%v), expected %q", text, got, err, want)
			continue
		}
		if want == "" {
			continue
		}
		if again, err := CanonNetwork(got); again != got || err != nil {
			t.Errorf("%q becomes %q (%v)", got, again, err)
		}
		e := must.Get(network(text))(t)
		if back, err := NetworkXML(e.first("name").text(), "", got, verbatim); err != nil ||
			strings.TrimSpace(back) != strings.TrimSpace(networkElement(text)) {
			t.Errorf("comes back as (%v)\n%s", err, back)
		}
	}
}

func TestNetworkXML(t *testing.T) {
	pool := NetworkPool{Name: "pool", PF: "ens1f0", Managed: true, VLAN: 7}
	got, err := NetworkXML(pool.Name, "1d2a0d0e-0000-4000-8000-000000000001", pool.Value(), "")
	if err != nil || got != poolXML {
		t.Errorf("%v\n%s", err, lineDiff(poolXML, got))
	}
	must.Hold(t, NetworkUUID(got) == "1d2a0d0e-0000-4000-8000-000000000001" && NetworkUUID("<x/>") == "",
		"the UUID is another")
	if got, err := NetworkXML("other", "", pool.Value(), poolXML); err != nil || strings.Contains(got, "uuid") ||
		!strings.Contains(got, "<name>other</name>") {
		t.Errorf("the text of another network is taken (%v):\n%s", err, got)
	}
	for _, bad := range []string{
		"", "hostdev", "hostdev managed=yes", "hostdev pf=a functions=0000:01:10.0", "hostdev pf=a vlan=0",
		"hostdev pf=a vlan=4095", "hostdev pf=a pf=b",
		"hostdev functions=1", "hostdev pf=a managed=maybe", "hostdev pf=a x=y", "bridge pf=a",
		"<network><forward mode='nat'/></network>", "<domain/>", "<network>",
	} {
		if got, err := NetworkXML("n", "", bad, ""); err == nil {
			t.Errorf("%q was taken:\n%s", bad, got)
		}
	}
	listed := NetworkPool{Functions: []string{"1:10.0", "0000:01:10.2"}}
	must.Equal(t, listed.Value(), "hostdev functions=0000:01:10.0,0000:01:10.2 managed=no", "a list has the value")
}

// TestNetworksAreValid by libvirt's own schema.
func TestNetworksAreValid(t *testing.T) {
	libvirtSchema(t)
	for _, pool := range []NetworkPool{{Name: "a", PF: "ens1f0"}, {Name: "b<&>", PF: "e", Managed: true, VLAN: 9},
		{Name: "c", Functions: []string{"0000:01:10.0", "10001:0a:1f.7"}}} {
		text := must.Get(NetworkXML(pool.Name, "", pool.Value(), ""))(t)
		file := filepath.Join(t.TempDir(), "network.xml")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		schema := filepath.Join(filepath.Dir(schemaFile), "network.rng")
		if out, err := exec.Command("xmllint", "--noout", "--relaxng", schema, file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, out, text)
		}
	}
}

// FuzzNetwork: any text as a network. What is read is one line that is its own canonical form.
func FuzzNetwork(f *testing.F) {
	f.Add(poolXML)
	f.Add("hostdev functions=0000:01:10.0 managed=no vlan=3")
	f.Fuzz(func(t *testing.T, text string) {
		value, _, err := NetworkValue(text)
		if err != nil {
			if value, err = CanonNetwork(text); err != nil {
				return
			}
		}
		again, err := CanonNetwork(value)
		must.Need(t, err == nil && again == value, "%q becomes %q (%v)", value, again, err)
		must.Need(t, strings.Join(strings.Fields(value), " ") == value, "%q is not one line of words", value)
	})
}

// TestNamesOutsideXML: XML has no spelling for most control characters, so a name with one is refused before it is
// written into a definition.
func TestNamesOutsideXML(t *testing.T) {
	for _, name := range []string{"%00", "br%01", "br%1f", "%ef%bf%bf", "br%ff"} {
		if got, ok := canonNIC("bridge=" + name + " model=virtio"); ok {
			t.Errorf("bridge %s is %q", name, got)
		}
		if got, err := CanonNetwork("hostdev pf=" + name); err == nil {
			t.Errorf("pf %s is %q", name, got)
		}
		if got, err := NetworkXML(unescapeWord(name), "", "hostdev pf=eth0", ""); err == nil {
			t.Errorf("network %s is %q", name, got)
		}
	}
	if got, ok := canonNIC("bridge=br%09%0a%e4%b8%ad model=virtio"); !ok {
		t.Errorf("a name that XML can hold is refused: %q", got)
	}
}
