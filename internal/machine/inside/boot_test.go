package inside

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// mkconfig is a grub-mkconfig that reads /etc/default as Debian's does and writes the kernels' lines.
const mkconfig = `#!/bin/sh
set -e
. etc/default/grub
for x in etc/default/grub.d/*.cfg; do if [ -e "$x" ]; then . "./$x"; fi; done
sed -E -e "s|^(\t+linux\t[^ ]+ root=[^ ]+ ro single ).*|\1$GRUB_CMDLINE_LINUX|; t" \
	-e "s|^(\t+linux\t[^ ]+ root=[^ ]+ ro ).*|\1$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT|" \
	boot/grub/grub.cfg >"$2"
`

// bootGuest returns guests whose vm1 has the boot files of a recorded machine, and what they are at the beginning.
func bootGuest(t *testing.T, recorded string) (in *Guests, agent *thisMachine, began map[string]string) {
	t.Helper()
	agent = &thisMachine{t: t, dir: t.TempDir()}
	must.Do(t, os.CopyFS(agent.dir, os.DirFS("../boot/testdata/boot/"+recorded)))
	must.Do(t, os.MkdirAll(filepath.Join(agent.dir, "var/lib"), 0o755))
	if recorded == "debian12" {
		program := filepath.Join(agent.dir, "usr/sbin/grub-mkconfig")
		must.Do(t, os.WriteFile(program, []byte(mkconfig), 0o755))
		must.Do(t, os.Chmod(program, 0o755))
		must.Do(t, (remote{agent, "vm1"}).Run(t.Context(), "", "grub-mkconfig", "-o", "/boot/new"))
		must.Do(t, os.Rename(filepath.Join(agent.dir, "boot/new"), filepath.Join(agent.dir, "boot/grub/grub.cfg")))
	}
	return withStatus(t, statusFile("running", "", connected), agent), agent, listing(t, agent.dir)
}

// listing returns the texts and permissions of all files below a directory, and its directories.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			all[name] = "directory"
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = fmt.Sprintf("%v %s", info.Mode(), text)
		return err
	}))
	return all
}

func guestArg(name string) setting.Address { return setting.Of(setting.GuestArg, "vm1", name) }

// realtimeArguments are what a realtime guest is given.
func realtimeArguments() []setting.Assignment {
	return []setting.Assignment{
		{Address: guestArg("isolcpus"), To: setting.Value("managed_irq,domain,1-3")},
		{Address: guestArg("nohz_full"), To: setting.Value("1-3")},
		{Address: guestArg("idle"), To: setting.Value("poll")},
	}
}

func absent(all []setting.Assignment) []setting.Assignment {
	all = slices.Clone(all)
	for i := range all {
		all[i].To = setting.NotThere().Target()
	}
	return all
}

// TestArguments sets the arguments of guests with the files of real distributions and puts them back, byte for byte.
func TestArguments(t *testing.T) {
	for _, recorded := range []string{"debian12", "systemd-boot"} {
		t.Run(recorded, func(t *testing.T) {
			in, agent, began := bootGuest(t, recorded)
			arguments := in.Arguments()
			all := realtimeArguments()
			if r := arguments.Read(t.Context(), guestArg("isolcpus")); r.State != setting.Absent || r.ReadOnly {
				t.Fatalf("at the beginning: %+v", r)
			}
			must.Do(t, arguments.WriteAll(t.Context(), all))
			for _, one := range all {
				if r := arguments.Read(t.Context(), one.Address); !r.Same(one.To) {
					t.Errorf("%s is %s, expected %s", one.Address, r, one.To)
				}
			}
			set := listing(t, agent.dir)
			for name, text := range set {
				base := filepath.Base(name)
				if menu := base == "grub.cfg" || strings.HasSuffix(base, "amd64.conf"); menu && !strings.Contains(name, "mpps") &&
					(!strings.Contains(text, "isolcpus=managed_irq,domain,1-3") || text[:10] != began[name][:10]) {
					t.Errorf("%s:\n%s", name, text)
				}
			}
			must.Do(t, arguments.WriteAll(t.Context(), absent(all)))
			must.NoDiff(t, cmp.Diff(began, listing(t, agent.dir)), "put back, the guest is not as before")
		})
	}
}

// TestArgumentsOfLoaderWithoutWay: EL7 without grubby.
func TestArgumentsOfLoaderWithoutWay(t *testing.T) {
	in, agent, _ := bootGuest(t, "el7")
	must.Do(t, os.RemoveAll(filepath.Join(agent.dir, "usr/sbin/grubby")))
	must.Do(t, os.RemoveAll(filepath.Join(agent.dir, "sbin/grubby")))
	began := listing(t, agent.dir)
	if r := in.Arguments().Read(t.Context(), guestArg("isolcpus")); r.State != setting.Absent || !r.ReadOnly {
		t.Errorf("it reads as %+v", r)
	}
	must.Refuse(t, in.Arguments().WriteAll(t.Context(), realtimeArguments()), "it was written")
	must.NoDiff(t, cmp.Diff(began, listing(t, agent.dir)), "refused, and changed")
}

