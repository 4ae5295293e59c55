package making

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/measure/traffic/engine"
	"mpps/internal/model/domain"
	"mpps/internal/must"
)

// TestServer: a guest gets an engine's server under the name that it is started by, also where that is a link.
func TestServer(t *testing.T) {
	must.Do(t, Server(""))
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	must.Refuse(t, Server(engine.Netperf), "a host without netserver was accepted")
	must.Do(t, os.Symlink("/bin/sh", filepath.Join(dir, "netserver")))
	must.Do(t, Server(engine.Netperf))
	must.Equal(t, strings.Join(must.Get(serversOf(engine.Netperf))(t), " "), dir[1:]+"/netserver", "server")
}

// TestDefine: each guest of a run has its own MAC address and UUID, and the run's mark, by which the next run knows it.
func TestDefine(t *testing.T) {
	const run = "0123456789abcdef"
	r := &Room{run: run, dir: t.TempDir()}
	random := []byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}
	var uuids, macs []string
	for i, g := range []Guest{{Name: "mpps-e1000", Model: "e1000"}, {Name: "mpps-virtio", Model: "virtio", Driver: "qemu"},
		{Name: "mpps-vhost", Model: "virtio", Driver: "vhost"}} {
		g.Bridge, g.Address, g.VCPUs, g.Memory = "br0", "10.0.0.9/24", 2, 512<<20
		file, uuid, err := r.define(g, random, i)
		must.Do(t, err)
		doc := must.Get(domain.Parse(must.Get(os.ReadFile(file))(t)))(t)
		found := doc.Guest()
		n := found.Interfaces[0]
		if found.UUID != uuid || found.Name != g.Name || found.MemoryKiB != 512<<10 || n.Model != g.Model ||
			n.Source != "br0" || g.Driver != "" && n.Driver.Name != g.Driver {
			t.Errorf("%+v became %+v", g, found)
		}
		must.Hold(t, slices.ContainsFunc(found.Marks, markOf(run).SameAs) &&
			!slices.ContainsFunc(found.Marks, markOf("fedcba9876543210").SameAs), "marks %+v", found.Marks)
		if want := "mpps.addr=" + n.MAC + "=10.0.0.9/24"; !strings.Contains(doc.String(), want) {
			t.Errorf("the kernel is not told %s:\n%s", want, doc)
		}
		uuids, macs = append(uuids, uuid), append(macs, n.MAC)
	}
	for _, all := range [][]string{uuids, macs} {
		if slices.Sort(all); len(slices.Compact(all)) != 3 {
			t.Errorf("two guests share one of %q", all)
		}
	}
}

// TestUnpack: a packed module is what it was before, and what cannot be unpacked is said.
func TestUnpack(t *testing.T) {
	m := must.Get(tree.Open("/"))(t)
	defer m.Close()
	const content = "\x7fELF a module\x00\xff"
	dir := t.TempDir()
	plain := filepath.Join(dir, "a.ko")
	must.Do(t, os.WriteFile(plain, []byte(content), 0o600))
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	must.Get(z.Write([]byte(content)))(t)
	must.Do(t, z.Close())
	must.Do(t, os.WriteFile(plain+".gz", gz.Bytes(), 0o600))
	packed := []string{plain + ".gz"}
	for ending, program := range map[string]string{".xz": "xz", ".zst": "zstd"} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		must.Do(t, exec.Command(program, "-qk", plain).Run())
		packed = append(packed, plain+ending)
	}
	for _, file := range packed {
		if got, err := unpack(t.Context(), m, file); got != content || err != nil {
			t.Errorf("%s: %q, %v", filepath.Base(file), got, err)
		}
	}
	broken := filepath.Join(dir, "b.ko.gz")
	must.Do(t, os.WriteFile(broken, []byte("no gzip"), 0o600))
	for _, file := range []string{broken, plain + ".lz9", filepath.Join(dir, "none.gz")} {
		must.Fail(unpack(t.Context(), m, file))(t, "%s was unpacked", filepath.Base(file))
	}
}
