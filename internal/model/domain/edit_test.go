package domain

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// wanted gives, for every form of path, two values that Set takes and the keys to try.
var wanted = map[string][2]string{
	"memoryBacking/hugepages": {"1GiB", "2MiB@0 1GiB@1"}, "memoryBacking/nosharepages": {"yes", "yes"},
	"memoryBacking/locked": {"yes", "yes"}, "memoryBacking/source.type": {"memfd", "file"},
	"memoryBacking/access.mode": {"shared", "private"}, "memoryBacking/allocation.mode": {"immediate", "ondemand"},
	"vcpu.cpuset": {"1-3", "7"}, "vcpupin/*": {"5", "1,3-4"}, "emulatorpin": {"0-1", "15"}, "iothreadpin/*": {"1", "2"},
	"emulatorsched": {"fifo:1", "batch"}, "vcpusched/*": {"fifo:1", "rr:99"}, "iothreadsched/*": {"idle", "fifo:2"},
	"numatune/memory": {"strict:0", "preferred:0-1"}, "numatune/memnode/*": {"strict:0", "interleave:1"},
	"numatune/memory.mode": {"strict", "preferred"}, "numatune/memory.placement": {"static", "auto"},
	"numatune/memory.nodeset": {"0", "0-1"},
	"numatune/memnode/*.mode": {"strict", "interleave"}, "numatune/memnode/*.nodeset": {"0", "1"},
	"features/hyperv/*.state": {"on", "off"}, "features/kvm/*.state": {"on", "off"},
	"features/pmu.state": {"on", "off"},
	"cpu/mode":           {"host-passthrough", "host-model"}, "cpu/migratable": {"on", "off"},
	"cpu/cache.mode":       {"passthrough", "emulate"},
	"features/hyperv.mode": {"custom", "passthrough"}, "features/hyperv/spinlocks.retries": {"8191", "4095"},
	"features/hyperv/vendor_id.value": {"KVM", "libvirt-rule"}, "features/hyperv/stimer/direct.state": {"on", "on"},
	"features/hyperv/tlbflush/direct.state": {"on", "on"}, "features/hyperv/tlbflush/extended.state": {"on", "on"},
	"interface/*":     {"hostdev pci=0000:3b:02.1 managed=yes vlan=5", "network=pool model=virtio vlan=7"},
	"interface/*/mac": {"52:54:00:aa:00:01", "02:00:00:00:00:aa"}, "interface/*/managed": {"yes", "no"},
	"interface/*/source.pci": {"0000:01:10.0", "0001:0a:00.7"}, "hostdev/*": {"managed", "unmanaged"},
	"cpu/numa/cells": {"0-1:1GiB", "0:2GiB none:1GiB"}, "cpu/numa/cell/*.memAccess": {"shared", "private"},
	"clock/timer/*.present": {"no", "yes"}, "interface/*/vlan": {"42", "7"},
	"interface/*/model":       {"virtio", "virtio-non-transitional"},
	"interface/*/driver.name": {"vhost", "qemu"}, "interface/*/driver.queues": {"4", "256"},
	"interface/*/driver.rx_queue_size": {"1024", "512"}, "interface/*/driver.tx_queue_size": {"256", "256"},
	"interface/*/mtu": {"9000", "1500"}, "interface/*/coalesce.rx.frames.max": {"32", "64"},
}

// settable gives every path that can be set in a document, with two values for each.
func settable(d *Doc) map[string][2]string {
	out := map[string][2]string{}
	for _, form := range knownPaths() {
		values, ok := wanted[form]
		if !ok {
			continue
		}
		if kib := d.Guest().MemoryKiB; form == "cpu/numa/cells" && kib > 0 {
			values = [2]string{"0-1:" + formatKiB(kib), "0:" + formatKiB(kib/2) + " none:" + formatKiB(kib-kib/2)}
		}
		keys := []string{""}
		switch {
		case form == "interface/*/mac":
			keys = []string{"0", "1"}
		case strings.HasPrefix(form, "interface/"):
			if keys = d.interfaces().keys(); form == "interface/*" {
				keys = append(keys, "52:54:00:fe:00:01")
			}
		case strings.HasPrefix(form, "vcpusched/"), strings.HasPrefix(form, "iothreadsched/"):
			keys = []string{"0", "1", "0-1"}
		case strings.HasPrefix(form, "hostdev/"):
			keys = []string{"0000:3b:02.0", "0000:00:00.0"}
		case strings.HasPrefix(form, "clock/"):
			keys = []string{"kvmclock", "hpet", "tsc"}
		case strings.Contains(form, "hyperv"):
			keys = []string{"vapic", "synic"}
		case strings.Contains(form, "features/kvm"):
			keys = []string{"hidden", "poll-control"}
		case strings.Contains(form, "*"):
			keys = []string{"0", "1", "2"}
		}
		for _, k := range keys {
			path := strings.Replace(form, "*", k, 1)
			if _, err := d.Check(path, values[0]); err == nil {
				out[path] = taken(d, path, values)
			} else if _, err := d.Check(path, "vfio"); err == nil {
				out[path] = [2]string{"vfio", "vfio"}
			}
		}
	}
	return out
}