// TestArgumentsOfGuestThatVanishes has the guest end after each of the programs of a change in turn. When it is back,
// what was set is either known or said to be cut short, and putting it back leaves nothing.
func TestArgumentsOfGuestThatVanishes(t *testing.T) {
	for _, recorded := range []string{"debian12", "systemd-boot"} {
		t.Run(recorded, func(t *testing.T) {
			cut := 0
			for vanish := 3; ; vanish += 2 { // a program is started with one call, and its end seen with the next
				in, agent, began := bootGuest(t, recorded)
				agent.asked, agent.vanish, agent.because = 0, vanish, libvirt.ErrNotRunning
				err := in.Arguments().WriteAll(t.Context(), realtimeArguments())
				agent.vanish = 0
				r := in.Arguments().Read(t.Context(), guestArg("nohz_full"))
				switch {
				case err == nil:
					must.Hold(t, r.Same(setting.Value("1-3")), "written at once, and it is %s", r)
					must.Hold(t, cut != 0, "of %d changes none was seen cut short", vanish)
					return
				case r.State == setting.Unknown:
					cut++
				case r.State != setting.Absent && !r.Same(setting.Value("1-3")):
					t.Errorf("after call %d: %+v", vanish, r)
				}
				must.Succeed(t, in.Arguments().WriteAll(t.Context(), absent(realtimeArguments())),
					"after call %d", vanish)
				must.Do(t, in.Arguments().Tidy(t.Context(), guestArg("idle")))
				if d := cmp.Diff(began, listing(t, agent.dir)); d != "" {
					t.Fatalf("after call %d the guest is not as before: %s", vanish, d)
				}
			}
		})
	}
}

// TestArgumentsOfGuestThatIsOff: its disk still has them, and nobody can look.
func TestArgumentsOfGuestThatIsOff(t *testing.T) {
	in := withStatus(t, "", &thisMachine{t: t})
	must.Equal(t, in.Arguments().Read(t.Context(), guestArg("idle")).State, setting.Absent, "of no guest")
	must.Do(t, in.tree.MakeFolder(libvirt.DefinedFolder))
	must.Do(t, in.tree.Replace(libvirt.DefinedFolder+"/vm1.xml", "<domain/>"))
	must.Equal(t, in.Arguments().Read(t.Context(), guestArg("idle")).State, setting.Unknown, "of a guest that is off")
	must.Refuse(t, in.Arguments().WriteAll(t.Context(), realtimeArguments()), "of a guest that is off it was written")
}

// archive returns a tar archive of files; a text "-> TARGET" is a link.
func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(files[name])), Mode: 0o644}
		if target, isLink := strings.CutPrefix(files[name], "-> "); isLink {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		must.Do(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			must.Get(w.Write([]byte(files[name])))(t)
		}
	}
	must.Do(t, w.Close())
	return b.String()
}

// TestHostileBootFiles: what a guest reports of its boot loader costs no view of the rest, and little time.
func TestHostileBootFiles(t *testing.T) {
	many := map[string]string{}
	for i := range 2 * maxBootFiles {
		many[fmt.Sprintf("boot/loader/entries/%d.conf", i)] = "linux /vmlinuz\n"
	}
	const entry = "menuentry 'x' {\n\tlinux /vmlinuz-1 ro\n}\n"
	for name, c := range map[string]struct {
		archive string
		known   bool
	}{
		"outside":       {archive(t, map[string]string{"etc/shadow": "root"}), false},
		"above":         {archive(t, map[string]string{"boot/../../etc/shadow": "root"}), false},
		"no archive":    {strings.Repeat("x", 4096), false},
		"too many":      {archive(t, many), false},
		"circle":        {archive(t, map[string]string{"boot/grub": "-> grub2", "boot/grub2": "-> grub"}), false},
		"absolute link": {archive(t, map[string]string{"boot/grub/grub.cfg": "-> /boot/x.conf", "boot/x.conf": entry}), true},
		"too large": {archive(t, map[string]string{"boot/grub/grub.cfg": entry + strings.Repeat("#", maxBootFile)}),
			false},
		"nested": {archive(t, map[string]string{"boot/grub/grub.cfg": strings.Repeat("submenu a {\n", 8000) +
			strings.Repeat(entry, 2000)}), true},
		"good": {archive(t, map[string]string{"boot/grub/grub.cfg": entry}), true},
	} {
		h := &facts.Host{}
		readBoot(t.Context(), "vm1", []libvirt.Result{{Out: c.archive}, {}, {}, {}}, h)
		must.Equal(t, h.Boot != nil, c.known, "%s: %+v, unseen %+v", name, h.Boot, h.Unseen)
	}
	must.Fail(tree.NewMemory(t.Context()).Remote("vm1", fetched{{Failed: os.ErrNotExist}, {}, {}, {}}))(t,
		"a guest without tar has no boot loader, and no reason")
}
