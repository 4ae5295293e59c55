package domain

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mpps/internal/must"
)

// schemaFile is libvirt's own schema: in Debian's libvirt-common, before Debian 13 in libvirt0.
const schemaFile = "/usr/share/libvirt/schemas/domain.rng"

// libvirtSchema gives a check of a document against libvirt's own schema, as virt-xml-validate makes it. Where the
// schema is not installed the test is skipped, unless MPPS_LIBVIRT_SCHEMA=required says that it must be there (make
// test does).
func libvirtSchema(t *testing.T) func(name string, documents map[string][]byte) {
	t.Helper()
	lint, err := exec.LookPath("xmllint")
	if err == nil {
		_, err = os.Stat(schemaFile)
	}
	if err != nil {
		must.Need(t, os.Getenv("MPPS_LIBVIRT_SCHEMA") != "required",
			"libvirt's schema is not here: %v (scripts/deps test installs it)", err)
		t.Skipf("libvirt's schema is not here: %v (scripts/deps test installs it)", err)
	}
	return func(name string, documents map[string][]byte) {
		t.Helper()
		folder := t.TempDir()
		args := []string{"--noout", "--relaxng", schemaFile}
		for at, text := range documents {
			file := filepath.Join(folder, strings.NewReplacer("/", "_", " ", "_").Replace(at)+".xml")
			must.Do(t, os.WriteFile(file, text, 0o600))
			args = append(args, file)
		}
		var given bytes.Buffer
		cmd := exec.Command(lint, args...)
		cmd.Stderr = &given
		if err := cmd.Run(); err != nil {
			var lines []string
			for line := range strings.Lines(given.String()) {
				if !strings.HasSuffix(line, " validates\n") {
					lines = append(lines, strings.ReplaceAll(line, folder+"/", ""))
				}
			}
			t.Errorf("%s: not valid by libvirt's schema (%v):\n%s", name, err, strings.Join(lines[:min(len(lines), 20)],
				""))
		}
	}
}

// installed is the version of the libvirt whose schema is asked.
var installed = sync.OnceValues(func() (string, error) {
	text, err := exec.Command("virsh", "--version").Output()
	return strings.TrimSpace(string(text)), err
})

// newer tells what the installed libvirt does not have yet.
func newer(t *testing.T, path, value string) bool {
	t.Helper()
	version := must.Get(installed())(t)
	return parse(t, "<domain/>").CheckSupport(strings.Replace(path, "*", "0", 1), value, Host{Libvirt: version}) != nil
}

// written are the samples that libvirt would take: those by hand are odd on purpose.
func written(t *testing.T) map[string][]byte {
	out := map[string][]byte{}
	for name, text := range samples(t) {
		if !strings.HasPrefix(name, "hand-") {
			out[name] = bytes.ReplaceAll(text, []byte(" clusters='1'"), nil) // which libvirt before 10.1 does not know
		}
	}
	return out
}

// TestEditsAreValid sets every path of every sample, alone, and asks libvirt's schema.
func TestEditsAreValid(t *testing.T) {
	valid := libvirtSchema(t)
	for name, text := range written(t) {
		edited := map[string][]byte{"as it is": text}
		for path, values := range settable(parse(t, string(text))) {
			for i, v := range values {
				if r, _ := match(path); newer(t, r.path, v) {
					continue
				}
				d := parse(t, string(text))
				set(t, d, path, v)
				edited[path+" "+string(rune('a'+i))] = d.Bytes()
			}
		}
		valid(name, edited)
	}
}

// TestEditsTogetherAreValid sets all of them one after the other.
func TestEditsTogetherAreValid(t *testing.T) {
	valid := libvirtSchema(t)
	edited := map[string][]byte{}
	for name, text := range written(t) {
		d := parse(t, string(text))
		for path, values := range settable(d) {
			if r, _ := match(path); newer(t, r.path, values[0]) {
				continue
			}
			var value *ValueError
			var place *PathError
			if err := d.Set(path, values[0]); err != nil && !errors.As(err, &value) && !errors.As(err, &place) {
				t.Errorf("%s: %v", path, err)
			}
		}
		edited[name] = d.Bytes()
	}
	valid("all paths", edited)
}

// TestWholeInterfacesAreValid: the interfaces that can be made, together, and a failover pair out of a pool.
func TestWholeInterfacesAreValid(t *testing.T) {
	valid := libvirtSchema(t)
	d := parse(t, string(samples(t)["libvirt-bridge.xml"]))
	for _, c := range forms {
		set(t, d, c.path, c.value)
	}
	const other = "interface/52:54:00:6d:90:03"
	set(t, d, other+"@persistent", "bridge=br1 model=virtio teaming=persistent alias=ua-backup1")
	set(t, d, other+"@transient", "network=a%20b model=virtio vlan=9 teaming=transient:ua-backup1")
	set(t, d, "interface/52:54:00:00:00:42", "bridge=br0 model=virtio driver=vhost queues=4 rx_queue_size=1024 "+
		"tx_queue_size=256 mtu=9000 link=down boot=3 alias=ua-x")
	set(t, d, "hostdev/0000:3b:02.5", "managed")
	if v, _, err := parse(t, d.String()).Get(other + "@transient"); v != "network=a%20b model=virtio vlan=9 "+
		"teaming=transient:ua-backup1" || err != nil {
		t.Errorf("a network's name: %q, %v", v, err)
	}
	valid("whole interfaces", map[string][]byte{"all": d.Bytes()})
}

func TestRenderedIsValid(t *testing.T) {
	valid := libvirtSchema(t)
	documents := map[string][]byte{}
	for name, s := range descriptions {
		d, err := Render(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		documents[name] = d.Bytes()
	}
	valid("rendered", documents)
}

// TestLikeLibxml: what is well-formed to libvirt's own XML library is read, but for document types, and what is not is
// refused.
func TestLikeLibxml(t *testing.T) {
	libvirtSchema(t)
	for _, text := range samples(t) {
		check(t, string(text), true)
	}
	for _, text := range []string{"<domain>&#1;</domain>", "<domain><!-- a -- b --></domain>", "<domain>]]></domain>",
		"<domain a='<'/>",
		"<!DOCTYPE d [<!ENTITY a 'x' ]><domain/>",
		`<!DOCTYPE d [<!ENTITY a "&b;"><!ENTITY b "&a;">]><domain>&b;</domain>`, "<domain><a></domain>"} {
		check(t, text, false)
	}
}

func check(t *testing.T, text string, well bool) {
	t.Helper()
	cmd := exec.Command("xmllint", "--noout", "--nonet", "-")
	cmd.Stdin = strings.NewReader(text)
	lint := cmd.Run() == nil
	_, err := Parse([]byte(text))
	must.Hold(t, lint == well && (err == nil) == well,
		"%.120q: xmllint says %v, this %v, expected %v", text, lint, err, well)
}
