package lasting

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func change(address, from, to string) plan.Change {
	a, err := setting.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	return plan.Change{
		ID: "test", Address: a, From: setting.Value(from), To: setting.Value(to), Want: setting.Exact(to),
		Risk: goal.None, Lasts: setting.Kinds[a.Kind].Lasts, Stage: 1,
	}
}

// host has systemd and directories, and nothing of mpps.
func host() *facts.Host {
	h := &facts.Host{Readings: facts.Readings{}, Lasting: &facts.Lasting{Systemd: true, Program: "/opt/mpps"}}
	for _, a := range Addresses() {
		h.Readings[a] = setting.Missing("there is none")
	}
	for _, a := range []setting.Address{sysctlFolder, moduleFolder, unitFolder, wantsFolder} {
		h.Readings[a] = setting.Value("shared")
	}
	return h
}

func add(t *testing.T, h *facts.Host, changes ...plan.Change) *plan.Plan {
	t.Helper()
	p := &plan.Plan{Schema: plan.Schema, Goal: goal.Unlimited(), Changes: changes}
	p.Seal()
	must.Do(t, Add(p, h))
	var text bytes.Buffer
	must.Do(t, plan.Encode(&text, p))
	if _, err := plan.Decode(&text); err != nil {
		t.Fatalf("the plan cannot be read again: %v", err)
	}
	return p
}

func find(p *plan.Plan, id string) *plan.Change {
	if at := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.ID == id }); at >= 0 {
		return &p.Changes[at]
	}
	return nil
}

func TestAdd(t *testing.T) {
	h := host()
	p := add(t, h, change("nic-ring:eth0/rx", "512", "256"), change("sysctl:net.core.dev_weight", "64", "128"),
		change("nic-channels:eth0/combined", "8", "2"), change("module-param:kvm_intel/ple_gap", "128", "0"),
		change("sysctl:net.bridge.bridge-nf-call-iptables", "1", "0"), change("domain:vm1/vcpu", "1", "2"))
	ids := facts.Map(p.Changes[6:], func(c plan.Change) string { return c.ID })
	if want := "lasting.sysctl lasting.module lasting.desired lasting.unit lasting.service"; strings.Join(ids,
		" ") != want {
		t.Fatalf("planned %v, expected %s", ids, want)
	}
	must.Equal(t, find(p, "lasting.sysctl").To.Value,
		sysctlHeader+"net.core.dev_weight = 128\nnet.bridge.bridge-nf-call-iptables = 0\n", "sysctl.d")
	must.Equal(t, find(p, "lasting.module").To.Value, moduleHeader+"options kvm_intel ple_gap=0\n", "modprobe.d")
	if text := find(p, "lasting.unit").To.Value; !strings.Contains(text, "\nExecStart=/opt/mpps restore --watch\n") {
		t.Errorf("unit:\n%s", text)
	}
	values := must.Get(ParseDesired(find(p, "lasting.desired").To.Value))(t)
	order := facts.Map(values, func(v Value) string { return v.Address.String() + "=" + v.To.Value })
	// Channels come first whatever the plan's order: they reset the others.
	if want := "nic-channels:eth0/combined=2 nic-ring:eth0/rx=256 sysctl:net.bridge.bridge-nf-call-iptables=0 " +
		"module-param:kvm_intel/ple_gap=0"; strings.Join(order, " ") != want {
		t.Errorf("desired %v, expected %s", order, want)
	}
	for i, want := range []struct{ lasts, kept string }{
		{"across reboots", "put back by mpps-restore.service"}, {"across reboots", "/etc/sysctl.d/90-mpps.conf"},
		{"across reboots", "put back by mpps-restore.service"},
		{"across reboots", "/etc/modprobe.d/90-mpps.conf; put back by mpps-restore.service"},
		{"across reboots", "/etc/sysctl.d/90-mpps.conf; put back by mpps-restore.service"},
		{"in the guest's definition", ""},
	} {
		if c := p.Changes[i]; string(c.Lasts) != want.lasts || c.Kept != want.kept {
			t.Errorf("%s lasts %q by %q, expected %v", c.Address, c.Lasts, c.Kept, want)
		}
	}

	// A second plan adds to what stands; lines that others have written stay.
	for _, c := range p.Changes[6:] {
		h.Readings[c.Address] = c.To
	}
	byHand := h.Readings[sysctlAddress].Value + "# mine\nvm.swappiness=5"
	h.Readings[sysctlAddress] = setting.Value(byHand)
	again := add(t, h, change("sysctl:net/core/dev_weight", "128", "256"), change("nic-ring:eth0/rx", "256", "1024"))
	must.Need(t, len(again.Changes) == 4, "%d changes, expected 4: the service runs already", len(again.Changes))
	must.Equal(t, find(again, "lasting.sysctl").To.Value,
		sysctlHeader+"net/core/dev_weight = 256\nnet.bridge.bridge-nf-call-iptables = 0\n# mine\nvm.swappiness=5\n",
		"sysctl.d")
	if values, err := ParseDesired(find(again, "lasting.desired").To.Value); err != nil || len(values) != 4 ||
		values[1].To.Value != "1024" {
		t.Errorf("%+v, %v", values, err)
	}

	// What an earlier apply gave and does not last yet is made to last, where it still stands.
	h = host()
	given := change("sysctl:vm.swappiness", "60", "10")
	h.Readings[given.Address] = setting.Value("10")
	gone := change("sysctl:vm.dirty_ratio", "20", "10")
	late := &plan.Plan{Schema: plan.Schema, Goal: goal.Unlimited()}
	if err := Add(late, h, given, gone, *find(p, "lasting.sysctl")); err != nil || len(late.Changes) != 1 ||
		late.Changes[0].To.Value != sysctlHeader+"vm.swappiness = 10\n" {
		t.Errorf("%+v, %v", late.Changes, err)
	}

	before := p.Digest
	Strip(p)
	must.Hold(t, len(p.Changes) == 6 && p.Changes[1].Lasts == setting.UntilReboot && p.Changes[1].Kept == "" &&
		p.Digest != before, "stripped: %+v", p.Changes)
}

