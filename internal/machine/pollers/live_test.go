package pollers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// switchSocket is the variable that makes this program the switch of TestSwitchOfGuest: it listens on the socket, or
// connects to it with "to:" in front.
const switchSocket = "MPPS_TEST_SWITCH"

func TestMain(m *testing.M) {
	if at := os.Getenv(switchSocket); at != "" {
		runSwitch(at)
	}
	os.Exit(m.Run())
}

// runSwitch shares a socket with a guest and polls on CPU 0 until it is killed.
func runSwitch(at string) {
	var conn net.Conn
	if to, connects := at[3:], at[:3] == "to:"; connects {
		conn, _ = net.Dial("unix", to)
	} else if listener, err := net.Listen("unix", at); err == nil {
		conn, _ = listener.Accept()
	}
	runtime.LockOSThread()
	var cpus unix.CPUSet
	cpus.Set(0)
	if conn == nil || unix.SchedSetaffinity(0, &cpus) != nil {
		os.Exit(1)
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		os.Exit(1)
	}
	for polls := uint64(1); polls != 0; polls++ { // longer than any test
	}
}

// TestSwitchOfGuest finds a process that shares a vhost-user socket with a guest and never sleeps, whichever side
// listens. The guest is this process, and a third process is idle.
func TestSwitchOfGuest(t *testing.T) {
	m := treetest.Live(t)
	for name, server := range map[string]bool{"the switch listens": true, "the guest listens": false} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "vhu")
			accepted := make(chan net.Conn, 1)
			argument := socket
			if !server {
				argument = "to:" + socket
				listener := must.Get(net.Listen("unix", socket))(t)
				defer listener.Close()
				go func() {
					conn, _ := listener.Accept()
					accepted <- conn
				}()
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), switchSocket+"="+argument)
			must.Do(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			for deadline := time.Now().Add(20 * time.Second); server; time.Sleep(10 * time.Millisecond) {
				if conn, err := net.Dial("unix", socket); err == nil {
					accepted <- conn
					break
				} else if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
			conn := <-accepted
			defer conn.Close()
			if _, err := conn.Read(make([]byte, 1)); err != nil { // it polls from now on
				t.Fatal(err)
			}
			guest := facts.Guest{Name: "vm1", State: "running", PID: os.Getpid(),
				Interfaces: []facts.Interface{{Type: "vhostuser", Source: socket}}}
			h := &facts.Host{}
			// its runtime may still sleep for a moment, and others may have its CPU
			for until := time.Now().Add(time.Minute); time.Now().Before(until); {
				h = &facts.Host{Guests: []facts.Guest{guest}}
				if Inventory(context.Background(), m, h); len(h.Pollers) > 0 {
					break
				}
			}
			must.Hold(t, len(h.Pollers) == 1 && h.Pollers[0].PID == cmd.Process.Pid && h.Pollers[0].Sockets &&
				h.Pollers[0].CPUs.Equal(setting.CPUs(0)),
				"%+v, unseen %v; want process %d on CPU 0", h.Pollers, h.Unseen, cmd.Process.Pid)
			guest.PID = 1
			h = &facts.Host{Guests: []facts.Guest{guest}}
			Inventory(context.Background(), m, h)
			must.Hold(t, len(h.Pollers) == 0, "%+v poll for a guest that holds no end of the socket", h.Pollers)
		})
	}
}
