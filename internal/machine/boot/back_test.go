package boot

import (
	"fmt"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestPuttingBackCutShort stops the machine while arguments are restored. Restoring them again leaves every file as it
// was before the first change.
func TestPuttingBackCutShort(t *testing.T) {
	for _, name := range []string{"debian12", "rhel9", "rhel8", "el7", "el7-uefi", "systemd-boot"} {
		for _, dies := range []string{"before", "first", "behind"} {
			t.Run(fmt.Sprint(name, " ", dies), func(t *testing.T) {
				m := bootTree(t, name)
				stand := &standIn{t: t, m: m}
				k := kernelArg{m, stand.run}
				before := contents(t, m)
				forth, back := together(t, k)
				must.Do(t, k.WriteAll(t.Context(), forth))
				stand.dies = dies
				if name == "systemd-boot" { // no program: the first of its files
					cutEntries(t, m, back, dies)
				} else {
					untilItStops(t, func() error { return k.WriteAll(t.Context(), back) })
				}
				stand.dies = ""
				must.Do(t, k.WriteAll(t.Context(), back))
				for _, one := range back {
					if found := k.Read(t.Context(), one.Address); !found.Same(one.To) {
						t.Errorf("%s: put back %s, found %s", one.Address, one.To, found)
					}
					must.Try(t, k.Tidy(t.Context(), one.Address))
				}
				must.Empty(t, differences(before, contents(t, m)), "not as it was")
			})
		}
	}
}

// TestDefaultKernelPuttingBackCutShort does the same for the default kernel, for which GRUB's menu is regenerated.
func TestDefaultKernelPuttingBackCutShort(t *testing.T) {
	for _, dies := range []string{"before", "first", "behind"} {
		t.Run(dies, func(t *testing.T) {
			m := bootTree(t, "debian12")
			stand := &standIn{t: t, m: m}
			k := bootKernel{kernelArg{m, stand.run}}
			before := contents(t, m)
			was := k.Read(t.Context(), defaultKernel)
			must.Do(t, k.Write(t.Context(), defaultKernel, setting.Value("6.1.0-40-amd64")))
			stand.dies = dies
			untilItStops(t, func() error { return k.Write(t.Context(), defaultKernel, was) })
			stand.dies = ""
			must.Do(t, k.Write(t.Context(), defaultKernel, was))
			must.Try(t, k.Tidy(t.Context(), defaultKernel))
			if left := differences(before, contents(t, m)); len(left) > 0 ||
				!k.Read(t.Context(), defaultKernel).Same(was) {
				t.Errorf("not as it was: %v", left)
			}
		})
	}
}

// untilItStops runs f until the machine stops.
func untilItStops(t *testing.T, run func() error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && r != (stops{}) {
			panic(r)
		}
	}()
	err := run()
	t.Fatalf("it did not stop: %v", err)
}
