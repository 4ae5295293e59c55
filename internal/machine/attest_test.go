package machine

import (
	"testing"
	"time"

	"mpps/internal/model/facts"
)

func TestAttest(t *testing.T) {
	m := lines(t, map[string]string{"proc/cmdline": ""})
	at := time.Date(2026, 5, 1, 2, 3, 4, 5, time.FixedZone("", 7200))
	if before, err := m.Attest("firmware.txt", "disabled", "Erika", at); err != nil || before.Value != "" {
		t.Fatal(before, err)
	}
	if before, err := m.Attest("firmware.txt", "enabled", "Max", at); err != nil || before.Value != "disabled" ||
		before.By != "Erika" {
		t.Fatal(before, err)
	}
	var h facts.Host
	m.readAttestations(t.Context(), &h)
	if a := h.Attested["firmware.txt"]; len(h.Attested) != 1 || a.Value != "enabled" || a.By != "Max" ||
		!a.At.Equal(time.Date(2026, 5, 1, 0, 3, 4, 0, time.UTC)) {
		t.Errorf("found %+v", h.Attested)
	}
	if _, err := m.Attest("firmware.txt", "", "", at); err != nil || m.Exists(attestFile) {
		t.Errorf("%v, file there: %v", err, m.Exists(attestFile))
	}
}