func TestEveryPathHasAValueToTry(t *testing.T) {
	for i := range rules {
		if _, ok := wanted[rules[i].path]; !ok && !rules[i].readOnly {
			t.Errorf("no values to try for %s", rules[i].path)
		}
	}
	reached := map[string]bool{}
	for _, text := range samples(t) {
		for path := range settable(parse(t, string(text))) {
			r, _ := match(path)
			reached[r.path] = true
		}
	}
	for form := range wanted {
		must.Hold(t, reached[form], "no sample reaches %s", form)
	}
}

// TestSetThenRestore sets each path alone, to each value, and puts it back.
func TestSetThenRestore(t *testing.T) {
	count := 0
	for name, text := range samples(t) {
		for path, values := range settable(parse(t, string(text))) {
			for _, v := range values {
				d := parse(t, string(text))
				old, had, err := d.Get(path)
				verbatim := d.Verbatim(path)
				must.Need(t, err == nil, "%s: %s: %v", name, path, err)
				set(t, d, path, v)
				changed := d.Bytes()
				again, err := Parse(changed)
				must.Need(t, err == nil, "%s: after %s=%s: %v\n%s", name, path, v, err, changed)
				for _, doc := range []*Doc{d, again} {
					if got, _, err := doc.Get(path); err != nil || got != v {
						t.Errorf("%s: %s reads %q after being set to %q (%v)", name, path, got, v, err)
					}
				}
				if had && old == v && !bytes.Equal(changed, text) {
					t.Errorf("%s: setting %s to what it is changed bytes", name, path)
				}
				if err := d.Restore(path, old, had); err != nil {
					t.Fatalf("%s: restore %s: %v", name, path, err)
				}
				if !bytes.Equal(d.Bytes(), text) {
					t.Errorf("%s: %s=%s and back differs:\n%s", name, path, v, lineDiff(string(text), d.String()))
				}
				// What libvirt wrote comes back even if another process does the restoring.
				if strings.HasPrefix(name, "libvirt-") || name == "routing-guest-tuned.xml" {
					if err := restore(again, path, old, had, verbatim); err != nil {
						t.Fatalf("%s: restore %s: %v", name, path, err)
					}
					// What libvirt adds beside a mode by itself goes with it.
					bare := strings.NewReplacer(" check='none' migratable='on'", "", " check='partial'", "")
					if !bytes.Equal(again.Bytes(), text) &&
						(path != "cpu/mode" || again.String() != bare.Replace(string(text))) {
						t.Errorf("%s: %s=%s, parse and back differs:\n%s", name, path, v,
							lineDiff(string(text), again.String()))
					}
				}
				count++
			}
		}
	}
	must.Hold(t, count >= 500, "tried %d edits, expected at least 500", count)
}

// restore puts back what was read, of a whole element with its bytes.
func restore(d *Doc, path, value string, had bool, verbatim string) error {
	if had && verbatim != "" {
		return d.RestoreVerbatim(path, value, verbatim)
	}
	return d.Restore(path, value, had)
}

// TestDeleteThenRestore takes each value that is there away and puts it back.
func TestDeleteThenRestore(t *testing.T) {
	for name, text := range samples(t) {
		for _, path := range parse(t, string(text)).Paths() {
			if r, _ := match(path); r.readOnly || strings.HasSuffix(path, "/managed") {
				continue
			}
			d := parse(t, string(text))
			old, _, err := d.Get(path)
			must.Do(t, err)
			must.Do(t, d.Delete(path))
			if _, there, _ := d.Get(path); there || bytes.Equal(d.Bytes(), text) {
				t.Errorf("%s: %s is still there", name, path)
			}
			must.Pass(Parse(d.Bytes()))(t, "%s: without %s", name, path)
			must.Do(t, d.Restore(path, old, true))
			if !bytes.Equal(d.Bytes(), text) {
				t.Errorf("%s: %s deleted and back differs:\n%s", name, path, lineDiff(string(text), d.String()))
			}
		}
	}
}

