package facts

import (
	"strings"
	"testing"

	"mpps/internal/model/setting"
)

func TestScrubLasting(t *testing.T) {
	a := setting.Of(setting.File, "var/lib/mpps/desired.json")
	h := &Host{
		Name: "box", Guests: []Guest{{Name: "payroll"}},
		Lasting: &Lasting{Program: "/home/jane/mpps",
			NetworkManager: []OwnedValue{{File: "/etc/NetworkManager/system-connections/Berlin office"}}},
		Readings: Readings{a: setting.Value(`"thread-affinity:payroll/vcpu/0" "52:54:00:aa:bb:cc"`)},
	}
	c := Scrub(h)
	if c.Lasting.Program != "/usr/bin/mpps" ||
		c.Lasting.NetworkManager[0].File != "/etc/NetworkManager/system-connections/profile1" {
		t.Errorf("%+v", c.Lasting)
	}
	if text := c.Readings[a].Value; strings.Contains(text, "payroll") || strings.Contains(text, "aa:bb") {
		t.Errorf("a file holds %s", text)
	}
	if h.Lasting.Program != "/home/jane/mpps" ||
		h.Lasting.NetworkManager[0].File != "/etc/NetworkManager/system-connections/Berlin office" {
		t.Errorf("the original was changed: %+v", h.Lasting)
	}
}
