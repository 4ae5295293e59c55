//go:build netns

package change

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// hearing keeps what failed.
type hearing struct {
	ops.Deaf
	mu       sync.Mutex
	failures []string
}

func (h *hearing) Failure(err error, _ string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, err.Error())
}

func (h *hearing) said(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.failures, "\n"), text)
}

// TestWatchLeavesExpiredInSandbox: a rollback of what was not confirmed before a reboot is not repeated where /etc is
// read-only: it would put back a part. The watching process names it.
func TestWatchLeavesExpiredInSandbox(t *testing.T) {
	root := t.TempDir()
	weight, boot := filepath.Join(root, "proc/sys/net/core/dev_weight"), filepath.Join(root,
		"proc/sys/kernel/random/boot_id")
	write := func(name, text string) {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, []byte(text+"\n"), 0o644))
	}
	value := func() string {
		text := must.Get(os.ReadFile(weight))(t)
		return strings.TrimSpace(string(text))
	}
	write(weight, "64")
	write(boot, "11111111-1111-4111-8111-111111111111")
	for _, dir := range []string{"etc", "sys", "run"} {
		must.Do(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	heard := &hearing{}
	env := &ops.Env{Root: root, Version: "test", Out: heard}
	watch := func(do func(r *Restorer)) {
		r := must.Get(OpenRestorer(t.Context(), env, RestoreOptions{}))(t)
		defer r.Close()
		do(r)
	}
	watch(func(r *Restorer) {
		p := &plan.Plan{Digest: "d", Goal: goal.Unlimited(), Changes: []plan.Change{{ID: "net.dev_weight",
			Address: setting.Of(setting.Sysctl, "net.core.dev_weight"), From: setting.Value("64"),
			To: setting.Value("128"), Want: setting.Exact("128"), Risk: "none", Lasts: setting.UntilReboot}}}
		must.Get(r.Run(t.Context(), p, apply.Options{Confirm: time.Minute}))(t)
	})
	write(boot, "22222222-2222-4222-8222-222222222222")
	etc := filepath.Join(root, "etc")
	must.Do(t, unix.Mount(etc, etc, "", unix.MS_BIND, ""))
	defer func() { _ = unix.Unmount(etc, unix.MNT_DETACH) }()
	must.Do(t, unix.Mount("", etc, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	until := func(holds func() bool) func(r *Restorer) {
		return func(r *Restorer) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			go func() {
				defer cancel()
				for ctx.Err() == nil && !holds() {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(300 * time.Millisecond) // and nothing else happens
			}()
			_ = r.Watch(ctx) // a tree without a kernel has no events
		}
	}
	const left = "was not confirmed before the host rebooted"
	watch(until(func() bool { return heard.said(left) }))
	must.Hold(t, value() == "128" && heard.said(left), "in the sandbox: %s, %v", value(), heard.failures)
	must.Do(t, unix.Unmount(etc, 0))
	watch(until(func() bool { return value() == "64" }))
	must.Hold(t, value() == "64", "outside of it: %s, %v", value(), heard.failures)
}
