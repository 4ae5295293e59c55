package domain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mpps/internal/must"
)

const pair = "52:54:00:6d:90:02"

// guestOf is a definition as libvirt writes it, with these devices.
func withDevices(devices string) string {
	return "<domain type='kvm'>\n  <name>vm1</name>\n  <vcpu placement='static'>2</vcpu>\n  <devices>\n" +
		"    <emulator>/usr/bin/qemu-system-x86_64</emulator>\n" + devices + "    <memballoon model='virtio'/>\n  " +
		"</devices>\n</domain>\n"
}

const (
	hostdevNIC = `    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:00:00:01'/>
      <source>
        <address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x0'/>
      </source>
      <vlan>
        <tag id='5'/>
      </vlan>
      <address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/>
    </interface>
`
	poolNIC = `    <interface type='network'>
      <mac address='52:54:00:00:00:02'/>
      <source network='pool'/>
      <model type='virtio'/>
      <address type='pci' domain='0x0000' bus='0x08' slot='0x00' function='0x0'/>
    </interface>
`
	standbyNIC = `    <interface type='bridge'>
      <mac address='52:54:00:6d:90:02'/>
      <source bridge='br0'/>
      <model type='virtio'/>
      <driver queues='2'/>
      <teaming type='persistent'/>
      <alias name='ua-backup0'/>
      <address type='pci' domain='0x0000' bus='0x09' slot='0x00' function='0x0'/>
    </interface>
`
	primaryNIC = `    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:6d:90:02'/>
      <source>
        <address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x2'/>
      </source>
      <teaming type='transient' persistent='ua-backup0'/>
      <address type='pci' domain='0x0000' bus='0x0a' slot='0x00' function='0x0'/>
    </interface>
`
	plainHostdev = `    <hostdev mode='subsystem' type='pci' managed='yes'>
      <driver name='vfio'/>
      <source>
        <address domain='0x0000' bus='0x01' slot='0x10' function='0x4'/>
      </source>
      <rom bar='off'/>
      <address type='pci' domain='0x0000' bus='0x0b' slot='0x00' function='0x0' multifunction='on'/>
    </hostdev>
`
)

// forms are the interfaces that can be made, the paths and values that they have, and how they stand in a definition.
var forms = []struct{ path, value, text string }{
	{"interface/52:54:00:00:00:01", HostdevInterface{PCI: "0000:01:10.0", Managed: true, VLAN: 5}.Value(), hostdevNIC},
	{"interface/52:54:00:00:00:02", NetworkInterface{Network: "pool"}.Value(), poolNIC},
	{"interface/" + pair + "@persistent", "bridge=br0 model=virtio queues=2 teaming=persistent alias=ua-backup0",
		standbyNIC},
	{"interface/" + pair + "@transient", "hostdev pci=0000:01:10.2 managed=yes teaming=transient:ua-backup0",
		primaryNIC},
}

func TestWholeInterfaces(t *testing.T) {
	d := parse(t, withDevices(""))
	var all strings.Builder
	for _, c := range forms {
		if err := d.Set(c.path, c.value); err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		all.WriteString(c.text)
	}
	// libvirt adds the places in the guest.
	want := withDevices(all.String())
	placed := parse(t, want)
	bare := want
	for _, line := range strings.SplitAfter(want, "\n") {
		if strings.HasPrefix(line, "      <address") {
			bare = strings.Replace(bare, line, "", 1)
		}
	}
	if d.String() != bare {
		t.Errorf("differs:\n%s", lineDiff(bare, d.String()))
	}
	for _, c := range forms {
		for name, doc := range map[string]*Doc{"made": d, "placed": placed} {
			if got, there, err := doc.Get(c.path); got != c.value || !there || err != nil {
				t.Errorf("%s: %s reads %q (%v)", name, c.path, got, err)
			}
		}
	}
	for i, want := range []string{
		"hostdev pci=0000:01:10.0 managed=yes vlan=5", "network=pool model=virtio",
		"bridge=br0 model=virtio queues=2 teaming=persistent alias=ua-backup0", "hostdev pci=0000:01:10.2 " +
			"managed=yes teaming=transient:ua-backup0",
	} {
		must.Equal(t, forms[i].value, want, "%s has the value", forms[i].path)
	}
}

