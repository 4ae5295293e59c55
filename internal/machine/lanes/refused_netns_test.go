//go:build netns

package lanes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRefused: a refused write changes nothing.
func TestRefused(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2, 2)
	prog := program(t, false)
	lo := prog
	lo.NIC.Index = 4711 // no such device
	must.Refuse(t, lo.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 1}}), "attached to a device that is not there")
	nothingLeft(t)
	must.Do(t, prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 2}}))
	twice := prog
	twice.Find = func(string) (Device, bool) { return find(t, prog, "tap1"), true }
	must.Say(t, twice.Write([]setting.Lane{{Tap: "tap0", Base: 4, Count: 2}, {Tap: "tap1", Base: 4, Count: 2}}),
		"two lanes name tap1", "two lanes of one tap")
	must.Equal(t, prog.reads(t), "tap0=0+2", "after a write that was refused it reads")
	must.Do(t, prog.Remove())
	must.Do(t, unix.Unmount(FileSystem, 0))
	err := prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 2}})
	none, is := errors.AsType[*NoFileSystem](err)
	must.Hold(t, is && strings.Contains(none.Hint(), "mount -t bpf"), "without the file system: %v", err)
}

// TestForeignDirectory: a directory that another user has made, at any level, is not used and not removed.
func TestForeignDirectory(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2)
	prog := program(t, false)
	for _, dir := range []string{prog.dir(), filepath.Dir(prog.dir()), filepath.Join(FileSystem, "mpps")} {
		must.Do(t, errors.Join(os.MkdirAll(dir, 0o700), os.Chown(dir, 65534, 65534)))
		if _, err := prog.Pinned(); !is[*Foreign](err) {
			t.Errorf("read with another's %s: %v", dir, err)
		}
		if err := prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 2}}); !is[*Foreign](err) {
			t.Errorf("written with another's %s: %v", dir, err)
		}
		if left, err := os.ReadDir(dir); err != nil || dir == prog.dir() && len(left) > 0 {
			t.Errorf("%s: %v, %v", dir, left, err)
		}
		must.Do(t, os.Chown(dir, 0, 0))
	}
}

func is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// TestAnotherVersion: another version's programs are not read, and are removed like ours.
func TestAnotherVersion(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2)
	prog := program(t, false)
	must.Do(t, prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 2}}))
	// Links cannot be moved between directories of this file system: pin them there again.
	newer := strings.Replace(prog.dir(), version, "lanes-v9", 1)
	must.Do(t, os.MkdirAll(newer, 0o700))
	for _, s := range []side{nicSide, tapSide} {
		d := prog.NIC
		if s == tapSide {
			d = find(t, prog, "tap0")
		}
		l := must.Get(link.LoadPinnedLink(prog.pin(d, s), nil))(t)
		must.Do(t, l.Unpin())
		must.Do(t, l.Pin(filepath.Join(newer, filepath.Base(prog.pin(d, s)))))
		l.Close()
	}
	must.Contain(t, prog.reads(t), "another version")
	must.Do(t, prog.Remove())
	nothingLeft(t)
}

// TestUntouched: frames of a tap without a window use the same queues as without the programs, all frames arrive
// unchanged (the capture compares them), and another program at the device that returns "pass" does not erase a lane.
func TestUntouched(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, false, 4, 4)
	had := map[[3]int]bool{}
	before := p.run(had, 300)
	prog := program(t, false)
	windows := []setting.Lane{{Tap: "tap0", Base: 4, Count: 4}}
	must.Do(t, prog.Write(windows))
	after := p.run(had, 300)
	for key, n := range before {
		if key[0] == 1 && after[key] != n {
			t.Errorf("tap1 queue %d: %d frames by queue %d of the NIC, without the programs %d", key[1], after[key],
				key[2], n)
		}
	}
	for q := range 4 {
		must.Equal(t, after[[3]int{0, q, 4 + q}], 300, "tap0: %v", after)
	}
	pass := must.Get(ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}))(t)
	defer pass.Close()
	l := must.Get(link.AttachTCX(link.TCXOptions{Interface: find(t, prog, "tap0").Index, Program: pass,
		Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()}))(t)
	after = p.run(had, 300)
	for q := range 4 {
		must.Equal(t, after[[3]int{0, q, 4 + q}], 300, "tap0, with another program that says pass: %v", after)
	}
	must.Do(t, l.Close())
	if n := p.changed.Load(); n > 0 {
		t.Errorf("%d frames came with other bytes", n)
	}
	must.Do(t, prog.Remove())
	nothingLeft(t)
}

// TestByHand: what somebody has detached does not read as attached, and the next write attaches it again.
func TestByHand(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 2, 2)
	had := map[[3]int]bool{}
	prog := program(t, false)
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 2}, {Tap: "tap1", Base: 2, Count: 2}}
	for _, c := range []struct {
		what  string
		spoil func() error
		reads string
	}{
		{"a tap's pin", func() error { return os.Remove(prog.pin(find(t, prog, "tap1"), tapSide)) }, "tap0=0+2"},
		{"a tap's program", func() error { // as bpftool link detach
			l, err := link.LoadPinnedLink(prog.pin(find(t, prog, "tap1"), tapSide), nil)
			if err != nil {
				return err
			}
			return errors.Join(l.Detach(), l.Close())
		}, "tap0=0+2"},
		{"the NIC's pin", func() error { return os.Remove(prog.pin(prog.NIC, nicSide)) }, "idle"},
		{"the windows' pin", func() error { return os.Remove(filepath.Join(prog.dir(), windowsPin)) }, "idle"},
		{"all pins", func() error { return os.RemoveAll(prog.dir()) }, "idle"}, // the directories above are left
		{"mpps's directory", func() error { return os.RemoveAll(filepath.Join(prog.Root, "mpps")) }, "absent"},
		{"a window", func() error {
			m, err := prog.openMaps()
			if err != nil {
				return err
			}
			defer m.close()
			return m.windows.Put(uint32(find(t, prog, "tap0").Index), lanesWindow{Base: 7, Count: 1})
		}, "tap1=2+2"},
	} {
		if err := prog.Write(windows); err != nil {
			t.Fatalf("before %s: %v", c.what, err)
		}
		if err := c.spoil(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		must.Equal(t, prog.reads(t), c.reads, "without %s it reads", c.what)
	}
	must.Do(t, prog.Write(windows))
	p.run(had, 200).exact(t, "written again", 200, p.guests, windows)
	must.Do(t, prog.Remove())
	nothingLeft(t)
}
