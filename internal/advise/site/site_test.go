package site

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const good = `
- id: nic.ring.rx
  want: 512
  reason: measured here
- id: nic.ring.rx
  address: nic-ring:eth1/rx
  want: "1024"
  reason: bursts
- {id: memory.thp, leave: true, reason: the database wants it}
- {id: nic.coalesce, address: "nic-coalesce:eth0/adaptive-rx", want: off, reason: x}
- {id: domain.queues, address: "domain:vm1/interface/52:54:00:00:00:01/driver.queues", want: absent, reason: x}
`

func TestParse(t *testing.T) {
	f := must.Get(Parse([]byte(good)))(t)
	must.Hold(t, len(f.Entries) == 5 && f.Entries[3].Want.Value == "off" && f.Entries[4].Want.Op == setting.Gone,
		"%+v", f.Entries)
	for _, empty := range []string{"", "\n", "# only a comment\n", "[]"} {
		if f, err := Parse([]byte(empty)); err != nil || len(f.Entries) != 0 {
			t.Errorf("%q: %+v, %v", empty, f, err)
		}
	}
}

// TestPackaged: the file that packages install says nothing.
func TestPackaged(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../deploy/packages/site.yaml"))(t)
	if f, err := Parse(text); err != nil || len(f.Entries) > 0 {
		t.Errorf("%+v %v", f, err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"- {id: nic.rnig.rx, want: 1, reason: x}":                                                      "nic.ring.rx",
		"- {id: sched_rt_period_us, want: 1, reason: x}":                                               "rt.period",
		"- {id: nic.ring.rx, want: 1}":                                                                 "no reason",
		"- {id: nic.ring.rx, reason: x}":                                                               "neither want nor leave",
		"- {id: nic.ring.rx, want: 1, leave: true, reason: x}":                                         "both",
		"- {want: 1, reason: x}":                                                                       "no id",
		"- {id: kvm.ept, want: Y, reason: x}":                                                          "explained only",
		"- {id: nic.ring.rx, want: [1, 2], reason: x}":                                                 "one value",
		"- {id: nic.ring.rx, want: 1, reason: x, when: tier}":                                          "field when not found",
		"- {id: nic.ring.rx, address: 'nope', want: 1, reason: x}":                                     "KIND:PATH",
		"- {id: nic.ring.rx, address: 'nic-ring:eth0/rx', want: many, reason: x}":                      "expected a count",
		"- {id: nic.ring.rx, address: 'nic-ring:eth0/rx', want: absent, reason: x}":                    "cannot be absent",
		"- {id: memory.thp, leave: true, reason: x}\n- {id: memory.thp, leave: true, reason: y}":       "twice",
		"- {id: nic.ring.rx, want: many, reason: x}":                                                   "expected a count",
		"- {id: boot.iommu, address: 'kernel-arg:tsc', want: pt, reason: x}":                           "it speaks of kernel-arg:iommu",
		"- {id: nic.ring.rx, address: 'nic-ring:eth0/tx', leave: true, reason: x}":                     "nic-ring:NIC/rx",
		"- {id: nic.ring.rx, address: 'sysctl:net.core.dev_weight', want: 1, reason: x}":               "speaks of no address like",
		"# a comment\n\n- id: memory.thp\n  leave: true\n  reason: x\n- id: softirq.wieght\n":          "line 6 (entry 2): unknown knob",
		"- id: nic.ring.rx\n  reason: x\n  want: many\n":                                               "line 3 (entry 1)",
		"- id: memory.thp\n  leave: true\n  reason: x\n- reason: y\n  leave: true\n  id: memory.thp\n": "line 6 (entry 2): memory.thp is given twice, first at line 1",
		"- null\n": "line 1 (entry 1): it is empty",
		"- id: memory.thp\n  leave: maybe\n  reason: x\n": "line 2: expected true or false, found maybe",
		"- memory.thp\n": "expected an entry, found memory.thp",
		"- {id: softirq.budget, want: 2000000000, reason: x}":         "expected 1 to 50000",
		"- {id: softirq.weight, want: -1, reason: x}":                 "expected 1 to 6000",
		"--- \n- {id: memory.thp, leave: true, reason: x}\n---\n[]\n": "more than one document",
		"id: nic.ring.rx": "a list of entries", "- {": "", "- id: [": "",
	} {
		_, err := Parse([]byte(text))
		var bad *Error
		must.Hold(t, errors.As(err, &bad) && strings.Contains(err.Error()+bad.Hint(), want) &&
			!strings.Contains(err.Error(), "\n"), "%q: %v, expected %s", text, err, want)
	}
}

func TestAdjust(t *testing.T) {
	f := must.Get(Parse([]byte(good)))(t)
	eth0, eth1 := setting.Of(setting.NICRing, "eth0", "rx"), setting.Of(setting.NICRing, "eth1", "rx")
	if a := f.Adjust("nic.ring.rx", eth0, knob.NoOpinion()); a.Want == nil || a.Want.Value != "512" ||
		a.Site != "measured here" {
		t.Errorf("%+v", a)
	}
	guarded := knob.Wants(setting.Exact("0"), "x")
	guarded.Risk, guarded.Rules, guarded.Warning = goal.Security, []string{"-A FORWARD -j DROP"},
		"these rules stop matching"
	for value, rules := range map[string]int{"0": 1, "1": 0} {
		file := must.Get(Parse([]byte("- {id: netfilter.bridge, want: " + value + ", reason: x}")))(t)
		if a := file.Adjust("netfilter.bridge", setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-iptables"),
			guarded); len(a.Rules) != rules || (a.Warning != "") != (rules > 0) || a.Risk != goal.Security {
			t.Errorf("the site wants %s: %+v", value, a)
		}
	}
	hugepages := setting.Of(setting.KernelArg, "hugepagesz+hugepages")
	wish := File{Entries: []Entry{{ID: "boot.hugepages", Address: hugepages,
		Want: setting.Exact("hugepagesz=1G hugepages=1"), Reason: "one guest"}}}
	if a := wish.Adjust("boot.hugepages", hugepages, knob.Skips("no guest")); a.Want == nil ||
		a.Needs != setting.Reboot() {
		t.Errorf("%+v, expected a wish that needs a reboot", a)
	}
	if f, err := Parse([]byte("- {id: kernel.default, want: 6.12.48+deb13-amd64, reason: tried here}")); err != nil {
		t.Error(err)
	} else if a := f.Adjust("kernel.default", setting.Of(setting.BootKernel, "default"),
		knob.Unsure("x")); a.Want == nil || a.Want.Value != "6.12.48+deb13-amd64" || a.Needs != setting.Reboot() {
		t.Errorf("%+v, expected the kernel that the site asks for", a)
	}
	if a := f.Adjust("nic.ring.rx", eth1, knob.Skips("down")); a.Want == nil || a.Want.Value != "1024" {
		t.Errorf("an address says it: %+v", a)
	}
	if a := f.Adjust("nic.ring.rx", eth0, knob.Skips("down")); a.Skip != "down" || a.Site != "" {
		t.Errorf("does not apply: %+v", a)
	}
	if a := f.Adjust("memory.thp", setting.Of(setting.Sysfs, "x"),
		knob.Wants(setting.Exact("never"), "y")); a.Want != nil || !strings.Contains(a.Skip, "the database") {
		t.Errorf("left alone: %+v", a)
	}
	if mixed, err := Parse([]byte("- {id: rt.ksm, want: stopped, reason: x}")); err != nil {
		t.Error(err)
	} else if a := mixed.Adjust("rt.ksm", setting.Of(setting.Service, "ksmtuned"), knob.NoOpinion()); a.Want == nil ||
		a.Want.Value != "stopped" {
		t.Errorf("%+v", a)
	} else if a := mixed.Adjust("rt.ksm", setting.Of(setting.KSM, "run"), knob.NoOpinion()); a.Want != nil ||
		!strings.Contains(a.Unsure, "site file wants what cannot be") {
		t.Errorf("no count: %+v", a)
	}
	var none *File
	if a := none.Adjust("nic.ring.rx", eth0, knob.Fine("x")); a.Because != "x" {
		t.Errorf("no file: %+v", a)
	}
}

func TestLoad(t *testing.T) {
	root := t.TempDir()
	if f, err := Load(root); f != nil || err != nil {
		t.Errorf("no file: %v, %v", f, err)
	}
	must.Do(t, os.MkdirAll(filepath.Join(root, "etc/mpps"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, Path), []byte(good), 0o644))
	if f, err := Load(root); err != nil || len(f.Entries) != 5 {
		t.Errorf("%v, %v", f, err)
	}
	must.Fail(Load(filepath.Join(root, "nowhere")))(t, "no root, and no error")
	for _, name := range []string{Path, "etc/mpps"} {
		must.Do(t, os.Chmod(filepath.Join(root, name), 0o777))
		must.Say(t, must.Err(Load(root)), "others than its owner may write it", "others can write %s", name)
		must.Do(t, os.Chmod(filepath.Join(root, name), 0o755))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("- {id: x, want: {a: b}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		must.Hold(t, (file == nil) != (err == nil), "%q: %v, %v", text, file, err)
	})
}

// TestOwnGuests: {guests: own} gives libvirt's guests to the operator, and is about nothing else.
func TestOwnGuests(t *testing.T) {
	f, err := Parse([]byte("- guests: own\n- {id: nic.ring.rx, want: 512, reason: measured}\n"))
	must.Need(t, err == nil && f.OwnGuests && len(f.Entries) == 1, "%+v, %v", f, err)
	h := &facts.Host{Guests: []facts.Guest{{Name: "a", Managed: true, Owner: &facts.Owner{Platform: facts.Nova}},
		{Name: "b", Owner: facts.ProxmoxOwner("100")}, {Name: "c", Managed: true}}}
	f.Claim(h)
	must.Hold(t, !h.Guests[0].Rewrites() && h.Guests[1].Rewrites() && h.Guests[2].Owner == nil, "%+v", h.Guests)
	(*File)(nil).Claim(h)
	for _, text := range []string{"- guests: theirs\n", "- {guests: own, leave: true}\n",
		"- {guests: own, id: nic.ring.rx}\n"} {
		var wrong *Error
		if _, err := Parse([]byte(text)); !errors.As(err, &wrong) || wrong.Line != 1 || wrong.Advice == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLibvirtOfTheSite: how libvirt is reached stands in the file, word by word; only this host's is accepted.
func TestLibvirtOfTheSite(t *testing.T) {
	f, err := Parse([]byte("- virsh: [podman, exec, -i, nova_libvirt, virsh]\n- {connect: 'qemu:///session', " +
		"reason: rootless}\n- {guests: own}\n"))
	must.Need(t, err == nil &&
		slices.Equal(f.Libvirt.Virsh, []string{"podman", "exec", "-i", "nova_libvirt", "virsh"}) &&
		f.Libvirt.Connect == "qemu:///session" && f.OwnGuests && len(f.Entries) == 0, "found %+v, %v", f, err)
	given := Libvirt{Connect: "qemu:///system"}.Or(f.Libvirt)
	must.Hold(t, given.Connect == "qemu:///system" && len(given.Virsh) == 5,
		"found %+v: what is given comes first", given)
	for _, text := range []string{"- {connect: 'qemu+ssh://other/system'}\n", "- {connect: 'xen:///'}\n",
		"- {virsh: ['']}\n", "- {virsh: [virsh], id: nic.ring.rx}\n", "- {virsh: virsh}\n"} {
		must.Fail(Parse([]byte(text)))(t, "%q was accepted", text)
	}
}