// TestWholeElementsComeBack takes elements out of a definition and puts them back in another process: not one byte
// differs, the place in the guest and the order among their like least of all.
func TestWholeElementsComeBack(t *testing.T) {
	odd := strings.Replace(poolNIC, "<model type='virtio'/>", "<model type='virtio'/>\n      <bandwidth>\n        "+
		"<inbound  average='100'/><!-- slow -->\n      </bandwidth>", 1)
	text := withDevices(hostdevNIC + odd + standbyNIC + primaryNIC + plainHostdev)
	paths := []string{"hostdev/0000:01:10.4"}
	for _, c := range forms {
		paths = append(paths, c.path)
	}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := parse(t, text)
		type step struct{ path, value, verbatim string }
		var taken []step
		order := r.Perm(len(paths))
		for _, i := range order[:1+r.IntN(len(paths))] {
			path := paths[i]
			value, there, err := d.Get(path)
			must.Need(t, err == nil && there, "%s: %v", path, err)
			taken = append(taken, step{path, value, d.Verbatim(path)})
			must.Do(t, d.Restore(path, "", false))
			d = parse(t, d.String())
			if _, there, _ := d.Get(path); there {
				t.Fatalf("%s is still there", path)
			}
		}
		for len(taken) > 0 {
			s := taken[len(taken)-1]
			taken = taken[:len(taken)-1]
			if err := d.RestoreVerbatim(s.path, s.value, s.verbatim); err != nil {
				t.Fatalf("%s: %v", s.path, err)
			}
			if got, _, err := d.Get(s.path); got != s.value || err != nil {
				t.Errorf("%s came back as %q (%v), was %q", s.path, got, err, s.value)
			}
			d = parse(t, d.String())
		}
		if d.String() != text {
			t.Fatalf("seed %d differs:\n%s", seed, lineDiff(text, d.String()))
		}
	}
}

// TestWholeInterfaceAsXML: what there are no words for is read as XML on one line, which is its own canonical form, can
// be put back and not set.
func TestWholeInterfaceAsXML(t *testing.T) {
	odd := strings.Replace(poolNIC, "<model type='virtio'/>", "<model type='virtio'/>\n      <target dev='a  b&amp;'/>",
		1)
	d := parse(t, withDevices(odd))
	const path = "interface/52:54:00:00:00:02"
	want := "<interface type='network'><mac address='52:54:00:00:00:02'/><source network='pool'/><model " +
		"type='virtio'/><target dev='a &#32;b&amp;'/></interface>"
	got, _, err := d.Get(path)
	must.Need(t, got == want && err == nil, "reads %s (%v), expected %s", got, err, want)
	if again, ok := canonNIC(got); again != got || !ok {
		t.Errorf("its canonical form is %q", again)
	}
	must.Equal(t, strings.Join(strings.Fields(got), " "), got, "joining words changes it to")
	if err := d.Set(path, got); err == nil {
		must.Do(t, d.Delete(path))
		err = parse(t, d.String()).Set(path, got)
		must.Refuse(t, err, "XML was taken as a wanted value")
	}
	empty := parse(t, withDevices(""))
	must.Do(t, empty.Restore(path, got, true))
	if back, _, err := parse(t, empty.String()).Get(path); back != got || err != nil {
		t.Errorf("put back it reads %q (%v)", back, err)
	}
	must.Do(t, d.RestoreVerbatim(path, "network=pool model=virtio", "0 <interface type='bridge'/>"))
	if back, _, err := d.Get(path); back != "network=pool model=virtio" || err != nil {
		t.Errorf("a verbatim text of something else: it reads %q (%v)", back, err)
	}
}