// TestManyEditsInAnyOrder sets many paths and puts them back in another order.
func TestManyEditsInAnyOrder(t *testing.T) {
	for name, text := range samples(t) {
		for seed := range uint64(40) {
			if msg := shuffle(string(text), seed, 12); msg != "" {
				t.Errorf("%s: seed %d: %s", name, seed, msg)
				break
			}
		}
	}
}

type before struct {
	path, value string
	had         bool
}

// shuffle makes random edits, restores what was there in random order, and tells what differs.
func shuffle(text string, seed uint64, edits int) string {
	d, err := Parse([]byte(text))
	if err != nil {
		return ""
	}
	r := rand.New(rand.NewPCG(seed, 1))
	all := settable(d)
	var paths []string
	for _, form := range knownPaths() { // fixed order: a map's would make the seed meaningless
		for p := range all {
			// a new address is a new name for other paths; parts are other paths
			if rl, _ := match(p); rl.path == form && !rl.byIndex && !rl.whole {
				paths = append(paths, p)
			}
		}
	}
	slices.Sort(paths)
	if len(paths) == 0 {
		return ""
	}
	var saved []before
	seen := map[string]bool{}
	for range edits {
		p := paths[r.IntN(len(paths))]
		old, had, err := d.Get(p)
		if err != nil {
			continue
		}
		if r.IntN(4) == 0 {
			err = d.Delete(p)
		} else {
			err = d.Set(p, all[p][r.IntN(2)])
		}
		if err == nil && !seen[p] {
			seen[p] = true
			saved = append(saved, before{p, old, had})
		}
	}
	r.Shuffle(len(saved), func(i, j int) { saved[i], saved[j] = saved[j], saved[i] })
	var again []before // as a rollback does: an attribute of a cell comes back after the cells
	for _, s := range saved {
		if d.Restore(s.path, s.value, s.had) != nil {
			again = append(again, s)
		}
	}
	for _, s := range again {
		if err := d.Restore(s.path, s.value, s.had); err != nil {
			return fmt.Sprintf("restore %s: %v", s.path, err)
		}
	}
	if got := d.String(); got != text {
		return fmt.Sprintf("%v back differs:\n%s", saved, lineDiff(text, got))
	}
	return ""
}

// TestPlacement sets one of everything in a bare libvirt domain: each must come where libvirt itself writes it.
func TestPlacement(t *testing.T) {
	d := parse(t, `<domain type='kvm'>
  <name>a</name>
  <memory unit='KiB'>1048576</memory>
  <vcpu placement='static'>4</vcpu>
  <os>
    <type>hvm</type>
  </os>
  <on_crash>destroy</on_crash>
  <devices>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:01'/>
      <source bridge='br0'/>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
    </interface>
  </devices>
</domain>
`)
	for _, e := range [][2]string{ // not in libvirt's order, on purpose
		{"interface/52:54:00:00:00:01/coalesce.rx.frames.max", "32"}, {"interface/52:54:00:00:00:01/model", "virtio"},
		{"interface/52:54:00:00:00:01/driver.tx_queue_size", "256"},
		{"interface/52:54:00:00:00:01/driver.rx_queue_size", "1024"},
		{"interface/52:54:00:00:00:01/driver.queues", "4"}, {"interface/52:54:00:00:00:01/driver.name", "vhost"},
		{"interface/52:54:00:00:00:01/mtu", "9000"}, {"interface/52:54:00:00:00:01/vlan", "7"},
		{"clock/timer/kvmclock.present", "no"}, {"cpu/mode", "host-passthrough"}, {"cpu/cache.mode", "passthrough"},
		{"features/hyperv/vapic.state", "on"}, {"features/hyperv/relaxed.state", "on"},
		{"vcpusched/1", "fifo:1"}, {"emulatorpin", "0"}, {"vcpupin/3", "6"},
		{"vcpupin/0", "4"}, {"vcpupin/2", "5"}, {"numatune/memory.nodeset", "0-1"}, {"memoryBacking/locked", "yes"},
		{"memoryBacking/hugepages", "1GiB@0"},
	} {
		set(t, d, e[0], e[1])
	}
	want := `<domain type='kvm'>
  <name>a</name>
  <memory unit='KiB'>1048576</memory>
  <memoryBacking>
    <hugepages>
      <page size='1048576' unit='KiB' nodeset='0'/>
    </hugepages>
    <locked/>
  </memoryBacking>
  <vcpu placement='static'>4</vcpu>
  <cputune>
    <vcpupin vcpu='0' cpuset='4'/>
    <vcpupin vcpu='2' cpuset='5'/>
    <vcpupin vcpu='3' cpuset='6'/>
    <emulatorpin cpuset='0'/>
    <vcpusched vcpus='1' scheduler='fifo' priority='1'/>
  </cputune>
  <numatune>
    <memory nodeset='0-1'/>
  </numatune>
  <os>
    <type>hvm</type>
  </os>
  <features>
    <hyperv>
      <relaxed state='on'/>
      <vapic state='on'/>
    </hyperv>
  </features>
  <cpu mode='host-passthrough'>
    <cache mode='passthrough'/>
  </cpu>
  <clock offset='utc'>
    <timer name='kvmclock' present='no'/>
  </clock>
  <on_crash>destroy</on_crash>
  <devices>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:01'/>
      <source bridge='br0'/>
      <vlan>
        <tag id='7'/>
      </vlan>
      <model type='virtio'/>
      <driver name='vhost' queues='4' rx_queue_size='1024' tx_queue_size='256'/>
      <mtu size='9000'/>
      <coalesce>
        <rx>
          <frames max='32'/>
        </rx>
      </coalesce>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
    </interface>
  </devices>
</domain>
`
	if got := d.String(); got != want {
		t.Errorf("differs:\n%s", lineDiff(want, got))
	}
}

