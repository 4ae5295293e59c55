// Package tree is the handle of a machine: it reads and writes files below a root, runs programs, and bounds each write
// by a deadline. The same code reads the live machine and a recorded tree of /proc and /sys.
package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
)

// Tree is a machine, live or recorded.
type Tree struct {
	Root *os.Root // for what the methods do not cover; nil in memory
	Path string   // as the user gave it
	live bool     // root is "/": system calls, netlink and programs are allowed
	mem  *memDir  // the files of a guest; otherwise nil
	// the guest, if its files can be written
	remote Remote

	ctx context.Context // reads fail once it is cancelled; nil: never
	*Missed

	Libvirt Libvirt

	// Progress is called with the current step of a write that takes seconds; may be nil.
	Progress func(format string, args ...any)
}

// Libvirt is how the machine's libvirt is reached.
type Libvirt struct {
	Virsh []string // the command that is virsh; empty: virsh in PATH, where a socket of libvirt is there
	URI   string   // empty: qemu:///system
}

// ReportProgress passes the current step of a long write to Progress.
func (t *Tree) ReportProgress(format string, args ...any) {
	if t.Progress != nil {
		t.Progress(format, args...)
	}
}

// Open opens the machine whose files are below root; "/" is the live one.
func Open(root string) (*Tree, error) {
	info, err := os.Stat(root) // OpenRoot would wait for the other end of a pipe
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: root, Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	return &Tree{Root: opened, Path: root, live: path.Clean(root) == "/"}, nil
}

// Within returns the same machine, on which every read fails once ctx is cancelled. Other users decide how many
// processes, threads, links and groups there are: a loop over 100,000 of them then ends at once. The caller must check
// ctx afterwards, since what was read is incomplete. A deadline of ctx does not end reads: it limits a measurement, and
// what the machine is must be known before. It counts what reads miss from then on. Closing either closes both.
func (t *Tree) Within(ctx context.Context) *Tree {
	within := *t
	within.ctx, within.Missed = ctx, &Missed{}
	return &within
}

// ended returns why reads fail; nil while they do not.
func ended(ctx context.Context) error {
	if ctx == nil || !Cancelled(ctx) {
		return nil
	}
	return context.Cause(ctx)
}

// Cancelled reports whether ctx was cancelled before a deadline ended it.
func Cancelled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// Close releases the root directory.
func (t *Tree) Close() error {
	if t.mem != nil {
		return nil
	}
	return t.Root.Close()
}

// Live reports whether this is the running machine rather than a recorded tree.
func (t *Tree) Live() bool { return t.live }

// Runs reports whether programs can be run where the files are: on this machine or in a guest.
func (t *Tree) Runs() bool { return t.live || t.remote != nil }

// maxFile is the largest file that Read accepts. /proc/interrupts of a machine with 512 CPUs and 8 NICs of 64 queues is
// about 6 MB; a recorded tree may hold anything. maxLine is the same for Line: a value, the kernel's command line (64
// KiB at most), a table with a row for each of a few devices.
const (
	maxFile = 16 << 20
	maxLine = 1 << 20
)

// at returns the directory to look a name up from, and the name to look up: on the live machine, whose links are the
// kernel's own, the absolute path.
func (t *Tree) at(name string) (Folder, string) {
	if t.live && t.Path == "/" && filepath.IsLocal(name) {
		return Folder{fd: unix.AT_FDCWD, ctx: t.ctx, Missed: t.Missed}, "/" + name
	}
	return Folder{root: t.Root, mem: t.mem, ctx: t.ctx, Missed: t.Missed}, name
}

// Stat and Lstat describe a file; Lstat does not follow a link that is the last element.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	if err := ended(t.ctx); err != nil {
		return nil, err
	}
	if t.mem != nil {
		return t.mem.stat(name, true)
	}
	return t.Root.Stat(name)
}

func (t *Tree) Lstat(name string) (fs.FileInfo, error) {
	if err := ended(t.ctx); err != nil {
		return nil, err
	}
	if t.mem != nil {
		return t.mem.stat(name, false)
	}
	return t.Root.Lstat(name)
}

// Readlink returns the target of a symbolic link.
func (t *Tree) Readlink(name string) (string, error) {
	return (&Folder{root: t.Root, mem: t.mem, ctx: t.ctx, Missed: t.Missed}).readlink(name)
}

// Read returns a file's whole text. The name is relative to the root, without a leading slash.
func (t *Tree) Read(name string) (string, error) {
	text, err := t.Head(name, maxFile+1)
	if err == nil && len(text) > maxFile {
		return "", fmt.Errorf("%s: larger than %d MiB", name, maxFile>>20)
	}
	return text, err
}

// Head returns at most the first bytes of a file.
func (t *Tree) Head(name string, most int) (string, error) {
	d, name := t.at(name)
	return d.read(name, most)
}

// Line returns a file's text without surrounding white space; empty if it cannot be read, or has more than 1 MiB.
func (t *Tree) Line(name string) string {
	text, err := t.Head(name, maxLine+1)
	if err != nil || len(text) > maxLine {
		return ""
	}
	return strings.TrimSpace(text)
}

// Number returns a file's integer, or otherwise if it cannot be read or is not an integer.
func (t *Tree) Number(name string, otherwise int) int {
	n, err := strconv.Atoi(t.Line(name))
	if err != nil {
		return otherwise
	}
	return n
}

// CPUs returns a file's CPU list; empty if it cannot be read.
func (t *Tree) CPUs(name string) setting.CPUSet {
	set, err := setting.ParseCPUs(t.Line(name))
	if err != nil {
		return nil
	}
	return set
}

// Exists reports whether a file or directory exists.
func (t *Tree) Exists(name string) bool {
	d, name := t.at(name)
	_, exists := d.Mode(name)
	return exists
}

// List returns the sorted names of a directory's entries; empty if it cannot be read.
func (t *Tree) List(name string) []string {
	d, name := t.at(name)
	return d.Entries(name)
}

// Target returns the last element of a symbolic link's target ("igb" of …/device/driver); empty if there is no link.
func (t *Tree) Target(name string) string {
	d, name := t.at(name)
	return d.Target(name)
}

// Below returns the machine as seen from a directory under its root. Paths do not resolve above that directory, and a
// read costs one open instead of one for each element of the path.
func (t *Tree) Below(dir string) (*Tree, error) {
	if err := ended(t.ctx); err != nil {
		return nil, err
	}
	if t.mem != nil {
		below, err := t.mem.below(dir)
		if err != nil {
			return nil, err
		}
		below.top = below.at
		return &Tree{Path: path.Join(t.Path, dir), mem: below}, nil
	}
	root, err := openSubtree(t.Root, dir)
	if err != nil {
		return nil, err
	}
	return &Tree{Root: root, Path: path.Join(t.Path, dir), live: t.live, ctx: t.ctx, Missed: t.Missed}, nil
}

// Variable returns the value of a variable in a text of NAME=VALUE lines such as a uevent file; empty if it is not
// there.
func Variable(text, variable string) string {
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && name == variable {
			return value
		}
	}
	return ""
}
