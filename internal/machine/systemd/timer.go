package systemd

import (
	"context"
	"fmt"
	"os"
	"time"

	"mpps/internal/machine/tree"
)

// DetachLater starts this program with other arguments after a time, by a transient timer of systemd: it needs neither
// this process nor its session, whose control group may be emptied when the operator's connection ends. What it starts
// is tried again where it fails. Where systemd is not the init system done is false.
func DetachLater(ctx context.Context, m *tree.Tree, unit, description string, after time.Duration,
	args ...string) (done bool, err error) {
	if !(service{m}).systemd() {
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
	if _, err := m.Command(ctx, "", "systemd-run", vector...); err != nil {
		return false, err
	}
	return true, nil
}

// CancelLater takes a timer of DetachLater back; nothing happens where it is over or was never made.
func CancelLater(ctx context.Context, m *tree.Tree, unit string) {
	if !(service{m}).systemd() {
		return
	}
	ctx, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	// A timer that is not stopped starts a process that finds nothing to do.
	_, _ = m.Command(ctx, "", "systemctl", "stop", "--", unit+".timer")
}
