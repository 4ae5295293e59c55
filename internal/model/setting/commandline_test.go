package setting

import (
	"slices"
	"testing"

	"mpps/internal/must"
)

func TestParseCommandLine(t *testing.T) {
	for text, want := range map[string][]string{
		"":                   nil,
		"  ro\tquiet \n":     {"ro", "quiet"},
		`a="b c" d`:          {`a="b c"`, "d"},
		`dyndbg="file x +p"`: {`dyndbg="file x +p"`},
		`"a=b c" d`:          {`"a=b c"`, "d"},
		`open="x y`:          {`open="x y`},
	} {
		if got := ParseCommandLine(text); !slices.Equal(got, CommandLine(want)) {
			t.Errorf("%q is %q, expected %q", text, got, want)
		}
	}
}

func TestGetArgument(t *testing.T) {
	c := ParseCommandLine(`BOOT_IMAGE=/vmlinuz ro quiet nohz-full=2-5 hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=512 x=present empty= console=tty0 console=ttyS0 dyndbg="file a +p" -- quiet debug`)
	for path, want := range map[string]string{
		"quiet": Flag, "nohz_full": "2-5", "hugepagesz": "1G 2M", "hugepagesz+hugepages": "hugepagesz=1G hugepages=4 " +
			"hugepagesz=2M hugepages=512",
		"x": `"present"`, "empty": "", "console": "tty0 ttyS0", "debug": "absent", "iommu": "absent",
		"dyndbg": "file a +p",
	} {
		must.Equal(t, c.Get(path).String(), want, "%s", path)
	}
	must.Hold(t, c.Get("dyndbg").ReadOnly && !c.Get("nohz_full").ReadOnly,
		"only what cannot be written safely is read only")
}

func TestWithArgument(t *testing.T) {
	for _, c := range []struct {
		line, path string
		to         Reading
		want       string
	}{
		{"ro quiet", "iommu", Value("pt"), "ro quiet iommu=pt"},
		{"ro quiet", "quiet", Missing(""), "ro"},
		{"ro rhgb", "quiet", Value(Flag), "ro rhgb quiet"},
		{"ro isolcpus=1 quiet", "isolcpus", Value("managed_irq,domain,2-3"),
			"ro isolcpus=managed_irq,domain,2-3 quiet"},
		{"ro nohz-full=1 quiet", "nohz_full", Value("2"), "ro nohz_full=2 quiet"},
		{"console=tty0 ro console=ttyS0", "console", Value("ttyS1"), "console=ttyS1 ro"},
		{"console=tty0 ro console=ttyS0", "console", Value("tty0 ttyS0"), "console=tty0 console=ttyS0 ro"},
		{"ro -- single", "iommu", Value("pt"), "ro iommu=pt -- single"},
		{"ro intel_iommu=on", "iommu", Missing(""), "ro intel_iommu=on"},
		{"ro hugepages=3", "hugepagesz+hugepages", Value("hugepagesz=1G hugepages=0:4,1:4"),
			"ro hugepagesz=1G hugepages=0:4,1:4"},
		{"ro", "x", Value(`"present"`), "ro x=present"},
		{"ro", "x", Value(""), "ro x="},
	} {
		got, err := ParseCommandLine(c.line).With(c.path, c.to)
		must.Hold(t, err == nil && got.String() == c.want,
			"%q with %s %v is %q (%v), expected %q", c.line, c.path, c.to, got, err, c.want)
	}
	for path, value := range map[string]string{
		"x": "$(reboot)", "y": "a'b", "z;reboot": "`1`", "hugepagesz+hugepages": "init=/bin/sh", "w": `a"b`,
	} {
		if got, err := ParseCommandLine("ro").With(path, Value(value)); err == nil {
			t.Errorf("%s=%s became %q", path, value, got)
		}
	}
	must.Fail(ParseCommandLine("ro").With("x", CouldNotTell("")))(t, "an unknown value was written")
}

// FuzzCommandLine: what was written is read back, and taking it away again leaves the other words as they were.
func FuzzCommandLine(f *testing.F) {
	f.Add("BOOT_IMAGE=/vmlinuz ro quiet", "iommu", "pt")
	f.Add(`a="b c" -- x`, "hugepagesz+hugepages", "hugepagesz=1G hugepages=4")
	f.Add("x-y=1", "x_y", "present")
	f.Fuzz(func(t *testing.T, line, path, value string) {
		a, err := ParseAddress("kernel-arg:" + path)
		if err != nil {
			return
		}
		canonical, err := Kinds[KernelArg].Canonical(value)
		if err != nil {
			return
		}
		before := ParseCommandLine(line)
		after, err := before.With(a.Path, Value(canonical))
		if err != nil {
			return
		}
		if got := after.Get(a.Path); !got.Same(Value(canonical)) {
			t.Errorf("%q with %s=%q is %q and reads %q", line, path, canonical, after, got)
		}
		if again := ParseCommandLine(after.String()); !slices.Equal(again, after) {
			t.Errorf("%q is read again as %q", after, again)
		}
		if rest := after.Without(a.Path); !rest.SameWords(before.Without(a.Path)) {
			t.Errorf("%q lost other words: %q", line, rest)
		}
	})
}

// TestMemParse: mm/hugetlb.c passes no end pointer to memparse, so what follows the suffix does not count.
func TestMemParse(t *testing.T) {
	for text, want := range map[string]uint64{"2M": 2 << 20, "1G": 1 << 30, "1GB": 1 << 30, "1g": 1 << 30,
		"1024M": 1 << 30, "16gb": 16 << 30, "65536": 65536, "64K": 64 << 10, "": 0, "G": 0, "1X": 1} {
		if bytes, ok := MemParse(text); bytes != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v, expected %d", text, bytes, ok, want)
		}
	}
}