func TestWholeInterfaceRefuses(t *testing.T) {
	d := parse(t, withDevices(hostdevNIC+standbyNIC+plainHostdev))
	before := d.String()
	for _, c := range []struct{ path, value, problem string }{
		{"interface/52:54:00:00:00:09", "hostdev managed=yes", "pci=ADDRESS"},
		{"interface/52:54:00:00:00:09", "hostdev pci=0000:01:10.0", "stands in this definition already"},
		{"interface/52:54:00:00:00:09", "hostdev pci=0000:01:10.4", "stands in this definition already"},
		{"interface/52:54:00:00:00:09", "hostdev pci=0000:01:10.7 vlan=4095", "1 to 4094"},
		{"interface/52:54:00:00:00:09", "hostdev pci=0000:01:10.7 model=virtio", "allowed"},
		{"interface/52:54:00:00:00:09", "hostdev pci=0000:01:10.7 driver=vhost", "driver=vfio"},
		{"interface/52:54:00:00:00:09", "bridge=br0", "model=virtio"},
		{"interface/52:54:00:00:00:09", "bridge=br0 model=e1000 queues=2", "only with model=virtio"},
		{"interface/52:54:00:00:00:09", "bridge=br0 model=virtio alias=net0", "ua-"},
		{"interface/52:54:00:00:00:09", "user model=virtio", "allowed"},
		{"interface/52:54:00:00:00:09", "bridge=br0 model=virtio alias=ua-backup0", "is named"},
		{"interface/52:54:00:00:00:09", "bridge=br0 model=virtio teaming=persistent alias=ua-b", "@persistent"},
		{"interface/52:54:00:00:00:09@persistent", "bridge=br0 model=virtio",
			"expected the path interface/52:54:00:00:00:09"},
		{"interface/52:54:00:00:00:09@persistent", "bridge=br0 model=virtio teaming=persistent", "alias=ua-NAME"},
		{"interface/52:54:00:00:00:09@transient", "hostdev pci=0000:01:10.7 teaming=transient:ua-none",
			"no interface with teaming=persistent"},
		{"interface/52:54:00:00:00:01@transient", "hostdev pci=0000:01:10.7 teaming=transient:ua-backup0",
			"has this MAC"},
		{"interface/" + pair, "hostdev pci=0000:01:10.7", "expected the path"},
		{"interface/01:00:5e:00:00:01", "hostdev pci=0000:01:10.7", "unicast"},
		{"interface/0", "hostdev pci=0000:01:10.7", "a MAC address"},
		{"interface/52:54:00:00:00:09@both", "hostdev pci=0000:01:10.7", "@transient"},
	} {
		err := d.Set(c.path, c.value)
		if c.path == "interface/"+pair {
			must.Succeed(t, err, "%s: an interface may become another", c.path)
			must.Do(t, d.Restore(c.path, "", false))
			must.Do(t, d.Restore("interface/"+pair+"@persistent", forms[2].value, true))
			continue
		}
		if err == nil || !strings.Contains(fmt.Sprint(err, hint(err)), c.problem) {
			t.Errorf("%s = %s: %v (%s), expected %q", c.path, c.value, err, hint(err), c.problem)
		}
	}
	if d.String() != before {
		t.Errorf("differs:\n%s", lineDiff(before, d.String()))
	}
}

