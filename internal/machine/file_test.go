package machine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func scratch(t *testing.T, folders ...string) (*Machine, string) {
	t.Helper()
	root := t.TempDir()
	for _, folder := range folders {
		must.Do(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	m := must.Get(Open(root))(t)
	t.Cleanup(func() { m.Close() })
	return m, root
}

func TestFile(t *testing.T) {
	m, root := scratch(t, "etc/sysctl.d", "var/lib/mpps")
	all := m.Mechanisms()
	a := setting.Of(setting.File, "etc/sysctl.d/90-mpps.conf")
	name := filepath.Join(root, a.Path)
	const text = "a = 1\r\n\ttabs, no end of line"
	if r := all.Read(t.Context(), a); r.State != setting.Absent {
		t.Fatalf("%+v", r)
	}
	for _, value := range []string{text, "", "b\n"} {
		must.Do(t, all.Write(t.Context(), a, setting.Value(value)))
		if r := all.Read(t.Context(), a); r != setting.Value(value) {
			t.Errorf("reads back %+v, wrote %q", r, value)
		}
	}
	// An existing file keeps its owner and mode.
	must.Do(t, os.Chmod(name, 0o600))
	must.Do(t, all.Write(t.Context(), a, setting.Value(text)))
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; expected 0600", info.Mode(), err)
	}
	// Tidy removes the draft of an interrupted write.
	must.Do(t, os.WriteFile(filepath.Join(root, draft(a.Path)), nil, 0o600))
	must.Try(t, (file{m}).Tidy(t.Context(), a))
	must.Do(t, all.Write(t.Context(), a, setting.Missing("removed")))
	must.Empty(t, m.List("etc/sysctl.d"), "left behind")
	must.Succeed(t, all.Write(t.Context(), a, setting.Missing("removed")), "removing what is not there")
}

func TestFileRefuses(t *testing.T) {
	m, root := scratch(t, "etc/sysctl.d", "etc/ssh", "elsewhere")
	all := m.Mechanisms()
	for _, path := range []string{
		"etc/passwd", "etc/ssh/mpps", "etc/sysctl.d/99-other.conf", "etc/sysctl.d/sub/90-mpps.conf",
		"etc/sysctl.d/.90-mpps.conf", "var/lib/mpps/journal/mpps", "/etc/sysctl.d/90-mpps.conf",
		"etc//sysctl.d/90-mpps.conf",
	} {
		a := setting.Of(setting.File, path)
		must.Equal(t, all.Read(t.Context(), a).State, setting.Unknown, "%s reads", a)
		must.Refuse(t, all.Write(t.Context(), a, setting.Value("x")), "%s was written", a)
	}
	// A link and a file that is not text are left alone.
	must.Do(t, os.Symlink("/elsewhere/x", filepath.Join(root, "etc/sysctl.d/90-mpps.conf")))
	a := setting.Of(setting.File, "etc/sysctl.d/90-mpps.conf")
	must.Equal(t, all.Read(t.Context(), a).State, setting.Unknown, "a link reads")
	must.Refuse(t, all.Write(t.Context(), a, setting.Value("x")), "a link was replaced")
	must.Do(t, os.WriteFile(filepath.Join(root, "etc/sysctl.d/91-mpps.conf"), []byte{0xff, 0xfe}, 0o644))
	must.Equal(t, all.Read(t.Context(), setting.Of(setting.File, "etc/sysctl.d/91-mpps.conf")).State, setting.Unknown,
		"bytes read")
}

func TestDirectoryAndUnit(t *testing.T) {
	m, root := scratch(t, "etc/systemd/system/multi-user.target.wants")
	all := m.Mechanisms()
	d := setting.Of(setting.Directory, "etc/modprobe.d")
	if err := all.Write(t.Context(), d, setting.Value("present")); err != nil ||
		all.Read(t.Context(), d).Value != "present" {
		t.Fatalf("%+v, %v", all.Read(t.Context(), d), err)
	}
	must.Do(t, os.WriteFile(filepath.Join(root, d.Path, "other.conf"), nil, 0o644))
	must.Equal(t, all.Read(t.Context(), d).String(), "shared", "with a file of others")
	must.Refuse(t, all.Write(t.Context(), d, setting.Missing("")), "a directory with a file of others was removed")
	must.Do(t, os.Remove(filepath.Join(root, d.Path, "other.conf")))
	if err := all.Write(t.Context(), d, setting.Missing("")); err != nil ||
		all.Read(t.Context(), d).State != setting.Absent {
		t.Errorf("%v", err)
	}
	u := setting.Of(setting.Unit, "mpps-restore.service")
	if r := all.Read(t.Context(), u); r.State != setting.Absent {
		t.Fatalf("%+v", r)
	}
	if err := all.Write(t.Context(), u, setting.Value("enabled")); err != nil ||
		all.Read(t.Context(), u).Value != "enabled" {
		t.Errorf("%+v, %v", all.Read(t.Context(), u), err)
	}
	if err := all.Write(t.Context(), u, setting.Missing("")); err != nil ||
		all.Read(t.Context(), u).State != setting.Absent {
		t.Errorf("%+v, %v", all.Read(t.Context(), u), err)
	}
	must.Refuse(t, all.Write(t.Context(), setting.Of(setting.Unit, "sshd.service"), setting.Missing("")),
		"a unit of others was disabled")
}

func TestOwnersOfFiles(t *testing.T) {
	m, root := scratch(t, "etc/sysctl.d", "usr/lib/sysctl.d", "etc/tuned", "usr/lib/tuned/profiles/a",
		"usr/lib/tuned/b", "proc/7")
	for name, text := range map[string]string{
		"usr/lib/sysctl.d/50-a.conf": "net.core.dev_weight=1\n",
		"usr/lib/sysctl.d/60-b.conf": "# c\n-net/ipv4/conf/eth0.1/rp_filter = 0\nbroken\n",
		"etc/sysctl.d/50-a.conf":     "net.core.dev_weight = 2 \n", "etc/sysctl.conf": "vm.swappiness = 7\n",
		"etc/tuned/active_profile": "a\n", "proc/7/comm": "tuned\n",
		"usr/lib/tuned/profiles/a/tuned.conf": "[main]\ninclude=b\n[cpu]\ngovernor=performance\n[mine]\ntype=net\ndevices=eth0\nring=rx ${rings}\n[sysfs]\n/sys/kernel/mm/ksm/run=0\n", "usr/lib/tuned/b/tuned.conf": "[sysctl]\nvm.swappiness=30\n[main]\ninclude=a\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	l := m.Owners(t.Context()).Lasting
	got := facts.Map(l.Sysctls, func(v facts.OwnedValue) string { return v.File + " " + v.Key + "=" + v.Value })
	want := []string{"/etc/sysctl.d/50-a.conf net/core/dev_weight=2", "/usr/lib/sysctl.d/60-b.conf " +
		"net/ipv4/conf/eth0.1/rp_filter=0", "/etc/sysctl.conf vm/swappiness=7"}
	must.Hold(t, len(got) == len(want) && got[0] == want[0] && got[1] == want[1] && got[2] == want[2],
		"sysctl.d: %q, expected %q", got, want)
	must.Hold(t, l.Tuned != nil && l.Tuned.Running && l.Tuned.Profile == "a" && len(l.Tuned.Sysctls) != 0 &&
		l.Tuned.Sysctls[0].Value == "30", "TuneD: %+v", l.Tuned)
	file := "/usr/lib/tuned/profiles/a/tuned.conf"
	if options := []facts.OwnedValue{
		{Key: "cpu.governor", Value: "performance", File: file}, {Key: "net.ring", File: file, Of: "eth0"},
		{Key: "sysfs./sys/kernel/mm/ksm/run", Value: "0", File: file},
	}; !slices.Equal(l.Tuned.Options[:3], options) {
		t.Errorf("TuneD's options: %+v, expected %+v", l.Tuned.Options, options)
	}
}