func TestAddLeavesOthersFilesAlone(t *testing.T) {
	h := host()
	h.Readings[sysctlAddress] = setting.Value("net.core.dev_weight = 9\n")
	h.Readings[desiredAddress] = setting.Value(about + " but damaged")
	p := add(t, h, change("nic-ring:eth0/rx", "512", "256"), change("sysctl:net.core.dev_weight", "64", "128"))
	must.Hold(t, len(p.Changes) == 2 && strings.Contains(p.Changes[1].Kept, "not written by mpps") &&
		strings.Contains(p.Changes[0].Kept, "not put back: /var/lib/mpps/desired.json"), "%+v", p.Changes)
	must.Equal(t, p.Changes[1].Lasts, setting.UntilReboot, "lasts")
	h = host()
	h.Readings[moduleFolder] = setting.Missing("there is none")
	h.Lasting.Systemd = false
	p = add(t, h, change("module-param:kvm/halt_poll_ns", "1", "0"))
	must.Hold(t, len(p.Changes) == 4 && p.Changes[1].Address == moduleFolder &&
		strings.Contains(p.Changes[0].Kept, "has to be started at boot"),
		"without systemd and directory: %+v", p.Changes)
}

func TestOwners(t *testing.T) {
	h := host()
	h.Lasting.Sysctls = []facts.OwnedValue{
		{Key: "net/core/dev_weight", Value: "1", File: "/usr/lib/sysctl.d/10-a.conf"},
		{Key: "net/ipv4/conf/*/rp_filter", Value: "2", File: "/etc/sysctl.d/99-b.conf"},
		{Key: "net/core/dev_weight", Value: "32", File: "/etc/sysctl.d/99-b.conf"},
	}
	h.Lasting.Tuned = &facts.Tuned{Running: true, Profile: "virtual-host",
		Sysctls: []facts.OwnedValue{{Key: "vm/swappiness", Value: "30"}}, Plugins: []string{"sysctl", "cpu"},
		Options: []facts.OwnedValue{
			{Key: "net.ring", Value: "rx 512", Of: "!eth0"}, {Key: "sysfs./sys/kernel/mm/ksm/run", Value: "0"},
			{Key: "bootloader.cmdline", Value: "+isolcpus=2-3 nosmt"},
			{Key: "net.txqueuelen", Value: "500", Of: "ens*,eth0"}, {Key: "modules.kvm", Value: "+r halt_poll_ns=0"},
		}}
	h.Lasting.NetworkManager = []facts.OwnedValue{{Key: "ethtool.ring-rx", Value: "512", Of: "eth0",
		File: "/etc/NetworkManager/system-connections/a"},
		{Key: "link.tx-queue-length", Value: "700", File: "/etc/NetworkManager/system-connections/b"}}
	h.Services = []facts.Service{{Name: "irqbalance", Running: true}, {Name: "numad"}}
	p := add(t, h, change("sysctl:net.core.dev_weight", "64", "128"), change("sysctl:net.ipv4.conf.eth0.rp_filter", "1",
		"0"), change("sysctl:vm.swappiness", "60", "10"),
		change("irq-affinity:eth0/rx-0/45", "0-3", "1"), change("nic-ring:eth0/rx", "256", "1024"),
		change("nic-ring:eth1/rx", "256", "1024"), change("thread-affinity:vm1/vcpu/0", "0-3", "1"),
		change("sysfs:devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave", "performance"),
		change("ksm:run", "1", "2"), change("kernel-arg:isolcpus", "1", "2-5"),
		change("sysfs:class/net/eth0/tx_queue_len", "1000", "2000"), change("module-param:kvm/halt_poll_ns", "200000",
			"1"))
	for i, want := range []string{
		"/usr/lib/sysctl.d/10-a.conf sets it to 1 at boot; /etc/sysctl.d/99-b.conf sets it to 32 at boot, and wins",
		"/etc/sysctl.d/99-b.conf sets it to 2 at boot, and wins",
		"TuneD profile virtual-host sets it to 30 when the profile is chosen", "irqbalance sets it too every few " +
			"seconds, and wins",
		"NetworkManager profile /etc/NetworkManager/system-connections/a sets it to 512 when the connection is " +
			"activated, and wins", "TuneD profile virtual-host sets it to 512 when the profile is chosen", "",
		"TuneD profile virtual-host sets it too when the profile is chosen", "TuneD profile virtual-host sets it to " +
			"0 when the profile is chosen", "TuneD profile virtual-host sets it to 2-3 when the boot menu is written",
		"NetworkManager profile /etc/NetworkManager/system-connections/b sets it to 700 when the connection is " +
			"activated, and wins; TuneD profile virtual-host sets it to 500 when the profile is chosen",
		"TuneD profile virtual-host sets it to 0 when the profile is chosen",
	} {
		if got := strings.Join(p.Changes[i].Owners, "; "); got != want {
			t.Errorf("%s: owners %q, expected %q", p.Changes[i].Address, got, want)
		}
	}
	// Where the plan stops the daemon, it owns nothing any more.
	p = add(t, h, change("service:irqbalance", "running", "stopped"), change("irq-affinity:eth0/rx-0/45", "0-3", "1"))
	must.Empty(t, p.Changes[1].Owners, "owners")
}