// TestHalvesOfAPair are distinguished in paths, whether one of them is there or both.
func TestHalvesOfAPair(t *testing.T) {
	both, one := parse(t, withDevices(standbyNIC+primaryNIC)), parse(t, withDevices(standbyNIC))
	const queues = "interface/" + pair + "@persistent/driver.queues"
	for name, d := range map[string]*Doc{"both": both, "one": one} {
		if v, _, err := d.Get(queues); v != "2" || err != nil {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
	if v, _, err := one.Get("interface/" + pair + "/driver.queues"); v != "2" || err != nil {
		t.Errorf("without the half: %q, %v", v, err)
	}
	if _, _, err := both.Get("interface/" + pair + "/driver.queues"); err == nil ||
		!strings.Contains(hint(err), "@persistent") {
		t.Errorf("either half was meant: %v (%s)", err, hint(err))
	}
	if n := both.Guest().Interfaces[1]; n.Path != "interface/"+pair+"@transient" || n.PCI != "0000:01:10.2" ||
		n.Persistent != "ua-backup0" {
		t.Errorf("%+v", n)
	}
	whole := "interface/" + pair + "@transient"
	var found []string
	for _, d := range Pending(one, both) {
		if !Within(d.Path, whole) && d.Path != "interface/1/mac" { // by its index: the address is its value
			t.Errorf("waits: %+v", d)
		}
		found = append(found, d.Path)
	}
	must.Hold(t, len(found) >= 3 && !Within(queues, whole) && Within(whole, whole) &&
		Within("interface/"+pair+"/vlan", "interface/"+pair) && !Within("vcpupin/0", "vcpupin"),
		"parts of %s: %v", whole, found)
}

func TestWholeInterfaceNeedsVersions(t *testing.T) {
	d := parse(t, withDevices(""))
	for _, c := range []struct{ value, libvirt, qemu, problem string }{
		{"bridge=br0 model=virtio teaming=persistent alias=ua-a", "6.0.0", "9.0", "libvirt 6.1.0"},
		{"bridge=br0 model=virtio teaming=persistent alias=ua-a", "11.3.0", "4.1", "QEMU 4.2"},
		{"bridge=br0 model=virtio teaming=persistent alias=ua-a", "6.1.0", "4.2", ""},
		{"bridge=br0 model=virtio vlan=5", "10.10.0", "9.0", "libvirt 11.0.0"},
		{"hostdev pci=0000:01:10.0 vlan=5", "10.10.0", "9.0", ""},
		{"bridge=br0 model=igb", "9.2.0", "9.0", "libvirt 9.3.0"},
		{"bridge=br0 model=virtio tx_queue_size=256", "3.6.0", "9.0", "libvirt 3.7.0"},
	} {
		err := d.CheckSupport("interface/52:54:00:00:00:01", c.value, Host{Libvirt: c.libvirt, QEMU: c.qemu})
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s with %s, %s: %v, expected %q", c.value, c.libvirt, c.qemu, err, c.problem)
		}
	}
}

func hint(err error) string {
	if h, is := err.(interface{ Hint() string }); is {
		return h.Hint()
	}
	return ""
}

// TestWholeInterfaceOfRunningGuest: what libvirt adds for the run is no part of the value.
func TestWholeInterfaceOfRunningGuest(t *testing.T) {
	live := strings.NewReplacer("function='0x0'/>\n      </source>", "function='0x0'/>\n        <origstates>\n          <unbind/>\n        </origstates>\n      </source>", "      <vlan>", "      <driver name='vfio'/>\n      <vlan>", "      <address type='pci' domain='0x0000' bus='0x07'",
		"      <alias name='hostdev0'/>\n      <address type='pci' domain='0x0000' bus='0x07'").Replace(hostdevNIC)
	fromPool := `    <interface type='network'>
      <mac address='52:54:00:00:00:02'/>
      <source network='pool' portid='2c5c8b9f-4c24-43c5-9dc8-4ac5a3a4f001'/>
      <actual type='hostdev' managed='yes'>
        <driver name='vfio'/>
        <source>
          <address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x6'/>
        </source>
      </actual>
      <model type='virtio'/>
      <alias name='hostdev1'/>
    </interface>
`
	d := must.Get(ParseLive([]byte(withDevices(live + fromPool))))(t)
	for i, path := range []string{"interface/52:54:00:00:00:01", "interface/52:54:00:00:00:02"} {
		if got, _, err := d.Get(path); got != forms[i].value || err != nil {
			t.Errorf("%s reads %q (%v), expected %q", path, got, err, forms[i].value)
		}
	}
	// Plugged in again it has its place in the guest, and nothing of the run.
	if got, want := d.Verbatim("interface/52:54:00:00:00:01"), "0 "+strings.TrimSpace(hostdevNIC); got != want {
		t.Errorf("differs:\n%s", lineDiff(want, got))
	}
	if got := d.Verbatim("interface/52:54:00:00:00:02"); strings.Contains(got, "actual") ||
		strings.Contains(got, "portid") || strings.Contains(got, "alias") {
		t.Errorf("comes back as\n%s", got)
	}
	if got := d.Element("interface/52:54:00:00:00:01"); !strings.Contains(got, "hostdev0") ||
		d.Element("interface/52:54:00:00:00:07") != "" {
		t.Errorf("stands there as\n%s", got)
	}
}

// FuzzWholeInterface: any text as a value of an interface. What is taken reads back in its canonical form, and what
// stood there comes back with its bytes.
func FuzzWholeInterface(f *testing.F) {
	for _, c := range forms {
		f.Add(c.path, c.value)
	}
	f.Add("interface/52:54:00:00:00:02", "<interface type='network'><mac address='52:54:00:00:00:02'/><x a=' &#9; "+
		"'>b</x></interface>")
	text := withDevices(hostdevNIC + poolNIC + standbyNIC + plainHostdev)
	f.Fuzz(func(t *testing.T, path, value string) {
		d := parse(t, text)
		if !strings.HasPrefix(path, "interface/") || strings.Count(path, "/") != 1 {
			return
		}
		old, had, err := d.Get(path)
		if err != nil {
			return
		}
		verbatim := d.Verbatim(path)
		canon, ok := canonNIC(value)
		if ok {
			if again, ok := canonNIC(canon); !ok || again != canon {
				t.Fatalf("%q becomes %q becomes %q", value, canon, again)
			}
			must.Need(t, strings.Join(strings.Fields(canon), " ") == canon, "%q is not one line of words", canon)
		}
		if err := d.Set(path, value); err != nil {
			must.Need(t, d.String() == text, "refused and changed")
			return
		}
		again := parse(t, d.String())
		if got, there, err := again.Get(path); got != canon || !there || err != nil {
			t.Fatalf("set to %q, reads %q (%v)", canon, got, err)
		}
		if err := restore(again, path, old, had, verbatim); err != nil || again.String() != text {
			t.Fatalf("does not come back (%v):\n%s", err, lineDiff(text, again.String()))
		}
	})
}
