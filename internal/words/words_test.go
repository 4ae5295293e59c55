package words

import (
	"testing"

	"mpps/internal/must"
)

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3 GiB", 3<<30 +
		1<<28: "3.2 GiB"} {
		must.Equal(t, Bytes(n), want, "%d", n)
	}
}

func TestDigits(t *testing.T) {
	cases := []struct {
		v, lo, hi float64
		want      string
	}{
		{8812, 8100, 9300, "8.8 k"}, {620, 617, 623, "620"}, {0, 0, 0, "0"}, {1234567, 1234000, 1235000, "1.235 M"},
		{99999,
			90000, 110000, "100 k"},
	}
	for _, c := range cases {
		must.Equal(t, Digits(c.v, c.lo, c.hi), c.want, "%v [%v, %v]", c.v, c.lo, c.hi)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"pcie_asmp", "pcie_aspm", 1}, {"abc", "", 3},
		{"kitten", "sitting", 3}} {
		if got := Distance(c.a, c.b); got != c.want || Distance(c.b, c.a) != c.want {
			t.Errorf("Distance(%q, %q) = %d; expected %d", c.a, c.b, got, c.want)
		}
	}
}

// TestNearest: a name is suggested if few of its letters were typed wrong, however short it is.
func TestNearest(t *testing.T) {
	names := []string{"audit", "top", "status", "report", "restore", "nic.ring.rx", "nic.mtu", "advice.ovs"}
	for typed, want := range map[string]string{
		"nope": "", "": "", "p": "", "zzz": "", "re": "", "advice.foo": "", "nic.foo": "", "xtopx": "",
		"audot": "audit", "tpo": "top", "topp": "top", "to": "top", "st": "status", "reprot": "report", "sta": "status",
		"nic.ring.xr": "nic.ring.rx", "nic.mut": "nic.mtu", "advise.ovs": "advice.ovs",
	} {
		if got := Nearest(typed, names); got != want {
			t.Errorf("Nearest(%q) = %q; expected %q", typed, got, want)
		}
	}
}
