//go:build netns

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestLaunchKilled: the processes of a lab that is to stay up end with a start that is killed, and outlive one that has
// detached the lab.
func TestLaunchKilled(t *testing.T) {
	const role = "MPPS_LAB_LAUNCH"
	if how := os.Getenv(role); how != "" {
		launchAndWait(t, how == "detached")
		return
	}
	for how, outlives := range map[string]bool{"starting": false, "detached": true} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLaunchKilled$")
			cmd.Env = append(os.Environ(), role+"="+how, "TMPDIR="+t.TempDir())
			out := must.Get(cmd.StdoutPipe())(t)
			must.Do(t, cmd.Start())
			var pid int
			must.Get(fmt.Fscanf(out, "LAUNCHED %d\n", &pid))(t)
			p, ok := readProc(roleQEMU, pid)
			must.Need(t, ok, "it has not started")
			defer func() { must.Try(t, p.kill()) }()
			must.Do(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
			for range 100 {
				if !p.Alive() {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			must.Equal(t, p.Alive(), outlives, "it outlives its start")
		})
	}
}

func launchAndWait(t *testing.T, detach bool) {
	inScratch(t)
	c := config("launched")
	c.Detached = true
	me, _ := readProc("owner", os.Getpid())
	s := state{Owner: me, Config: c, Tree: t.TempDir()}
	write(t, s)
	l := handle(&Tree{}, func(string) {}, must.Get(readState(c.Name))(t))
	ns := must.Get(os.Open("/proc/self/ns/net"))(t)
	p := must.Get(l.launch(ns, roleQEMU, nil, strings.Fields("sleep 600")))(t)
	if detach {
		must.Do(t, l.Detach())
	}
	l.unwatch() // which would take the sleep for a QEMU that stands still
	fmt.Printf("LAUNCHED %d\n", p.PID)
	time.Sleep(time.Minute)
}
