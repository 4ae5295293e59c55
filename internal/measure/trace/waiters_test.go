package trace

import (
	"strings"
	"testing"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
)

// TestUntold: on a machine of its own, and as a guest without paravirtual spinlocks, it is said that waits are not all
// that there are.
func TestUntold(t *testing.T) {
	for _, c := range []struct{ virtual, arch, why string }{
		{"", "amd64", "queue behind it"}, {"", "arm64", "queue behind it"}, {"kvm", "arm64", "queue behind it"},
		{"kvm", "amd64", ""}, {"xen", "amd64", ""}, {"tcg", "amd64", "as a guest of tcg"},
		{"unknown", "amd64", "no wait at all"},
	} {
		u := unseenWaits(c.virtual, c.arch)
		if (u.Blind == queuepath.BlindFirst) != (c.why != "") || !strings.Contains(u.Why, c.why) {
			t.Errorf("%+v: %+v", c, u)
		}
	}
	w := &watcher{inventory: &inventory{host: &facts.Host{}}}
	if u := w.unseenWaits(); u.What == "" {
		t.Error("on bare metal nothing is said")
	}
	for text, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n": true, "flags\t\t: fpu vme\n": false,
		"model name\t: hypervisor\n": false, "": false,
	} {
		if guestFlag(text) != want {
			t.Errorf("%q: expected %v", text, want)
		}
	}
}
