package domain

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// tuned carries changes out in a copy of a sample and gives the lines that differ.
func tuned(t *testing.T, name string, nics []string, changes ...Change) (string, []Edit, error) {
	t.Helper()
	d := sample(t, name)
	before := d.String()
	edits, err := d.Apply(changes, nics, Host{})
	return lineDiff(before, d.String()), edits, err
}

// TestCarryChangesWhatIsNamed: the NICs that can have a value get it, and not one line beside.
func TestCarryChangesWhatIsNamed(t *testing.T) {
	const queues = "interface/*/driver.queues"
	cases := []struct {
		nics  []string
		wish  Change
		paths string // of the edits
	}{
		{nil, Change{Path: queues, Value: "4"}, "02 04 05 06 07"},
		{[]string{"02:00:00:00:00:02"}, Change{Path: queues, Value: "4"}, "02"},
		{[]string{"3", "1"}, Change{Path: queues, Value: "4"}, "02 04"},
		{nil, Change{Path: queues, Off: true}, "04"},
		{nil, Change{Path: queues, Value: "1"}, "04"},
		{nil, Change{Path: "interface/*/driver.name", Value: "vhost"}, "02 04 05 06 07"},
	}
	for _, c := range cases {
		_, edits, err := tuned(t, "libvirt-nics.xml", c.nics, c.wish)
		var paths []string
		for _, e := range edits {
			key := strings.Split(e.Path, "/")[1]
			paths = append(paths, key[len(key)-2:])
		}
		must.Hold(t, err == nil && strings.Join(paths, " ") == c.paths,
			"%+v of %v: edits %v (%v), expected %s", c.wish, c.nics, paths, err, c.paths)
	}
	diff, _, err := tuned(t, "libvirt-nics.xml", []string{"3"}, Change{Path: queues, Value: "7"})
	must.Hold(t, err == nil && strings.Count(diff, "\n") == 2 && strings.Contains(diff, "queues='7'"),
		"one value changes %s (%v)", diff, err)
}

func TestCarryRefuses(t *testing.T) {
	const tx = "interface/*/driver.tx_queue_size"
	cases := []struct {
		nics          []string
		changes       []Change
		problem, hint string
	}{
		{nil, []Change{{Path: tx, Value: "1024"}}, "256 on an interface of type direct", "does not start"},
		{[]string{"0"}, []Change{{Path: tx, Value: "256"}}, "nothing on a function of the host", "in the guest"},
		{[]string{"02:00:00:00:00:99"}, []Change{{Path: tx, Value: "256"}}, "no such interface", "02:00:00:00:00:01"},
		{[]string{"42"}, nil, "no such interface", "02:00:00:00:00:01"},
		{nil, []Change{{Path: "vcpupin/0", Value: "1"}, {Path: "vcpupin/0", Value: "2"}}, `"1" and "2"`, "leave one"},
		{nil, []Change{{Path: "vcpupin/0", Value: "1"}, {Path: "vcpupin/0", Off: true}}, "(absent)", "leave one"},
		{nil, []Change{{Path: "interface/*/mac", Value: "02:00:00:00:00:aa"}}, "no other interface has", ""},
	}
	for _, c := range cases {
		_, _, err := tuned(t, "libvirt-nics.xml", c.nics, c.changes...)
		if err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%+v: %v, expected %q", c.changes, err, c.problem)
			continue
		}
		if hint := err.(interface{ Hint() string }).Hint(); !strings.Contains(hint, c.hint) {
			t.Errorf("%+v: hint %q, expected %q", c.changes, hint, c.hint)
		}
	}
	d := parse(t, "<domain><vcpu>1</vcpu><devices/></domain>")
	var bad *PathError
	if _, err := d.Apply([]Change{{Path: tx, Value: "256"}}, nil, Host{}); !errors.As(err, &bad) ||
		!strings.Contains(bad.Problem, "no interfaces") {
		t.Errorf("a domain without interfaces: %v", err)
	}
	var old *VersionError
	if _, err := sample(t, "libvirt-bridge.xml").Apply([]Change{{Path: tx, Value: "256"}}, nil,
		Host{Libvirt: "3.6.0"}); !errors.As(err, &old) {
		t.Errorf("an old libvirt: %v", err)
	}
}

