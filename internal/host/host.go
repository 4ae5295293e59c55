// Package host is the only package that reads and sets what is tuned: one file per kernel interface, each with what it reads
// (into facts) and, where it can be set, the mechanism that writes it. Everything takes a root directory, so that the
// same code reads the live machine and a recorded tree of its /proc and /sys.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"mpps/internal/setting"
)

// Machine is one machine, live or recorded.
type Machine struct {
	root *os.Root
	path string // as the user gave it
	live bool   // root is "/": system calls, netlink and programs may be used

	definitions definitions // of guests, as read before
	inside      string      // the guest whose inside the inventory shows; empty: the only one that runs
	hung        sync.Map    // guests whose agent did not answer: name → hungSince

	// Progress is told what a write that takes seconds does meanwhile; nil where nobody wants to know.
	Progress func(format string, args ...any)
}

// progress tells how far a long write is.
func (m *Machine) progress(format string, args ...any) {
	if m.Progress != nil {
		m.Progress(format, args...)
	}
}

// Open opens the machine whose files are below root; "/" is the live one.
func Open(root string) (*Machine, error) {
	info, err := os.Stat(root) // OpenRoot would wait for the other end of a pipe
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: root, Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, fmt.Errorf("root directory of the machine: %w", err)
	}
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("root directory of the machine: %w", err)
	}
	return &Machine{root: opened, path: root, live: path.Clean(root) == "/"}, nil
}

// Close releases the root directory.
func (m *Machine) Close() error { return m.root.Close() }

// Live tells whether this is the running machine rather than a recorded tree.
func (m *Machine) Live() bool { return m.live }

// maxFile bounds what is read of one pseudo-file. /proc/interrupts of a machine with 512 CPUs and 8 NICs of 64 queues
// is about 6 MB; a recorded tree may hold anything.
const maxFile = 64 << 20

// read returns a file's whole text. The name is relative to the root, without a leading slash.
func (m *Machine) read(name string) (string, error) {
	if m.straight(name) {
		text, err := readLive(unix.AT_FDCWD, "/"+name, maxFile+1)
		if err == nil && len(text) > maxFile {
			err = fmt.Errorf("%s: larger than %d MiB", name, maxFile>>20)
		}
		return text, err
	}
	f, err := regular(m.root, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxFile {
		return "", fmt.Errorf("%s: larger than %d MiB", name, maxFile>>20)
	}
	return string(text), nil
}

// line is a file's text without the white space around it; empty where it cannot be read.
func (m *Machine) line(name string) string {
	text, err := m.read(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// number is a file's integer, or otherwise where it cannot be read or is not one.
func (m *Machine) number(name string, otherwise int) int {
	n, err := strconv.Atoi(m.line(name))
	if err != nil {
		return otherwise
	}
	return n
}

// cpus is a file's CPU list; empty where it cannot be read.
func (m *Machine) cpus(name string) setting.CPUSet {
	set, err := setting.ParseCPUs(m.line(name))
	if err != nil {
		return nil
	}
	return set
}

// exists tells whether there is such a file or directory.
func (m *Machine) exists(name string) bool {
	if m.straight(name) {
		return unix.Access("/"+name, unix.F_OK) == nil
	}
	_, err := m.root.Stat(name)
	return err == nil
}

// list is the sorted names of a directory's entries; empty where it cannot be read.
func (m *Machine) list(name string) []string {
	var d *os.File
	var err error
	if m.straight(name) {
		d, err = openLive(unix.AT_FDCWD, "/"+name)
	} else {
		d, err = directory(m.root, name)
	}
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}

// link is the last element of a symbolic link's target ("igb" of …/device/driver); empty where there is none.
func (m *Machine) link(name string) string {
	if m.straight(name) {
		return linkAt(unix.AT_FDCWD, "/"+name)
	}
	target, err := m.root.Readlink(name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// write writes a pseudo-file in one write(2) and returns the kernel's own error.
func (m *Machine) write(ctx context.Context, name, text string) error {
	return within(ctx, func() error {
		f, err := regular(m.root, name, os.O_WRONLY)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	})
}

// ErrInDoubt marks a write that did not return in time: whether it took effect is not known.
var ErrInDoubt = setting.ErrInDoubt

// within runs a call that can hang in the kernel (sysfs stores and ethtool ioctls sleep on driver locks) and gives up
// waiting for it when the context ends. The call itself cannot be cancelled.
func within(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrInDoubt, context.Cause(ctx))
	}
}

// errNotLive is the answer to everything that needs the running kernel on a recorded tree.
var errNotLive = errors.New("a recorded tree has no running kernel to ask")
