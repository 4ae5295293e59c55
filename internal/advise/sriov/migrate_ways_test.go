package sriov

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestMigrateFailover plans a new pair, and the migration of an existing one.
func TestMigrateFailover(t *testing.T) {
	from, to := hosts()
	to.VFs[1].Holder = "process 7"
	m := migrationOf(t, from, MigrateRequest{Target: to, Failover: true})
	must.Need(t, len(m.Ways) == 1 && m.Ways[0].Name == "failover" && len(m.Ways[0].XML) == 1 && len(m.Missing()) <= 0,
		"%+v", m)
	must.Contain(t, m.Ways[0].XML[0], "<teaming type='persistent'/>", "<alias name='ua-standby0'/>",
		"<teaming type='transient' persistent='ua-standby0'/>", "<source bridge='br0'/>")
	must.Hold(t, strings.Count(m.Ways[0].XML[0], "bus='0x05' slot='0x00'") == 1,
		"both halves, or none, are where the function was:\n%s", m.Ways[0].XML[0])
	must.Hold(t, strings.Count(m.Ways[0].XML[0], "52:54:00:00:00:02") == 2,
		"not one address on both halves:\n%s", m.Ways[0].XML[0])
	wantsLines(t, m, "--xml vm1.kvm2.live.xml --persistent-xml vm1.kvm2.xml vm1 qemu+ssh://root@kvm2/system",
		"domain='\\''0x0000'\\'' bus='\\''0x41'\\'' slot='\\''0x02'\\'' function='\\''0x2'\\''")
	from.KVM.Libvirt, from.Guests[0].Machine = "6.0.0", "pc-i440fx-9.2"
	from.Guests[0].Inside = &facts.Inside{Release: "4.9.0-amd64"}
	if missing := migrationOf(t, from, MigrateRequest{Failover: true}).Missing(); len(missing) != 3 {
		t.Errorf("expected libvirt, machine type and the guest's kernel: %+v", missing)
	}

	from, _ = hosts()
	from.Guests[0].Definition = strings.Replace(vm1, "</interface>\n  </devices>", pair+"\n  </devices>", 1)
	m = migrationOf(t, from, MigrateRequest{})
	must.Hold(t, m.Live && len(m.Never) <= 0 && len(m.Ways) == 1 && m.Ways[0].Name == "failover", "a pair: %+v", m)
	wantsLines(t, m, "virsh migrate --live --persistent --verbose vm1 qemu+ssh://root@kvm2/system")
}

// TestMigrateOfAGuestThatIsOff: a guest that is off has one way, and it is not libvirt's offline migration.
func TestMigrateOfAGuestThatIsOff(t *testing.T) {
	from, to := hosts()
	from.Guests[0].State = "shut off"
	m := migrationOf(t, from, MigrateRequest{Target: to})
	must.Hold(t, len(m.Ways) == 1 && m.Ways[0].Name == "define-anew" && len(m.Never) == 1 &&
		strings.Contains(m.Never[0].Command, "--offline"), "%+v", m)
}

// TestMigrateRefuses: requests without a plan are refused with a reason.
func TestMigrateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*facts.Host)
		guest  string
		to     string
		why    string
	}{
		"no such guest":     {nil, "vm2", "kvm2", `no guest "vm2"`},
		"a flag for a host": {nil, "vm1", "-oProxyCommand=x", "the name or address of a host"},
		"a shell's text":    {nil, "vm1", "a b", "the name or address of a host"},
		"no function": {func(h *facts.Host) { h.VFs[1].PCI, h.Guests[0].Hostdevs = "0000:41:09.0", nil }, "vm1",
			"kvm2", "no virtual function"},
		"on its way": {func(h *facts.Host) { h.Guests[0].Job = "migration out" }, "vm1", "kvm2", "being migrated now"},
		"transient":  {func(h *facts.Host) { h.Guests[0].Definition = "" }, "vm1", "kvm2", "could not be read"},
	} {
		from, _ := hosts()
		if c.change != nil {
			c.change(from)
		}
		_, err := Migrate(from, MigrateRequest{Guest: c.guest, To: c.to})
		var refused *Refused
		must.Hold(t, errors.As(err, &refused) && strings.Contains(refused.Why, c.why) && refused.Advice != "",
			"%s: %v", name, err)
	}
}

// TestMigrateIsShell: every command is valid shell, also with quotes and spaces in names.
func TestMigrateIsShell(t *testing.T) {
	sh := must.Get(exec.LookPath("sh"))(t)
	from, to := hosts()
	from.Guests[0].Name = `it's a $(touch hacked) guest`
	for _, ask := range []MigrateRequest{{Target: to}, {}, {Failover: true, Target: to}} {
		ask.Guest, ask.To = from.Guests[0].Name, "kvm2"
		m := must.Get(Migrate(from, ask))(t)
		dir := t.TempDir()
		for _, name := range []string{"virsh", "mpps", "ip", "ssh", "rsync", "rm", "cp", "sed", "grep", "sleep"} {
			// what a program is given, one line a word; a wait ends at once
			text := "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\" >> \"$OUT\"\n[ ${0##*/} != grep ] || exit 0\n"
			if name == "virsh" {
				text += "echo 'shut off'\n"
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
		}
		for _, line := range linesOf(m) {
			if strings.HasPrefix(line, "until !") {
				continue // waits for a guest
			}
			out := filepath.Join(dir, "out")
			cmd := exec.Command(sh, "-eu", "-c", line)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir, "OUT=" + out}
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", line, err, text)
			}
			if strings.Contains(line, "virsh detach") || strings.Contains(line, "virsh start") {
				if got, err := os.ReadFile(out); err != nil || !strings.Contains(string(got), "\n"+from.Guests[0].Name+
					"\n") {
					t.Errorf("%s: %v: the name did not arrive whole:\n%s", line, err, got)
				}
			}
			os.Remove(out)
		}
		must.Fail(os.Stat(filepath.Join(dir, "hacked")))(t, "a guest's name was run")
	}
}
