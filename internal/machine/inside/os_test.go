package inside

import (
	"strings"
	"testing"

	"mpps/internal/machine/libvirt"
	"mpps/internal/model/facts"
)

func TestParseOSInfo(t *testing.T) {
	text := `{"return":{"name":"Debian GNU/Linux","kernel-release":"6.12.48+deb13-amd64","version":"13 (trixie)","pretty-name":"Debian GNU/Linux 13 (trixie)","version-id":"13","kernel-version":"#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1","machine":"x86_64","id":"debian"}}`
	want := facts.Inside{Release: "6.12.48+deb13-amd64", Version: "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1",
		OS: "Debian GNU/Linux 13 (trixie)"}
	if got := parseOSInfo(libvirt.ReturnValue("\n" + text + "\n\n")); got == nil || *got != want {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{"", "{}", "error: Guest agent is not responding", `{"return":{}}`, `{"return":[]}`} {
		if got := parseOSInfo(libvirt.ReturnValue(text)); got != nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestNamesOfGuestAreShort: what a guest calls itself is a name, and not the megabytes that its agent can send.
func TestNamesOfGuestAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	got := parseOSInfo(libvirt.ReturnValue(`{"return":{"kernel-release":"` + long + `","kernel-version":"` + long +
		`","pretty-name":"` + long + `"}}`))
	if len(got.Release)+len(got.Version)+len(got.OS) > 2000 {
		t.Errorf("%d, %d and %d bytes", len(got.Release), len(got.Version), len(got.OS))
	}
	if why := (libvirt.Result{Code: 1, Err: long}).Problem().Error(); len(why) > 500 {
		t.Errorf("why a program failed takes %d bytes", len(why))
	}
}

func FuzzParseOSInfo(f *testing.F) {
	f.Add(`{"return":{"kernel-release":"6.1"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if got := parseOSInfo(libvirt.ReturnValue(text)); got != nil && got.Release == "" {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
