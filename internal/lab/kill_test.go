package lab

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mpps/internal/must"
)

// stalled is a QEMU whose host begins a command and then answers nothing any more. Nor does QEMU, and only SIGKILL ends
// it.
const stalled = `trap '' INT TERM HUP
for n in 1 2 3 4 5 6 7; do exec {in}<>port$n.in {out}<>port$n.out; done
exec 3<>port0.in 4<>port0.out
: >open
while read -r verb id <&3; do
	case $verb in
	ping) echo "@@ $id pong" >&4 ;;
	run)
		echo "@@ $id pid 7" >&4
		: >began
		exec sleep 60
		;;
	esac
done`

// TestKillAfter: a canceled command in a host that has stalled, and the end of its lab, take no time.
func TestKillAfter(t *testing.T) {
	inScratch(t)
	c := config("stalled")
	owner, _ := readProc("owner", os.Getpid())
	s := state{Owner: owner, Config: c, Cache: t.TempDir(), Tree: t.TempDir()}
	write(t, s)
	dir := runDir(c.Name)
	must.Do(t, (&Lab{dir: dir}).pipes())
	listener := must.Get(net.Listen("unix", filepath.Join(dir, "qmp.sock")))(t)
	defer listener.Close()
	cmd := exec.Command("bash", "-c", stalled)
	cmd.Dir = dir
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	qemu, _ := readProc(roleQEMU, cmd.Process.Pid)
	s.Procs = []Proc{qemu}
	write(t, s)
	until := func(name string) {
		for !exists(filepath.Join(dir, name)) {
			time.Sleep(time.Millisecond)
		}
	}
	until("open")
	l := handle(&Tree{}, func(string) {}, must.Get(readState(c.Name))(t))
	ctx, cancel := context.WithCancel(t.Context())
	killed := l.KillAfter(ctx)
	canceled := make(chan time.Time, 1)
	go func() {
		until("began")
		canceled <- time.Now()
		cancel()
	}()
	must.Fail(l.Shell(ctx, "sleep 600"))(t, "the command ended well")
	killed()
	must.Do(t, l.Stop(t.Context()))
	took := time.Since(<-canceled)
	must.Hold(t, took < 5*time.Second && !qemu.Alive() && !exists(dir) && !exists(dataDir(s.Cache, c.Name)),
		"it took %v, or something is left", took)
}
