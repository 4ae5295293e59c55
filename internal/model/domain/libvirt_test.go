package domain

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mpps/internal/must"
)

// libvirtBase is a domain of libvirt's test driver, which needs no daemon and reads and writes definitions with the
// same code as all its drivers.
const libvirtBase = `<domain type='test'>
  <name>vm</name>
  <uuid>5cc1f39f-5aa5-44a6-a67f-63d212818894</uuid>
  <memory unit='KiB'>2097152</memory>
  <vcpu placement='static'>3</vcpu>
  <iothreads>2</iothreads>
  <os><type arch='x86_64'>hvm</type></os>
  <cpu mode='host-passthrough'>
    <numa>
      <cell id='0' cpus='0-1' memory='1048576' unit='KiB'/>
      <cell id='1' cpus='2' memory='1048576' unit='KiB'/>
    </numa>
  </cpu>
  <devices>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:01'/>
      <source bridge='br0'/>
      <model type='virtio'/>
    </interface>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:00:00:02'/>
      <source>
        <address type='pci' domain='0' bus='1' slot='16' function='0'/>
      </source>
    </interface>
    <interface type='vhostuser'>
      <mac address='52:54:00:00:00:03'/>
      <source type='unix' path='/s' mode='server'/>
      <model type='virtio'/>
    </interface>
  </devices>
</domain>
`

// stored gives what libvirt makes of a definition.
func stored(t *testing.T, text []byte) []byte { return storedAll(t, [][]byte{text})[0] }

// storedAll gives what libvirt makes of each of some definitions, by one start of virsh; nil where it refuses.
func storedAll(t *testing.T, texts [][]byte) [][]byte {
	t.Helper()
	const mark = "-- next --"
	folder, commands := t.TempDir(), ""
	for i, text := range texts {
		file := filepath.Join(folder, fmt.Sprintf("%d.xml", i))
		must.Do(t, os.WriteFile(file, text, 0o600))
		commands += "define " + file + "; dumpxml --inactive vm; undefine vm; echo '" + mark + "'; "
	}
	var given bytes.Buffer
	cmd := exec.Command("virsh", "-q", "-c", "test:///default", commands)
	cmd.Stderr = &given
	out, err := cmd.Output()
	out = testTarget.ReplaceAll(out, nil)
	parts := bytes.Split(out, []byte(mark))
	must.Need(t, len(parts) == len(texts)+1,
		"libvirt answered %d of %d (%v): %s", len(parts)-1, len(texts), err, given.String())
	must.Hold(t, given.Len() <= 0, "libvirt refuses: %s", given.String())
	var all [][]byte
	for _, part := range parts[:len(texts)] {
		at := bytes.Index(part, []byte("<domain"))
		end := bytes.LastIndex(part, []byte("</domain>"))
		if at < 0 || end < at {
			all = append(all, nil)
			continue
		}
		all = append(all, append(part[at:end:end], "</domain>\n"...))
	}
	return all
}

// testTarget is what the test driver gives an interface and the QEMU driver does not (src/test/test_driver.c).
var testTarget = regexp.MustCompile(`\n *<target dev='testnet[0-9]*'/>`)

// settled tells paths beside which libvirt writes its own default.
func settled(path string) bool {
	// mode='strict', mode='custom'; forgets the model
	return path == "numatune/memory.nodeset" || strings.HasPrefix(path, "features/hyperv") || path == "cpu/mode"
}

// TestAgainstLibvirt sets every path, has libvirt store it, and puts it back: as set, libvirt writes the same bytes;
// put back, it writes those that it wrote before.
func TestAgainstLibvirt(t *testing.T) {
	libvirtSchema(t)
	tried := 0
	for name, cpu := range map[string]string{
		"cells":  "", // as in libvirtBase
		"no CPU": "\n", "topology": "<cpu><topology sockets='1' cores='3' threads='1'/></cpu>",
		"model": "<cpu mode='host-model'/>",
		"custom": "<cpu mode='custom' match='exact'><model " +
			"fallback='forbid'>Skylake-Client</model><vendor>Intel</vendor><feature policy='require' " +
			"name='vmx'/></cpu>",
		"old": "<cpu match='minimum'><model>Nehalem</model></cpu>",
	} {
		text := libvirtBase
		if cpu != "" {
			from, to := strings.Index(text, "  <cpu mode"), strings.Index(text, "  <devices>")
			text = text[:from] + cpu + text[to:]
		}
		t.Run(name, func(t *testing.T) { tried += againstLibvirt(t, stored(t, []byte(text))) })
	}
	must.Hold(t, tried >= 400, "tried %d values, expected at least 400", tried)
}

