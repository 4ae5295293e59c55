package boot

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestLargeMenu: what no menu holds is refused before it is parsed, once for each argument.
func TestLargeMenu(t *testing.T) {
	large := strings.Repeat("menuentry 'a' {\nlinux /vmlinuz ro\n}\n", maxMenu/30)
	for _, name := range []string{"boot/grub/grub.cfg", "boot/grub2/grub.cfg"} {
		l, err := readLoader(treetest.Lines(t, map[string]string{name: large}))
		must.Hold(t, err != nil && !errors.Is(err, errNoLoader), "%s: %v, %v", name, l, err)
	}
	l, err := readLoader(treetest.Lines(t, map[string]string{"boot/loader/entries/a.conf": "linux /a\n" + large}))
	must.Hold(t, err == nil && len(l.entries) == 0 && strings.Contains(l.why, "larger"), "%+v, %v", l, err)
}

// TestManyEntries: a folder of more entries than anybody has kernels is refused before they are read.
func TestManyEntries(t *testing.T) {
	files := map[string]string{}
	for i := range maxEntries + 1 {
		files["boot/loader/entries/"+strconv.Itoa(i)+".conf"] = "linux /a\n"
	}
	if l, err := readLoader(treetest.Lines(t, files)); err == nil || errors.Is(err, errNoLoader) {
		t.Errorf("%+v, %v", l, err)
	}
	delete(files, "boot/loader/entries/0.conf")
	if l, err := readLoader(treetest.Lines(t, files)); err != nil || len(l.entries) != maxEntries {
		t.Errorf("%d entries, %v", len(l.entries), err)
	}
}

// TestManyOptions: lines of options are joined, whatever their number.
func TestManyOptions(t *testing.T) {
	text := "options  a\noptions\nlinux /vmlinuz\noptions b\n" + strings.Repeat("options c d\n", 80_000)
	e := parseLoaderEntry(text)
	if fields := strings.Fields(e["options"]); len(fields) != 160_002 || fields[0] != "a" || fields[1] != "b" {
		t.Errorf("%d words", len(fields))
	}
}
