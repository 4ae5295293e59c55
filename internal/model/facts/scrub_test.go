package facts

import (
	"encoding/json"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestScrub(t *testing.T) {
	h := small()
	h.Name = "secret-host.example.org"
	h.Kernel.CommandLine = "root=UUID=a81f45a7-c81f-45a7-839a-a6ab341a1fa9 ip=203.0.113.9:::::secret-host.example.org"
	h.NICs[0].Firmware, h.Kernel.Release = "9.20.0.5", "6.8.0.50"
	h.NICs[0].MAC = "3c:ec:ef:12:34:56"
	h.NICs[0].Management = "route to 203.0.113.77 (SSH client)"
	h.NICs[1].Management = "route to 2a01:4f8:10a::1 (SSH client)"
	h.Guests[0].Name = "payroll"
	h.Guests[0].UUID = "a81f45a7-c81f-45a7-839a-a6ab341a1fa9"
	h.Taps[0].Guest, h.Taps[1].Guest = "payroll", "payroll"
	h.Guests[0].Definition = `<domain type='kvm'>
  <name>payroll</name>
  <uuid>a81f45a7-c81f-45a7-839a-a6ab341a1fa9</uuid>
  <title>Salaries of Acme Inc.</title>
  <sysinfo type='smbios'><system><entry name='serial'>SN-998877</entry></system></sysinfo>
  <devices>
    <interface type='bridge'><mac address='52:54:00:00:00:00'/><source bridge='br0'/></interface>
    <graphics type='vnc' listen='198.51.100.9'/>
    <disk type='file'><source file='/var/lib/libvirt/images/payroll.qcow2'/><serial>WD-12345</serial></disk>
  </devices>
</domain>
`
	h.Unseen = []Unseen{{What: "definition of guest payroll", Why: "line 3"}}
	h.Unverified = []Unverified{{PID: 4711, Guest: "payroll"}, {PID: 4712, Guest: "payslips"}}
	h.Netfilter.Rules[0].Lines = []string{"add rule filter input ip saddr 203.0.113.77 accept",
		"add rule filter input ip saddr 127.0.0.1 accept"}
	h.Readings[setting.Of(setting.Domain, "payroll", "interface", "52:54:00:00:00:00",
		"driver.queues")] = setting.Value("4")
	plugged := setting.Value("<interface type='vhostuser'><mac address='52:54:00:00:00:00'/><source type='unix' " +
		"path='/run/payroll.sock' mode='server'/></interface>")
	plugged.Verbatim = "0 " + plugged.Value
	h.Readings[setting.Of(setting.DomainDevice, "payroll", "interface", "52:54:00:00:00:00")] = plugged

	h.OpenVSwitch = &OpenVSwitch{OVN: &OVN{Chassis: "acme-compute-7", EncapIP: "203.0.113.9"}}

	c := Scrub(h)
	text := string(written(t, c))
	for _, secret := range []string{
		"acme-compute",
		"secret-host", "example.org", "203.0.113.9", "3c:ec:ef", "203.0.113.77", "2a01:4f8", "payroll", "payslips", "a81f45a7",
		"Acme", "SN-998877",
		"WD-12345", "198.51.100.9", `"52:54:00:00:00:00"`,
	} {
		must.Lack(t, text, secret)
	}
	must.Contain(t, text, "127.0.0.1")
	must.Hold(t, c.NICs[0].Firmware == "9.20.0.5" && c.Kernel.Release == "6.8.0.50",
		"versions were taken for addresses: %s, %s", c.NICs[0].Firmware, c.Kernel.Release)
	g := c.Guests[0]
	mac := g.Interfaces[0].MAC
	if c.Taps[0].Guest != g.Name || !strings.Contains(g.Definition, "<name>"+g.Name+"</name>") ||
		!strings.Contains(g.Definition, "address='"+mac+"'") || !strings.Contains(g.Definition, g.UUID) ||
		!strings.Contains(g.Definition, "images/"+g.Name+".qcow2") {
		t.Errorf("the same thing has several replacements: guest %s, NIC %s, tap of %s in\n%s", g.Name, mac,
			c.Taps[0].Guest, g.Definition)
	}
	if found := c.Readings.At(setting.Of(setting.Domain, g.Name, "interface", mac,
		"driver.queues")); found.Value != "4" {
		t.Errorf("the reading of the renamed guest is %v", found)
	}
	threads := 0
	for _, thread := range g.Threads {
		if thread.NIC == mac {
			threads++
		}
	}
	must.Hold(t, threads == 4, "%d vhost workers serve %s, expected 4", threads, mac)
	must.Equal(t, digest(Scrub(h)), digest(c), "scrubbed twice it differs")
	must.Hold(t, c.Guests[1].Interfaces[0].MAC != c.Guests[1].Interfaces[1].MAC, "two NICs have become one")
}

func TestScrubKeepsTheLikenessOfTaps(t *testing.T) {
	s := newScrubber(&Host{})
	guest, tap := s.mac("52:54:00:12:34:56"), s.mac("fe:54:00:12:34:56")
	must.Hold(t, guest[3:] == tap[3:] && guest != tap && guest != "52:54:00:12:34:56", "NIC %s, tap %s", guest, tap)
}

func TestScrubBoot(t *testing.T) {
	const machine = "4f6e1c2b7a5d4e0c9b3a8f7d6c5b4a39"
	h := &Host{
		Boot: &Boot{Next: machine + "-6.12.conf",
			Entries: []BootEntry{{ID: machine + "-6.12.conf",
				Arguments: "ro root=UUID=6fb441ef-c9ed-4df8-8f94-51a61b314603"}}},
		Attested: map[string]Attestation{"firmware.txt": {Value: "disabled", By: "Erika Mustermann"}},
	}
	c := Scrub(h)
	text := must.Get(json.Marshal(c))(t)
	must.Lack(t, string(text), machine, "6fb441ef", "Erika")
	if _, found := c.Boot.NextEntry(); !found || c.Attested["firmware.txt"].Value != "disabled" {
		t.Errorf("scrubbed beyond use: %s", text)
	}
}

// TestScrubInside: what a guest's agent told is scrubbed like the host, with the same replacements.
func TestScrubInside(t *testing.T) {
	h := Synthetic(Size{CPUs: 16, NICs: 1, Queues: 2, Guests: 1})
	g := &h.Guests[0]
	g.Name = "payroll"
	mac := g.Interfaces[0].MAC
	g.Inside = &Inside{Release: "5.14.0.1", OS: "Linux", Host: &Host{
		Name: "payroll.example.org", Root: "guest payroll",
		Kernel: Kernel{Release: "5.14.0.1",
			CommandLine: "ip=203.0.113.9 root=UUID=a81f45a7-c81f-45a7-839a-a6ab341a1fa9"},
		NICs: []NIC{{Name: "eth0", MAC: mac}}, Readings: Readings{},
	}}
	h.Readings[setting.InGuest("payroll", setting.Of(setting.Sysctl, "kernel.timer_migration"))] = setting.Value("1")
	c := Scrub(h)
	text := string(written(t, c))
	must.Lack(t, text, "payroll", "example.org", "203.0.113.9", "a81f45a7", `"`+mac+`"`)
	in := c.Guests[0].Inside
	must.Hold(t, in.Host != nil && in.Host.NICs[0].MAC == c.Guests[0].Interfaces[0].MAC && in.Release == "5.14.0.1" &&
		in.Host.Kernel.Release == "5.14.0.1", "%+v", in)
	if r := c.Readings.At(setting.InGuest(c.Guests[0].Name,
		setting.Of(setting.Sysctl, "kernel.timer_migration"))); r.Value != "1" {
		t.Errorf("its value is not at the guest's new name: %+v", r)
	}
	must.Try(t, must.Err(ReadSnapshot(strings.NewReader(text))))
	h.Guests[0].Inside.Host.NICs[0].TxQueues = 1 << 30
	var b strings.Builder
	must.Do(t, Write(&b, h, "test"))
	must.Fail(ReadSnapshot(strings.NewReader(b.String())))(t, "an inside that no machine has was accepted")
}

// TestScrubOfPaths: the ID of an embedded switch is made of a MAC address, sockets are named after guests.
func TestScrubOfPaths(t *testing.T) {
	h := &Host{NICs: []NIC{{Name: "a", PortName: "p0", SwitchID: "3cecef123456"}, {Name: "b", PortName: "pf0vf1",
		SwitchID: "3cecef123456"}, {Name: "c"}}, Guests: []Guest{{Name: "payroll",
		Interfaces: []Interface{{Type: "vhostuser", Source: "/run/payroll-eth0/payroll.sock"}}}},
		Pollers: []Poller{{Comm: "vpp", NICs: []string{"a"}}}}
	c := Scrub(h)
	must.Hold(t, c.NICs[0].SwitchID != h.NICs[0].SwitchID && c.NICs[0].SwitchID == c.NICs[1].SwitchID &&
		c.NICs[2].SwitchID == "" && c.NICs[0].PortName == "p0" && c.NICs[1].Representor(), "%+v", c.NICs)
	must.Lack(t, c.Guests[0].Interfaces[0].Source, "/payroll.sock")
	must.Equal(t, c.Pollers[0].Comm, "vpp", "%+v", c.Pollers)
}

func TestScrubLasting(t *testing.T) {
	a := setting.Of(setting.File, "var/lib/mpps/desired.json")
	h := &Host{
		Name: "box", Guests: []Guest{{Name: "payroll"}},
		Lasting: &Lasting{Program: "/home/jane/mpps",
			NetworkManager: []OwnedValue{{File: "/etc/NetworkManager/system-connections/Berlin office"}}},
		Readings: Readings{a: setting.Value(`"thread-affinity:payroll/vcpu/0" "52:54:00:aa:bb:cc"`)},
	}
	c := Scrub(h)
	must.Hold(t, c.Lasting.Program == "/usr/bin/mpps" &&
		c.Lasting.NetworkManager[0].File == "/etc/NetworkManager/system-connections/profile1", "%+v", c.Lasting)
	if text := c.Readings[a].Value; strings.Contains(text, "payroll") || strings.Contains(text, "aa:bb") {
		t.Errorf("a file holds %s", text)
	}
	must.Hold(t, h.Lasting.Program == "/home/jane/mpps" &&
		h.Lasting.NetworkManager[0].File == "/etc/NetworkManager/system-connections/Berlin office",
		"the original was changed: %+v", h.Lasting)
}
