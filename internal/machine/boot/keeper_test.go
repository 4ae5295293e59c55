package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestKeptByOthers: where another program writes the boot menu, or the files are not what boots, no argument can be
// changed, and none is changed.
func TestKeptByOthers(t *testing.T) {
	variable := func(name string) string {
		return "sys/firmware/efi/efivars/" + name + "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
	}
	systemd := "\x06\x00\x00\x00" + strings.Join(strings.Split("systemd-boot 257", ""), "\x00") + "\x00"
	for name, c := range map[string]struct {
		tree, file, text, why string
		read                  setting.State
	}{
		"a deployment of OSTree": {"rhel9", "boot/loader/entries/ostree-1.conf",
			"title Fedora CoreOS\nversion 1\noptions root=UUID=1 rw ostree=/ostree/boot.1/fedora/abc/0\nlinux /vmlinuz\n",
			"rpm-ostree kargs", setting.Known},
		"proxmox-boot-tool and GRUB": {"debian12", proxmoxDisks, "1234-ABCD\n", "proxmox-boot-tool", setting.Known},
		"proxmox-boot-tool and systemd-boot": {"systemd-boot", proxmoxDisks, "1234-ABCD\n", "proxmox-boot-tool",
			setting.Known},
		"systemd-boot whose entries are not mounted": {"debian12", variable("LoaderInfo"), systemd, "not mounted",
			setting.Unknown},
		"a unified kernel image": {"debian12", variable("StubInfo"), systemd, "part of the image", setting.Unknown},
		"zipl":                   {"systemd-boot", ziplConfig, "[defaultboot]\ndefaultauto\n", "zipl", setting.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, c.tree)
			file := filepath.Join(m.Root.Name(), c.file)
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, os.WriteFile(file, []byte(c.text), 0o644))
			before := contents(t, m)
			k, a := kernelArg{m: m}, setting.Of(setting.KernelArg, "quiet")
			r := k.Read(t.Context(), a)
			if r.State != c.read || r.State == setting.Known && !r.ReadOnly || !strings.Contains(r.Why, c.why) {
				t.Errorf("read %+v, expected a reason with %q", r, c.why)
			}
			must.Say(t, k.Write(t.Context(), a, setting.Missing("")), c.why, "written")
			must.Empty(t, differences(before, contents(t, m)), "changed")
			var h facts.Host
			Inventory(t.Context(), m, &h)
			if h.Boot == nil && len(h.Unseen) == 0 || h.Boot != nil && h.Boot.Frozen == "" {
				t.Errorf("nothing says why: %+v, %+v", h.Boot, h.Unseen)
			}
		})
	}
}
