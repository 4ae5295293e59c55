package systemd

import (
	"context"
	"fmt"
	"os"
	"time"

	"mpps/internal/machine/tree"
)

// DetachLater starts this program with other arguments after a time, with a transient timer of systemd. That needs
// neither this process nor its session, whose cgroup may be killed when the operator's connection ends. A failed start
// is repeated. done is false if systemd is not the init system.
func DetachLater(ctx context.Context, m *tree.Tree, unit, description string, after time.Duration,
	args ...string) (done bool, err error) {
	if !booted(m) {
		return false, nil
	}
	program, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("find this program: %w", err)
	}
	vector := append([]string{
		"--quiet", "--collect", "--unit=" + unit, "--description=" + description,
		fmt.Sprintf("--on-active=%dms", after.Milliseconds()), "--timer-property=AccuracySec=100ms",
		"--property=Type=exec", "--property=Restart=on-failure", "--property=RestartSec=1", "--", program,
	}, args...)
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	if _, err := m.Command(ctx, "systemd-run", vector...); err != nil {
		return false, err
	}
	return true, nil
}

// CancelLater stops a timer of DetachLater, if it still runs.
func CancelLater(ctx context.Context, m *tree.Tree, unit string) {
	if !booted(m) {
		return
	}
	ctx, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	// A timer that is not stopped starts a process that finds nothing to do.
	_, _ = m.Command(ctx, "systemctl", "stop", "--", unit+".timer")
}
