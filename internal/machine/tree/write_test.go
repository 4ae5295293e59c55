package tree

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestRefusalsNameWhatWasWanted(t *testing.T) {
	a := setting.Of(setting.NICRing, "eth0", "rx")
	err := Refusal(a, "9000", unix.EINVAL)
	if text := err.Error(); !strings.Contains(text, "nic-ring:eth0/rx") || !strings.Contains(text, "9000") ||
		!errors.Is(err, unix.EINVAL) {
		t.Errorf("refusal %q does not name value, wish and reason", text)
	}
	if err := Refusal(a, "1", fs.ErrPermission); strings.Contains(err.Error(), "needs root") != (os.Geteuid() != 0) {
		t.Errorf("refusal %q with user %d: it must say that it needs root where that would help", err, os.Geteuid())
	}
	if err := Refusal(a, "1", setting.ErrInDoubt); strings.Contains(err.Error(), "refused") ||
		!errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("%q: a write in doubt was not refused", err)
	}
	must.Fail(Canonical(a, setting.Missing("")))(t, "a ring cannot be written as absent")
}