// TestCarryInOrder: a NIC that becomes virtio can have queues then.
func TestCarryInOrder(t *testing.T) {
	d := parse(t, "<domain><vcpu>2</vcpu><devices><interface type='bridge'><source bridge='b'/><model "+
		"type='e1000'/></interface></devices></domain>")
	edits, err := d.Apply([]Change{{Path: "interface/*/model", Value: "virtio"},
		{Path: "interface/*/driver.queues", Value: "2"}}, nil, Host{})
	must.Hold(t, err == nil && len(edits) == 2 && d.Guest().Interfaces[0].Driver.Queues == 2,
		"edits %+v (%v)", edits, err)
	if !slices.Equal(edits, []Edit{{"interface/0/model", "e1000", "virtio", true, true},
		{"interface/0/driver.queues", "", "2", false, true}}) {
		t.Errorf("edits %+v", edits)
	}
}

func TestWishes(t *testing.T) {
	d := sample(t, "libvirt-nics.xml") // two vCPUs
	group := parse(t, "<domain><vcpu>4</vcpu><iothreads>2</iothreads><cputune><vcpupin vcpu='1' "+
		"cpuset='3'/><vcpusched vcpus='0-1' scheduler='batch'/></cputune></domain>")
	hyperv := parse(t, "<domain><features><hyperv><vapic state='on'/><strange/></hyperv></features></domain>")
	ok := func(all []Change, err error) func(want string) {
		return func(want string) {
			t.Helper()
			var words []string
			for _, w := range all {
				if w.Off {
					w.Value = "-"
				}
				words = append(words, w.Path+"="+w.Value)
			}
			if got := strings.Join(words, " "); got != want || err != nil {
				t.Errorf("got %s (%v), expected %s", got, err, want)
			}
		}
	}
	ok(d.PinChanges("vcpupin", "0=2,1=3"))("vcpupin/0=2 vcpupin/1=3")
	ok(d.PinChanges("vcpupin", "0-1=2-3,8"))("vcpupin/0=2-3,8 vcpupin/1=2-3,8")
	ok(d.PinChanges("vcpupin", "6-7"))("vcpupin/0=6 vcpupin/1=7")
	ok(group.PinChanges("vcpupin", "off"))("vcpupin/1=-")
	ok(group.PinChanges("iothreadpin", "4,6"))("iothreadpin/1=4 iothreadpin/2=6")
	ok(d.SchedChanges("vcpusched", "fifo:1"))("vcpusched/0=fifo:1 vcpusched/1=fifo:1")
	ok(d.SchedChanges("vcpusched", "1=off"))("vcpusched/1=-")
	ok(group.SchedChanges("vcpusched", "rr:2"))("vcpusched/2=rr:2 vcpusched/3=rr:2 vcpusched/0-1=rr:2")
	ok(group.SchedChanges("vcpusched", "0=rr:2"))("vcpusched/0=rr:2")
	ok(group.SchedChanges("iothreadsched", "idle"))("iothreadsched/1=idle iothreadsched/2=idle")
	ok(NUMAChanges("strict:0"))("numatune/memory=strict:0")
	ok(NUMAChanges("1"))("numatune/memory=1")
	ok(NUMAChanges("0=strict:0,1=preferred:1,2=off"))("numatune/memnode/0=strict:0 numatune/memnode/1=preferred:1 " +
		"numatune/memnode/2=-")
	ok(NUMAChanges("off"))("numatune/memory=-")
	ok(PageChanges("1G"))("memoryBacking/hugepages=1GiB")
	ok(PageChanges("2M@0;1GiB@1"))("memoryBacking/hugepages=2MiB@0 1GiB@1")
	ok(PageChanges("on"))("memoryBacking/hugepages=default")
	ok(PageChanges("off"))("memoryBacking/hugepages=-")
	ok(CellChanges("0:1GiB;1:1GiB"))("cpu/numa/cells=0:1GiB 1:1GiB")
	ok(hyperv.HyperVChanges("off"))("clock/timer/hypervclock.present=- features/hyperv/vapic.state=off")
	ok(hyperv.HyperVChanges("passthrough"))("features/hyperv.mode=passthrough")
	ok(hyperv.HyperVChanges("vapic,synic=off,spinlocks,vendor_id=KVM"))("features/hyperv/vapic.state=on " +
		"features/hyperv/synic.state=off features/hyperv/spinlocks.retries=8191 features/hyperv/vendor_id.value=KVM")
	ok(hyperv.HyperVChanges("spinlocks=5000"))("features/hyperv/spinlocks.retries=5000")

	bad := func(all []Change, err error) {
		t.Helper()
		must.Refuse(t, err, "took %+v", all)
	}
	for _, text := range []string{"", "0", "x", "0=", "=1", "0=1,,1=2", "0=a", "a=1", "0-1=", "2-9", ",0=1"} {
		bad(d.PinChanges("vcpupin", text))
	}
	for _, text := range []string{"", "fifo", "fifo:0", "0=fifo", "x=fifo:1", "nice"} {
		bad(d.SchedChanges("vcpusched", text))
	}
	for _, text := range []string{"", "loose:0", "strict:", "0=", "x=strict:0", "strict:a"} {
		bad(NUMAChanges(text))
	}
	for _, text := range []string{"1", "3M", "1G 2M", "G", ""} {
		bad(PageChanges(text))
	}
	for _, text := range []string{"", "0-1", "0:1"} {
		bad(CellChanges(text))
	}
	for _, text := range []string{"", "turbo", "vapic=maybe", "spinlocks=1", "vapic,,synic"} {
		bad(hyperv.HyperVChanges(text))
	}
	bad(group.SchedChanges("iothreadsched", "1=fifo"))
	bad(d.SchedChanges("iothreadsched", "idle"))
}