// againstLibvirt tries every value of one domain, and counts them.
func againstLibvirt(t *testing.T, base []byte) int {
	type trial struct {
		path, value, old string
		had              bool
	}
	var trials []trial
	var texts [][]byte
	for path, values := range settable(parse(t, string(base))) {
		r, key := match(path)
		if r.steps[len(r.steps)-1].key == bySet && strings.Contains(key, "-") {
			continue // libvirt writes one for each thread
		}
		for _, v := range values {
			if newer(t, r.path, v) {
				continue
			}
			d := parse(t, string(base))
			old, had, err := d.Get(path)
			must.Do(t, err)
			set(t, d, path, v)
			trials, texts = append(trials, trial{path, v, old, had}), append(texts, d.Bytes())
		}
	}
	var back [][]byte
	for i, kept := range storedAll(t, texts) {
		x := trials[i]
		if kept == nil {
			t.Fatalf("libvirt refuses %s=%s", x.path, x.value)
		}
		d := parse(t, string(kept))
		if got, there, err := d.Get(x.path); got != x.value || !there || err != nil {
			t.Errorf("%s=%s: libvirt makes it %q %v (%v)", x.path, x.value, got, there, err)
		}
		if !settled(x.path) && !bytes.Equal(kept, texts[i]) {
			t.Errorf("%s=%s: libvirt writes it otherwise:\n%s", x.path, x.value,
				lineDiff(string(texts[i]), string(kept)))
		}
		must.Succeed(t, d.Restore(x.path, x.old, x.had), "%s", x.path)
		back = append(back, d.Bytes())
	}
	for i, kept := range storedAll(t, back) {
		if !bytes.Equal(kept, base) {
			t.Errorf("%s=%s and back: libvirt has\n%s", trials[i].path, trials[i].value,
				lineDiff(string(base), string(kept)))
		}
	}
	return len(trials)
}

// TestOneByOne makes edits as an apply does: one value, one definition that libvirt takes, in order; and takes them
// back in reverse. In the end libvirt has what it had.
func TestOneByOne(t *testing.T) {
	libvirtSchema(t)
	base := stored(t, []byte(libvirtBase))
	doc := parse(t, string(base))
	all := []Change{
		{Path: "interface/*/driver.name", Value: "vhost"}, {Path: "interface/*/driver.queues", Value: "3"},
		{Path: "cpu/cache.mode", Value: "passthrough"}, {Path: "cpu/migratable", Value: "off"},
		{Path: "memoryBacking/hugepages", Value: "1GiB"}, {Path: "emulatorpin", Value: "0-1"},
		{Path: "cpu/numa/cells", Value: "0:1GiB 1-2:1GiB"}, {Path: "hostdev/0000:02:00.0", Value: "managed"},
		{Path: "interface/1/source.pci", Value: "0000:01:10.2"}, {Path: "interface/1/vlan", Value: "7"},
	}
	for _, make := range []func() ([]Change, error){
		func() ([]Change, error) { return doc.PinChanges("vcpupin", "4-6") },
		func() ([]Change, error) { return doc.PinChanges("iothreadpin", "1=0") },
		func() ([]Change, error) { return doc.SchedChanges("vcpusched", "fifo:1") },
		func() ([]Change, error) { return doc.SchedChanges("iothreadsched", "2=batch") },
		func() ([]Change, error) { return NUMAChanges("preferred:0") },
		func() ([]Change, error) { return NUMAChanges("0=strict:0,1=preferred:1") },
		func() ([]Change, error) { return doc.HyperVChanges("on") },
	} {
		more := must.Get(make())(t)
		all = append(all, more...)
	}
	all = append(all, Change{Path: "interface/1/mac", Value: "52:54:00:00:00:aa"})
	edits := must.Get(doc.Apply(all, nil, Host{}))(t)
	now := base
	step := func(change func(d *Doc) error, e Edit, wanted string, there bool) {
		t.Helper()
		d := parse(t, string(now))
		must.Do(t, change(d))
		if now = stored(t, d.Bytes()); now == nil {
			t.Fatalf("at %+v", e)
		}
		if got, is, err := parse(t, string(now)).Get(e.Path); got != wanted || is != there || err != nil {
			t.Errorf("%s: libvirt has %q %v (%v), expected %q %v", e.Path, got, is, err, wanted, there)
		}
	}
	for _, e := range edits {
		step(func(d *Doc) error { return d.Set(e.Path, e.To) }, e, e.To, e.HasTo)
	}
	if got, want := parse(t, string(now)), doc; len(Diff(want, got)) > 1 { // features/hyperv.mode, which libvirt adds
		t.Errorf("one by one it is otherwise than at once: %+v", Diff(want, got))
	}
	for i := range edits {
		e := edits[len(edits)-1-i]
		step(func(d *Doc) error { return d.Restore(e.Path, e.From, e.HasFrom) }, e, e.From, e.HasFrom)
	}
	if !bytes.Equal(now, base) {
		t.Errorf("put back, libvirt has\n%s", lineDiff(string(base), string(now)))
	}
}

// TestLibvirtTakesRendered defines every rendered domain.
func TestLibvirtTakesRendered(t *testing.T) {
	libvirtSchema(t)
	for name, s := range descriptions {
		s.Name = "vm"
		d := must.Get(Render(s))(t)
		kept := stored(t, bytes.Replace(d.Bytes(), []byte("type='kvm'"), []byte("type='test'"), 1))
		if kept == nil {
			t.Error(name)
			continue
		}
		for _, x := range Diff(d, parse(t, string(kept))) {
			if x.HasFrom && !strings.HasSuffix(x.Path, "/mac") {
				t.Errorf("%s: libvirt makes %+v of it", name, x)
			}
		}
	}
}
