package tree_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestChangeInDoubt: of a program that was ended before it was done it is not known what comes of what it asked for; of
// one that ended by itself it is.
func TestChangeInDoubt(t *testing.T) {
	m := must.Get(tree.Open("/"))(t)
	for name, c := range map[string]struct {
		lines string
		doubt bool
		says  string
	}{
		"hangs":              {"exec sleep 60", true, "deadline exceeded"},
		"its children hang":  {"echo waiting >&2; sleep 20", true, "waiting"},
		"killed by somebody": {"kill -9 $$", true, "killed"},
		"refused":            {"echo no such guest >&2; exit 1", false, "exit status 1: no such guest"},
		"done":               {"cat >/dev/null", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := 10 * time.Second
			if strings.Contains(c.lines, "sleep") {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			err := m.Change(ctx, "text", treetest.Program(t, c.lines))
			if took := time.Since(began); took > patience+10*time.Second {
				t.Errorf("took %v", took)
			}
			if errors.Is(err, setting.ErrInDoubt) != c.doubt || (err == nil) != (c.says == "") || err != nil &&
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("found %v; expected doubt %v and %q", err, c.doubt, c.says)
			}
		})
	}
	if err := m.Change(t.Context(), "", filepath.Join(t.TempDir(), "none")); err == nil ||
		errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("a program that is not there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := m.Command(ctx, treetest.Program(t, "exec sleep 60")); err == nil ||
		errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("a program that only reads: %v; expected an error without doubt about a write", err)
	}
}

// TestProgramsEndWithKilledOwner: a program that hangs, whether it reads or changes something, does not outlive us.
func TestProgramsEndWithKilledOwner(t *testing.T) {
	const verb = "MPPS_TEST_VERB"
	if how := os.Getenv(verb); how != "" { // the process that is killed
		m := must.Get(tree.Open("/"))(t)
		script := filepath.Join(os.Getenv("MPPS_TEST_DIR"), "hangs")
		if how == "change" {
			_ = m.Change(t.Context(), "", script)
		}
		_, _ = m.Command(t.Context(), script)
		return
	}
	for _, how := range []string{"read", "change"} {
		dir := t.TempDir()
		fifo := filepath.Join(dir, "pid")
		must.Do(t, unix.Mkfifo(fifo, 0o600))
		script := "#!/bin/sh\necho $$ >" + fifo + "\nexec sleep 60\n"
		must.Do(t, os.WriteFile(filepath.Join(dir, "hangs"), []byte(script), 0o755))
		owner := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		owner.Env = append(os.Environ(), verb+"="+how, "MPPS_TEST_DIR="+dir)
		must.Do(t, owner.Start())
		line := make(chan string, 1)
		go func() {
			if f, err := os.Open(fifo); err == nil {
				text, _ := bufio.NewReader(f).ReadString('\n')
				line <- strings.TrimSpace(text)
				_ = f.Close()
			}
		}()
		var pid int
		select {
		case text := <-line:
			pid, _ = strconv.Atoi(text)
		case <-time.After(20 * time.Second):
		}
		fd, err := unix.PidfdOpen(pid, 0)
		_ = owner.Process.Kill()
		_ = owner.Wait()
		must.Need(t, err == nil, "%s: process %d: %v", how, pid, err)
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); n == 0 {
			t.Errorf("%s: the program outlived its owner by 5 s", how)
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// TestProgramOutput: a program that prints without end is ended; of its complaints the first are kept.
func TestProgramOutput(t *testing.T) {
	m := must.Get(tree.Open("/"))(t)
	defer m.Close()
	began := time.Now()
	_, err := m.Command(t.Context(), treetest.Program(t, "exec cat /dev/zero"))
	must.Is(t, err, tree.ErrOutput, "printing without end")
	_, complaint, _, err := m.Program(t.Context(), "", treetest.Program(t, "head -c 1000000 /dev/zero >&2; exit 1"))
	must.Hold(t, err != nil && len(complaint) <= 64<<10, "%d bytes of complaint, %v", len(complaint), err)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("after %v", took)
	}
}