// TestHouseStyle: tabs, double quotes, attributes on their own lines, CRLF, and a document on one line.
func TestHouseStyle(t *testing.T) {
	cases := []struct{ file, path, value, from, to string }{
		{"hand-tabs.xml", "vcpupin/0", "3", "\t<cputune>\n", "\t<cputune>\n\t\t<vcpupin vcpu=\"0\" cpuset=\"3\"/>\n"},
		{"hand-tabs.xml", "vcpupin/2", "3", "^5\"/>\n", "^5\"/>\n\t\t<vcpupin vcpu=\"2\" cpuset=\"3\"/>\n"},
		{"hand-tabs.xml", "emulatorpin", "3", "<!-- hot -->\n", "<!-- hot -->\n\t\t<emulatorpin cpuset=\"3\"/>\n"},
		{"hand-tabs.xml", "interface/52:54:00:ab:cd:0e/driver.rx_queue_size", "256", "queues=\"2\"\n",
			"queues=\"2\"\n\t\t\t\trx_queue_size=\"256\"\n"},
		{"hand-tabs.xml", "interface/1/model", "virtio", "<source bridge=\"br1\"/>\n",
			"<source bridge=\"br1\"/>\n\t\t\t<model type=\"virtio\"/>\n"},
		{"hand-tabs.xml", "cpu/cache.mode", "passthrough", "></cpu>", ">\n\t\t<cache mode=\"passthrough\"/>\n\t</cpu>"},
		{"hand-compact.xml", "interface/0/driver.queues", "2", "<model type='virtio'/>",
			"<model type='virtio'/><driver queues='2'/>"},
		{"hand-compact.xml", "vcpupin/0", "2", "</vcpu>", "</vcpu><cputune><vcpupin vcpu='0' cpuset='2'/></cputune>"},
		{"hand-odd.xml", "vcpupin/0", "2", "<cputune/>", "<cputune>\n        <vcpupin vcpu=\"0\" cpuset=\"2\"/>\n    " +
			"</cputune>"},
		{"hand-odd.xml", "cpu/mode", "host-model", "<cpu>", "<cpu mode=\"host-model\">"},
		{"hand-minimal.xml", "emulatorpin", "1", "/>", ">\n  <cputune>\n    <emulatorpin cpuset='1'/>\n  " +
			"</cputune>\n</domain>"},
		{"libvirt-crlf.xml", "emulatorpin", "1", "</vcpu>\r\n", "</vcpu>\r\n  <cputune>\r\n    <emulatorpin " +
			"cpuset='1'/>\r\n  </cputune>\r\n"},
		{"libvirt-nics.xml", "clock/timer/tsc.present", "yes", "<clock offset='utc'/>", "<clock offset='utc'>\n    " +
			"<timer name='tsc' present='yes'/>\n  </clock>"},
	}
	for _, c := range cases {
		d := sample(t, c.file)
		old := d.String()
		must.Need(t, strings.Count(old, c.from) != 0, "%s has no %q", c.file, c.from)
		set(t, d, c.path, c.value)
		if want := strings.Replace(old, c.from, c.to, 1); d.String() != want {
			t.Errorf("%s: %s=%s:\n%s", c.file, c.path, c.value, lineDiff(want, d.String()))
		}
	}
}

// lineDiff shows the lines that only one of two texts has.
func lineDiff(want, got string) string {
	a, b := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var out strings.Builder
	for _, l := range a {
		fmt.Fprintf(&out, "- %q\n", l)
	}
	for _, l := range b {
		fmt.Fprintf(&out, "+ %q\n", l)
	}
	return out.String()
}
