package guestinit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// IsInit reports whether this process is a guest's init: process 1, started as /init from an initramfs. The first
// process of a container has another root file system than the kernel's own, which is ramfs or tmpfs (init/do_mounts.c,
// init_rootfs).
func IsInit() bool {
	var root unix.Statfs_t
	return os.Getpid() == 1 && filepath.Base(os.Args[0]) == "init" && unix.Statfs("/", &root) == nil &&
		(root.Type == unix.RAMFS_MAGIC || root.Type == unix.TMPFS_MAGIC)
}

// grace is the time for serve to return after its context ended.
const grace = 2 * time.Second

// Run runs a guest. It does not return: it powers the guest off when serve returns or panics, or when the power button
// is pressed. Errors before that go to the console and do not prevent serve from starting.
func Run(serve func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	say(setup(ctx, stop))
	go reap()
	go runAgent(ctx)
	runServers(ctx)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		done <- serve(ctx)
	}()
	fmt.Printf("guest: up after %s\n", uptime())
	select {
	case err := <-done:
		say(err)
	case <-ctx.Done():
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				say(err)
			}
		case <-time.After(grace):
			fmt.Println("guest: does not end by itself")
		}
	}
	stop()
	fmt.Println("guest: power off")
	unix.Sync()
	say(unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
	select {} // an init that ends panics the kernel
}

func say(err error) {
	if err != nil {
		fmt.Println("guest:", err)
	}
}

// setup does everything before serve, and continues after errors: a guest with a NIC missing can still be asked what is
// wrong.
func setup(ctx context.Context, stop func()) error {
	var errs []error
	for _, m := range []struct{ fs, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
		{"tmpfs", "/dev/shm"}, {"bpf", "/sys/fs/bpf"}, {"tracefs", "/sys/kernel/tracing"},
	} {
		if m.dir == "/dev/shm" { // devtmpfs comes without it
			errs = append(errs, os.MkdirAll(m.dir, 0o755))
		}
		if err := unix.Mount(m.fs, m.dir, m.fs, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, fmt.Errorf("mount %s: %w", m.dir, err))
		}
	}
	for k, v := range map[string]string{"PATH": "/bin", "HOME": "/", "TMPDIR": "/tmp"} {
		errs = append(errs, os.Setenv(k, v))
	}
	b, err := os.ReadFile("/proc/cmdline")
	errs = append(errs, err)
	c, err := ParseCmdline(string(b))
	errs = append(errs, err)
	if c.Hostname != "" {
		errs = append(errs, unix.Sethostname([]byte(c.Hostname)))
	}
	errs = append(errs, loadModules("/"), c.configure())

	// Ctrl-Alt-Del and the power button request shutdown.
	errs = append(errs, unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF))
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, unix.SIGINT, unix.SIGTERM, unix.SIGPWR)
	go func() {
		<-sig
		stop()
	}()
	go func() {
		if err := powerButton(ctx); err != nil {
			say(fmt.Errorf("power button: %w", err))
			return
		}
		stop()
	}()
	return errors.Join(errs...)
}

func uptime() string {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return err.Error()
	}
	return time.Duration(t.Nano()).Round(time.Millisecond).String()
}
