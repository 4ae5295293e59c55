// Package tree is the handle of a machine: the files below its root, the programs it runs, and the safety of a write
// (its deadline, refused or in doubt). The same code reads the live machine and a recorded tree of its /proc and /sys.
package tree

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
)

// Tree is a machine, live or recorded.
type Tree struct {
	Root *os.Root // for what the methods do not do
	Path string   // as the user gave it
	live bool     // root is "/": system calls, netlink and programs may be used

	// Progress is called during a write that takes seconds with what it does; may be nil.
	Progress func(format string, args ...any)
}

// Doing reports how far a long write is.
func (t *Tree) Doing(format string, args ...any) {
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
		return nil, fmt.Errorf("root directory of the machine: %w", err)
	}
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("root directory of the machine: %w", err)
	}
	return &Tree{Root: opened, Path: root, live: path.Clean(root) == "/"}, nil
}

// Close releases the root directory.
func (t *Tree) Close() error { return t.Root.Close() }

// Live reports whether this is the running machine rather than a recorded tree.
func (t *Tree) Live() bool { return t.live }

// maxFile bounds what is read of one pseudo-file. /proc/interrupts of a machine with 512 CPUs and 8 NICs of 64 queues
// is about 6 MB; a recorded tree may hold anything.
const maxFile = 64 << 20

// Read returns a file's whole text. The name is relative to the root, without a leading slash.
func (t *Tree) Read(name string) (string, error) {
	if t.straight(name) {
		text, err := readLive(unix.AT_FDCWD, "/"+name, maxFile+1)
		if err == nil && len(text) > maxFile {
			err = fmt.Errorf("%s: larger than %d MiB", name, maxFile>>20)
		}
		return text, err
	}
	f, err := regular(t.Root, name, os.O_RDONLY)
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

// Line returns a file's text without the white space around it; empty where it cannot be read.
func (t *Tree) Line(name string) string {
	text, err := t.Read(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// Number returns a file's integer, or otherwise where it cannot be read or is not one.
func (t *Tree) Number(name string, otherwise int) int {
	n, err := strconv.Atoi(t.Line(name))
	if err != nil {
		return otherwise
	}
	return n
}

// CPUs returns a file's CPU list; empty where it cannot be read.
func (t *Tree) CPUs(name string) setting.CPUSet {
	set, err := setting.ParseCPUs(t.Line(name))
	if err != nil {
		return nil
	}
	return set
}

// Exists reports whether there is such a file or directory.
func (t *Tree) Exists(name string) bool {
	if t.straight(name) {
		return unix.Access("/"+name, unix.F_OK) == nil
	}
	_, err := t.Root.Stat(name)
	return err == nil
}

// List returns the sorted names of a directory's entries; empty where it cannot be read.
func (t *Tree) List(name string) []string {
	var d *os.File
	var err error
	if t.straight(name) {
		d, err = openLive(unix.AT_FDCWD, "/"+name)
	} else {
		d, err = directory(t.Root, name)
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

// Target returns the last element of a symbolic link's target ("igb" of …/device/driver); empty where there is none.
func (t *Tree) Target(name string) string {
	if t.straight(name) {
		return linkAt(unix.AT_FDCWD, "/"+name)
	}
	target, err := t.Root.Readlink(name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// Below returns the machine as seen from a directory under its root: reads in it resolve no path above it, and cost one
// open each instead of one for every element of the path.
func (t *Tree) Below(dir string) (*Tree, error) {
	root, err := subtree(t.Root, dir)
	if err != nil {
		return nil, err
	}
	return &Tree{Root: root, Path: path.Join(t.Path, dir), live: t.live}, nil
}

// Variable returns one variable of a uevent file, or of any text of NAME=VALUE lines.
func Variable(text, variable string) string {
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && name == variable {
			return value
		}
	}
	return ""
}

// Head returns the first bytes of a file.
func (t *Tree) Head(name string, most int) (string, error) {
	if t.straight(name) {
		return readLive(unix.AT_FDCWD, "/"+name, most)
	}
	f, err := regular(t.Root, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(most)))
	return string(text), err
}
