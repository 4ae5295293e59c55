//go:build netns

package change

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
)

// hearing keeps what failed.
type hearing struct {
	ops.Deaf
	failures []string
}

func (h *hearing) Failure(err error, _ string) { h.failures = append(h.failures, err.Error()) }

// TestWatchLeavesExpiredInSandbox: a rollback of what was not confirmed before a reboot is not repeated where /etc is
// read-only: it would put back a part. The watching process names it.
func TestWatchLeavesExpiredInSandbox(t *testing.T) {
	root := t.TempDir()
	weight, boot := filepath.Join(root, "proc/sys/net/core/dev_weight"), filepath.Join(root,
		"proc/sys/kernel/random/boot_id")
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	value := func() string {
		text, err := os.ReadFile(weight)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	write(weight, "64")
	write(boot, "11111111-1111-4111-8111-111111111111")
	for _, dir := range []string{"etc", "sys", "run"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	heard := &hearing{}
	env := &ops.Env{Root: root, Version: "test", Out: heard}
	watch := func(do func(r *Restorer)) {
		r, err := OpenRestorer(t.Context(), env, RestoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		do(r)
	}
	watch(func(r *Restorer) {
		p := &plan.Plan{Digest: "d", Goal: goal.Unlimited(), Changes: []plan.Change{{ID: "net.dev_weight",
			Address: setting.Of(setting.Sysctl, "net.core.dev_weight"), From: setting.Value("64"),
			To: setting.Value("128"), Want: setting.Exact("128"), Risk: "none", Lasts: setting.UntilReboot}}}
		if _, err := r.Run(t.Context(), p, apply.Options{Confirm: time.Minute}); err != nil {
			t.Fatal(err)
		}
	})
	write(boot, "22222222-2222-4222-8222-222222222222")
	etc := filepath.Join(root, "etc")
	if err := unix.Mount(etc, etc, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(etc, unix.MNT_DETACH) }()
	if err := unix.Mount("", etc, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	watching := func(r *Restorer) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_ = r.Watch(ctx) // a tree without a kernel has no events
	}
	watch(watching)
	if said := strings.Join(heard.failures, "\n"); value() != "128" ||
		!strings.Contains(said, "was not confirmed before the host rebooted") {
		t.Errorf("in the sandbox: %s, %v", value(), heard.failures)
	}
	if err := unix.Unmount(etc, 0); err != nil {
		t.Fatal(err)
	}
	if watch(watching); value() != "64" {
		t.Errorf("outside of it: %s, %v", value(), heard.failures)
	}
}