// TestOwnersOfTheSwitch: where OVN or Neutron manages Open vSwitch, a change of its settings names them.
func TestOwnersOfTheSwitch(t *testing.T) {
	h := host()
	for want, o := range map[string]*facts.OpenVSwitch{
		"": {},
		"OVN manages this Open vSwitch and may set it too; Neutron manages this Open vSwitch and may set it too": {
			OVN: &facts.OVN{Remote: "tcp:192.0.2.1:6642"}, OpenStack: true},
	} {
		h.OpenVSwitch = o
		p := add(t, h, change("ovsdb:max-idle", "5000", "10000"))
		if c := p.Changes[0]; strings.Join(c.Owners, "; ") != want || len(p.Changes) != 1 || !c.Lasts.Kept() {
			t.Errorf("%+v", p.Changes)
		}
	}
}

// TestUnitsAreTheDeployedOnes: go:embed cannot reach deploy/.
func TestUnitsAreTheDeployedOnes(t *testing.T) {
	for name, template := range map[string]string{UnitName: unitTemplate, VFsName: vfsTemplate,
		WatchName: watchTemplate} {
		text := must.Get(os.ReadFile("../../../deploy/systemd/" + name))(t)
		must.Hold(t, string(text) == template, "internal/advise/lasting/%s differs from deploy/systemd: copy it", name)
	}
	must.Contain(t, unitText(unitTemplate, "/opt/my tools/m%s"), `ExecStart="/opt/my tools/m%%s" restore --watch`)
	must.Contain(t, unitText(vfsTemplate, "/opt/mpps"), "ExecStart=/opt/mpps restore --vfs\n")
}

func FuzzParseDesired(f *testing.F) {
	text := must.Get(render([]Value{{ID: "a", Address: setting.Of(setting.NICRing, "eth0", "rx"),
		Want: setting.Exact("256"), To: setting.Value("256")}}))(f)
	f.Add(text)
	f.Add(`{"schema":"mpps.desired/1","values":[{"address":"file:etc/sysctl.d/90-mpps.conf","to":{"state":"absent"},"want":{"op":"gone"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := ParseDesired(text)
		if err != nil {
			return
		}
		for _, v := range values {
			must.Hold(t, ways[v.Address.Kind] != byItself && v.To.State != setting.Unknown,
				"%s was let through", v.Address)
		}
		again := must.Get(render(values))(t)
		if _, err := ParseDesired(again); err != nil {
			t.Errorf("%v in what was written of %q", err, text)
		}
	})
}

func TestEachKindHasAWay(t *testing.T) {
	for kind := range setting.Kinds {
		if _, stated := ways[kind]; !stated {
			t.Errorf("%s: say in ways how its values last", kind)
		}
	}
}