// TestHyperVOn: the usual enlightenments, in an order that libvirt and QEMU take one by one.
func TestHyperVOn(t *testing.T) {
	d := parse(t, "<domain>\n  <os/>\n</domain>\n")
	changes := must.Get(d.HyperVChanges("on"))(t)
	must.Get(d.Apply(changes, nil, Host{Libvirt: "11.3.0", QEMU: "10.0.2"}))(t)
	must.Hold(t, strings.Contains(d.String(), "<spinlocks state='on' retries='8191'/>") &&
		strings.Index(d.String(), "<synic") <= strings.Index(d.String(), "<stimer"), "got %s", d)
}

func TestValues(t *testing.T) {
	d := parse(t, "<domain><cputune><emulatorpin cpuset='x'/></cputune><cpu mode='custom'/></domain>")
	if got := d.Values(); !slices.Equal(got, []Value{{"emulatorpin", "x", true}, {"cpu/mode", "custom", false}}) {
		t.Errorf("got %+v", got)
	}
}

// FuzzCarry: whatever is wished, what is carried out reads back, and nothing else has changed.
func FuzzCarry(f *testing.F) {
	f.Add("interface/*/driver.queues", "4", "", false)
	f.Add("vcpusched/0", "fifo:1", "02:00:00:00:00:02", true)
	text := sample(f, "libvirt-nics.xml").String()
	f.Fuzz(func(t *testing.T, path, value, nic string, off bool) {
		d := parse(t, text)
		var nics []string
		if nic != "" {
			nics = []string{nic}
		}
		edits, err := d.Apply([]Change{{Path: path, Value: value, Off: off}}, nics, Host{})
		if err != nil {
			return
		}
		again, touched := parse(t, d.String()), map[string]bool{}
		for _, e := range edits {
			touched[e.Path] = true
			if got, there, err := again.Get(e.Path); got != e.To || there != e.HasTo || err != nil {
				t.Fatalf("%+v reads %q %v %v", e, got, there, err)
			}
		}
		for _, x := range Diff(parse(t, text), again) {
			root, _, _ := strings.Cut(path, "/")
			if !touched[x.Path] && !strings.HasPrefix(x.Path, root) {
				t.Fatalf("%s=%s changed %+v", path, value, x)
			}
		}
	})
}

// TestLost: what goes with a wish is an edit too, and comes before it; a part of what was wished is none of its own.
func TestLost(t *testing.T) {
	const text = "<domain><vcpu>2</vcpu><cpu mode='host-passthrough' migratable='off'><cache " +
		"mode='passthrough'/></cpu>" +
		"<numatune><memory mode='strict' nodeset='0'/></numatune></domain>"
	for name, c := range map[string]struct {
		changes []Change
		want    string
	}{
		"a model without it": {[]Change{{Path: "cpu/mode", Value: "host-model"}}, "cpu/migratable cpu/mode"},
		"both by name": {[]Change{{Path: "cpu/migratable", Off: true}, {Path: "cpu/mode", Value: "host-model"}},
			"cpu/migratable cpu/mode"},
		"a whole": {[]Change{{Path: "numatune/memory", Off: true}}, "numatune/memory"},
		"nothing": {[]Change{{Path: "vcpupin/0", Value: "1"}}, "vcpupin/0"},
	} {
		edits, err := parse(t, text).Apply(c.changes, nil, Host{})
		must.Succeed(t, err, "%s", name)
		var paths []string
		for _, e := range edits {
			paths = append(paths, e.Path)
		}
		must.Equal(t, strings.Join(paths, " "), c.want, "%s: edits of", name)
	}
	// What libvirt makes of an absent value is not lost.
	edits, err := parse(t, strings.Replace(text, "off", "on", 1)).Apply([]Change{{Path: "cpu/mode", Value: "host-model"}},
		nil, Host{})
	must.Hold(t, err == nil && len(edits) == 1, "%v: %+v", err, edits)
}
