//go:build netns

package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/lab"
	"mpps/internal/must"
	"mpps/internal/owned"
)

// TestSecondDemo: while one demo has the emulated host, another is refused within seconds and writes nothing, whatever
// its directory is. The processes of this test have /run/mpps-lab to themselves.
func TestSecondDemo(t *testing.T) {
	const role = "MPPS_SECOND_DEMO"
	self := func(name string, argv ...string) *exec.Cmd {
		argv = append(argv, os.Args[0], "-test.run=^TestSecondDemo$")
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), role+"="+name)
		return cmd
	}
	switch os.Getenv(role) {
	case "":
		cmd := self("second", "unshare", "--mount", "--propagation", "private", "sh", "-euc",
			`mkdir -p /run/mpps-lab; mount -t tmpfs lab /run/mpps-lab; exec "$@"`, "own-run")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := owned.Run(cmd); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
	case "first":
		must.Get(lab.Reserve(t.Context(), lab.Config{Name: demoLab}))(t)
		fmt.Println("RESERVED")
		time.Sleep(time.Minute)
	case "second":
		secondDemo(t, self("first"))
	}
}

func secondDemo(t *testing.T, first *exec.Cmd) {
	out, err := first.StdoutPipe()
	if err == nil {
		err = owned.Start(first)
	}
	must.Do(t, err)
	line := make([]byte, 200)
	if n, err := out.Read(line); !strings.HasPrefix(string(line[:n]), "RESERVED") {
		t.Fatalf("%q, %v", line[:n], err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(bin, "mpps"), filepath.Join(bin, "mpps-guest"),
		filepath.Join(dir, "report.html"), filepath.Join(dir, "demo.log")} {
		must.Do(t, os.WriteFile(file, []byte("earlier"), 0o755))
	}
	before := contents(t, dir)
	var said bytes.Buffer
	began := time.Now()
	code := Run([]string{"demo", "--mpps", filepath.Join(bin, "mpps"), "--out", dir}, nil, &said, &said)
	if code == 0 || time.Since(began) > 10*time.Second || !strings.Contains(said.String(), "another demo runs") {
		t.Errorf("exit code %d after %v:\n%s", code, time.Since(began), said.String())
	}
	if after := contents(t, dir); !sameFiles(after, before) {
		t.Errorf("the refused demo wrote %v", after)
	}
	hangsUp(t)
	must.Do(t, first.Process.Kill())
	_ = first.Wait()
	free, err := lab.Reserve(t.Context(), lab.Config{Name: demoLab})
	must.Need(t, err == nil, "after the first was killed: %v", err)
	must.Try(t, free())
}

// hangsUp: a command whose shell has gone ends in an orderly way, as after Ctrl-C, where SIGHUP would kill it.
func hangsUp(t *testing.T) {
	t.Helper()
	signal.Reset(unix.SIGHUP)
	if signal.Ignored(unix.SIGHUP) { // by nohup, which started the tests: then a command goes on
		return
	}
	lock := must.Get(os.Create("/run/mpps-lab/.demo.lock"))(t)
	defer lock.Close()
	must.Do(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX)) // as a process that starts or ends the demo's lab
	ended := make(chan int)
	go func() { ended <- Run([]string{"down", "--name", demoLab}, nil, io.Discard, io.Discard) }()
	time.Sleep(500 * time.Millisecond)
	must.Do(t, unix.Kill(os.Getpid(), unix.SIGHUP))
	select {
	case code := <-ended:
		must.Hold(t, code != 0, "it ended well")
	case <-time.After(5 * time.Second):
		t.Error("it goes on")
	}
}
