package ops

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
)

const stranger = 4242 // a user that is neither root nor this one

// openFolder makes a folder with a mode.
func openFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("gives files to another user, which takes root")
	}
	dir := filepath.Join(t.TempDir(), "open")
	must.Do(t, os.Mkdir(dir, 0o700))
	must.Do(t, os.Chmod(dir, mode))
	return dir
}

// TestOutputInOthersFolder: where others can write, they do not decide which file a root's output replaces, nor who
// reads it.
func TestOutputInOthersFolder(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o770} {
		dir := openFolder(t, mode)
		victim := filepath.Join(t.TempDir(), "shadow")
		must.Do(t, os.WriteFile(victim, []byte("root:*"), 0o600))
		link := filepath.Join(dir, "link.json")
		must.Do(t, os.Symlink(victim, link))
		must.Do(t, os.Lchown(link, stranger, stranger))
		must.Succeed(t, ReplaceFile(link, []byte("new")), "%v: link", mode)
		if text := must.Get(os.ReadFile(victim))(t); string(text) != "root:*" {
			t.Errorf("%v: the link was followed: %q", mode, text)
		}
		for _, make := range []func(string) error{
			func(name string) error { return os.WriteFile(name, nil, 0o666) },
			func(name string) error { return syscall.Mkfifo(name, 0o666) },
		} {
			name := filepath.Join(dir, "planted")
			must.Do(t, os.RemoveAll(name))
			must.Do(t, make(name))
			must.Do(t, os.Lchown(name, stranger, stranger))
			must.Succeed(t, ReplaceFile(name, []byte("new")), "%v: planted", mode)
			info := must.Get(os.Lstat(name))(t)
			if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 || !info.Mode().IsRegular() {
				t.Errorf("%v: planted: it belongs to %d and is %v", mode, uid, info.Mode())
			}
		}
	}
}

// TestCreateInOthersFolder: a file that is written piece by piece is no less careful.
func TestCreateInOthersFolder(t *testing.T) {
	dir := openFolder(t, 0o777|os.ModeSticky)
	victim := filepath.Join(t.TempDir(), "shadow")
	must.Do(t, os.WriteFile(victim, []byte("root:*"), 0o600))
	link, pipe, own := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "own")
	must.Do(t, os.Symlink(victim, link))
	must.Do(t, syscall.Mkfifo(pipe, 0o666))
	for _, name := range []string{link, pipe} {
		must.Do(t, os.Lchown(name, stranger, stranger))
		if f, err := Create(name); err == nil {
			t.Errorf("%s was opened", f.Name())
		}
	}
	if text := must.Get(os.ReadFile(victim))(t); string(text) != "root:*" {
		t.Errorf("the link was followed: %q", text)
	}
	for range 2 { // a new file, and its replacement
		f := must.Get(Create(own))(t)
		must.Do(t, f.Close())
	}
}

// TestOutputKeepsOwnerOfFolder: a user's own file in his folder stays his, also if root writes it.
func TestOutputKeepsOwnerOfFolder(t *testing.T) {
	dir := openFolder(t, 0o755)
	must.Do(t, os.Chown(dir, stranger, stranger))
	name := filepath.Join(dir, "x.json")
	must.Do(t, os.WriteFile(name, nil, 0o640))
	must.Do(t, os.Chown(name, stranger, stranger))
	must.Do(t, ReplaceFile(name, []byte("new")))
	info := must.Get(os.Stat(name))(t)
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != stranger || info.Mode().Perm() != 0o640 {
		t.Errorf("it belongs to %d, mode %v", uid, info.Mode())
	}
}

// TestPipesHoldNobodyUp: neither a pipe that nobody reads nor one that is full keeps a command from its end.
func TestPipesHoldNobodyUp(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(name, 0o600))
	done := make(chan error, 1)
	go func() { done <- ReplaceFile(name, []byte("text")) }()
	select {
	case err := <-done:
		must.Refuse(t, err, "nobody reads, and there was no error")
	case <-time.After(20 * time.Second):
		t.Error("it waits for a reader")
	}
	reader := must.Get(os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
	defer reader.Close()
	go func() { done <- ReplaceFile(name, make([]byte, 4<<20)) }()
	time.Sleep(100 * time.Millisecond)
	must.Do(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM)) // ends the test, unless it is waited for
	select {
	case err := <-done:
		must.Refuse(t, err, "the pipe was full, and there was no error")
	case <-time.After(20 * time.Second):
		t.Error("a signal did not end the write")
	}
}

// TestWaitingFile: a file that looks regular and waits for events does not hang its reader.
func TestWaitingFile(t *testing.T) {
	const name = "/proc/kmsg"
	f, err := OpenFile(name)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	done := make(chan error, 1)
	go func() {
		for b := make([]byte, 64<<10); ; {
			if _, err := f.Read(b); err != nil {
				done <- err
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(2 * readWithin):
		t.Error("it waits for ever")
	}
}

// TestReplaceFileMode: a new file has what the umask leaves, an existing one keeps its permissions, and is at no time
// readable by more than before.
func TestReplaceFileMode(t *testing.T) {
	for _, umask := range []int{0o022, 0o077, 0o027} {
		old := syscall.Umask(umask)
		name := filepath.Join(t.TempDir(), "out.json")
		err := ReplaceFile(name, []byte("1"))
		syscall.Umask(old)
		must.Do(t, err)
		if got, want := mode(t, name), os.FileMode(0o666&^umask); got != want {
			t.Errorf("umask %04o: mode %04o, expected %04o", umask, got, want)
		}
	}
	for _, kept := range []os.FileMode{0o600, 0o640, 0o400} {
		name := filepath.Join(t.TempDir(), "secret")
		must.Do(t, os.WriteFile(name, []byte("1"), kept))
		link := name + "-link"
		must.Do(t, os.Symlink(name, link))
		must.Do(t, ReplaceFile(link, []byte("2")))
		if text, err := os.ReadFile(name); mode(t, name) != kept || err != nil || string(text) != "2" {
			t.Errorf("mode %04o with %q, %v: expected %04o with 2", mode(t, name), text, err, kept)
		}
	}
}

func mode(t *testing.T, name string) os.FileMode {
	t.Helper()
	info := must.Get(os.Stat(name))(t)
	return info.Mode().Perm()
}
