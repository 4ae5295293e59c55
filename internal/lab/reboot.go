package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// grubConfig is the boot menu that L1's update-grub writes, grubEnvironment the file of GRUB's variables.
const (
	grubConfig      = "boot/grub/grub.cfg"
	grubEnvironment = "boot/grub/grubenv"
)

// guestReset is the Reason of a QEMU whose L1 rebooted (or whose kernel panicked).
const guestReset = "guest-reset"

// Reboot makes L1 reboot itself (systemctl reboot, or in Shell mode sync and reboot(2)) and boots it as its own boot
// menu says: with the arguments that its grub.cfg yields. It also continues a reboot that L1 began by itself. It needs
// Persist, without which L1 would lose its boot menu.
func (l *Lab) Reboot(ctx context.Context) error {
	unlock, err := lockName(ctx, l.Name(), func() {})
	if err != nil {
		return err
	}
	defer unlock()
	if !l.st.Config.Persist {
		return fmt.Errorf("lab %s: want Persist for a reboot: its file system starts afresh with each boot", l.Name())
	}
	if l.running() {
		argv := []string{"systemctl", "reboot"}
		if l.st.Config.Mode == Shell {
			argv = []string{"systemctl", "--force", "--force", "reboot"} // reboot(2), after a sync
		}
		if _, err := l.Run(ctx, argv...); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
	}
	down, cancel := context.WithTimeout(ctx, l.bootLimit())
	defer cancel()
	reason, err := l.Wait(down)
	if err != nil {
		return fmt.Errorf("lab %s: did not go down within %v: %w", l.Name(), l.bootLimit(), err)
	}
	if reason != guestReset {
		return fmt.Errorf("lab %s: ended with %q instead of rebooting: %s", l.Name(), reason,
			logTail(l.LogFile("serial"), 3))
	}
	return l.restart(ctx)
}

// menu returns the result of L1's boot menu: the release of a kernel that the lab has, and its arguments without those
// for the root, which the lab sets itself.
func (l *Lab) menu(ctx context.Context) (release string, kept []string, err error) {
	config, err := l.hostFile(ctx, grubConfig)
	if err != nil {
		return "", nil, fmt.Errorf("L1's boot menu: %w", err)
	}
	environment, err := l.hostFile(ctx, grubEnvironment)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("L1's boot menu: %w", err)
	}
	kernel, args, err := grubDefault(config, environment)
	if err != nil {
		return "", nil, fmt.Errorf("L1's boot menu: /%s: %w", grubConfig, err)
	}
	release = strings.TrimPrefix(kernel, "/boot/vmlinuz-")
	usual, realtime := l.Releases()
	if release == kernel || release != usual && (realtime == "" || release != realtime) {
		return "", nil, fmt.Errorf("L1's boot menu: /%s boots %s, expected /boot/vmlinuz-%s", grubConfig, kernel, usual)
	}
	for _, a := range args {
		if a != "ro" && !strings.HasPrefix(a, "root=") {
			kept = append(kept, a)
		}
	}
	return release, kept, nil
}

// hostFile reads a file of L1 while L1 is off: from its upper layer, else from its tree.
func (l *Lab) hostFile(ctx context.Context, name string) (string, error) {
	switch {
	case l.st.Config.Disk:
		text, err := diskFile(ctx, filepath.Join(l.data, "upper.img"), "/u/"+name)
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	case l.st.Config.Persist:
		upper := filepath.Join(l.data, "upper", "u", name)
		info, err := os.Lstat(upper)
		if err == nil && info.Mode()&fs.ModeCharDevice != 0 { // how overlayfs marks a file that was removed
			return "", fmt.Errorf("/%s: %w", name, fs.ErrNotExist)
		}
		if err == nil {
			return readAll(upper)
		}
	}
	var below []string
	for _, part := range l.st.Config.Realtime.over() {
		below = append(below, filepath.Join(l.over.dir, part))
	}
	for _, root := range append(below, l.tree.Root()) {
		if text, err := readAll(filepath.Join(root, name)); !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	}
	return "", fmt.Errorf("/%s: %w", name, fs.ErrNotExist)
}

// diskFile reads a file of an ext4 image. It replays the journal first, as the next mount would.
func diskFile(ctx context.Context, image, name string) (string, error) {
	if _, err := os.Stat(image); err != nil {
		return "", err
	}
	var exit *exec.ExitError
	// 1: mended
	if _, err := output(ctx, nil, "e2fsck", "-p", image); err != nil &&
		!(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return "", err
	}
	stat, err := output(ctx, nil, "debugfs", "-R", "stat "+name, image)
	if err != nil {
		return "", err
	}
	if !strings.Contains(stat, "Inode:") {
		return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if !strings.Contains(stat, "Type: regular") {
		return "", fmt.Errorf("%s: is no regular file", name)
	}
	return output(ctx, nil, "debugfs", "-R", "cat "+name, image)
}
