package inside

import (
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

func FuzzParseOSInfo(f *testing.F) {
	f.Add(`{"return":{"kernel-release":"6.1"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if got := parseOSInfo(libvirt.ReturnValue(text)); got != nil && got.Release == "" {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
