package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestArgumentsTogether: several arguments take one run of a program, also when they are restored.
func TestArgumentsTogether(t *testing.T) {
	for name, runs := range map[string][]string{
		"debian12":     {"grub-mkconfig -o /boot/grub/.grub.cfg.mpps"},
		"rhel9":        {"grubby --update-kernel=ALL --remove-args=quiet --args=iommu=pt hugepagesz=1G hugepages=4"},
		"rhel8":        {"grubby --update-kernel=ALL --remove-args=quiet --args=iommu=pt hugepagesz=1G hugepages=4"},
		"el7":          {"grubby --update-kernel=ALL --remove-args=quiet --args=iommu=pt hugepagesz=1G hugepages=4"},
		"el7-uefi":     {"grubby --update-kernel=ALL --remove-args=quiet --args=iommu=pt hugepagesz=1G hugepages=4"},
		"systemd-boot": nil,
	} {
		t.Run(name, func(t *testing.T) {
			m := bootTree(t, name)
			stand := &standIn{t: t, m: m}
			k := kernelArg{m, stand.run}
			before := contents(t, m)
			forth, back := together(t, k)
			must.Do(t, k.WriteAll(t.Context(), forth))
			must.Same(t, stand.calls, runs, "ran")
			for _, one := range forth {
				if found := k.Read(t.Context(), one.Address); !found.Same(one.To) {
					t.Errorf("%s: wrote %s, found %s", one.Address, one.To, found)
				}
			}
			stand.calls = nil
			must.Do(t, k.WriteAll(t.Context(), back))
			must.Equal(t, len(stand.calls), len(runs), "ran %q on the way back", stand.calls)
			must.Empty(t, differences(before, contents(t, m)), "not as it was")
		})
	}
}

// together returns three changes and their reverse.
func together(t *testing.T, k kernelArg) (forth, back []setting.Assignment) {
	t.Helper()
	for _, c := range []struct {
		argument string
		to       setting.Reading
	}{{"iommu", setting.Value("pt")}, {"quiet", setting.Missing("")},
		{"hugepagesz+hugepages", setting.Value("hugepagesz=1G hugepages=4")}} {
		a := setting.Of(setting.KernelArg, c.argument)
		forth = append(forth, setting.Assignment{Address: a, To: c.to})
		back = append(back, setting.Assignment{Address: a, To: k.Read(t.Context(), a)})
	}
	return forth, back
}

// TestArgumentsCutShort stops the machine while arguments are changed. Then one file alone does not show what the next
// boot gets, and writing the former values restores every file, in one go or one by one.
func TestArgumentsCutShort(t *testing.T) {
	for _, name := range []string{"debian12", "rhel9", "rhel8", "el7", "el7-uefi", "systemd-boot"} {
		for _, dies := range []string{"before", "first", "behind", "emptied"} {
			for _, oneByOne := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", dies, " ", oneByOne), func(t *testing.T) {
					m := bootTree(t, name)
					stand := &standIn{t: t, m: m, dies: strings.Replace(dies, "emptied", "behind", 1)}
					k := kernelArg{m, stand.run}
					before := contents(t, m)
					forth, back := together(t, k)
					switch name {
					case "systemd-boot": // no program: the first of its files
						cutEntries(t, m, forth, dies)
					default:
						func() {
							defer func() {
								if r := recover(); r != nil && r != (stops{}) {
									panic(r)
								}
							}()
							must.Do(t, k.WriteAll(t.Context(), forth))
							t.Fatal("it did not stop")
						}()
					}
					stand.dies = ""
					if dies == "emptied" { // what a program has not brought to disk
						kept := backups(m, backupFolder)
						i := slices.IndexFunc(kept, func(name string) bool {
							return strings.Contains(name, "loader/entries/") || strings.HasSuffix(name, "grub.cfg")
						})
						must.Do(t, os.Truncate(filepath.Join(m.Path, kept[i]), 0))
					}
					leftover := tree.Draft("etc/default/grub")
					if err := os.WriteFile(filepath.Join(m.Path, leftover), []byte("half"), 0o644); err != nil &&
						name != "systemd-boot" {
						t.Fatal(err)
					}
					for _, one := range forth {
						if r := k.Read(t.Context(), one.Address); r.State != setting.Unknown || dies != "emptied" &&
							!strings.Contains(r.Why, "cut short") {
							t.Errorf("%s is %s (%s), expected unknown", one.Address, r, r.Why)
						}
					}
					if oneByOne {
						for _, one := range slices.Backward(back) {
							must.Do(t, k.Write(t.Context(), one.Address, one.To))
						}
					} else if err := k.WriteAll(t.Context(), back); err != nil {
						t.Fatal(err)
					}
					for _, one := range back {
						if found := k.Read(t.Context(), one.Address); !found.Same(one.To) {
							t.Errorf("%s: put back %s, found %s", one.Address, one.To, found)
						}
						must.Try(t, k.Tidy(t.Context(), one.Address))
					}
					if left := differences(before, contents(t, m)); len(left) > 0 {
						t.Errorf("not as it was: %v", left)
						for _, name := range left {
							t.Logf("%s:\n%s", name, contents(t, m)[name])
						}
					}
					must.Hold(t, !m.Exists(backupFolder), "/%s is left behind", backupFolder)
				})
			}
		}
	}
}

// cutEntries writes as writeEntries does, and stops midway.
func cutEntries(t *testing.T, m *tree.Tree, all []setting.Assignment, dies string) {
	t.Helper()
	var names []string
	for _, one := range all {
		names = append(names, one.Address.Path)
	}
	must.Do(t, addUnfinished(m, names))
	l := must.Get(readLoader(m))(t)
	for _, e := range l.entries {
		text, err := m.Read(e.file)
		must.Do(t, err)
		if err := backUp(m, e.file); err != nil || dies == "before" {
			return
		}
		for _, one := range all {
			if text, err = editOptions(text, one.Address.Path, one.To); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Replace(e.file, text); err != nil || dies == "first" {
			return
		}
	}
}
