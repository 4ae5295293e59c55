//go:build lab

package lab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/guestinit"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// TestMain is also the init of the guests: the test program itself boots in them and echoes.
func TestMain(m *testing.M) {
	if guestinit.IsInit() {
		guestinit.Run(echo)
	}
	os.Exit(labtest.Main(m))
}

// echo answers datagrams on port 7 with what they say, and "rx?" with the NIC's rx_packets.
func echo(ctx context.Context) error {
	c, err := net.ListenPacket("udp4", ":7")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	buf := make([]byte, 2048)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return ctx.Err()
		}
		answer := buf[:n]
		if string(answer) == "nics?" {
			answer = nil
			links, _ := filepath.Glob("/sys/class/net/*/device/driver")
			for _, l := range links {
				d, err := os.Readlink(l)
				if err == nil {
					answer = append(answer, strings.Split(l, "/")[4]+"="+filepath.Base(d)+"\n"...)
				}
			}
			q, _ := filepath.Glob("/sys/class/net/eth0/queues/rx-*")
			answer = fmt.Appendf(answer, "queues=%d\n", len(q))
		}
		if _, err := c.WriteTo(answer, from); err != nil {
			return err
		}
	}
}

func outputOf(t *testing.T, l *lab.Lab, script string) string {
	t.Helper()
	out, err := l.Must(t.Context(), script)
	must.Need(t, err == nil, "%s: %v", script, err)
	return strings.TrimSpace(out)
}

func TestHostHasTheHardware(t *testing.T) {
	l := labtest.Host(t, labtest.NoBinary)
	for _, c := range []struct{ script, want string }{
		{"cat /sys/devices/system/node/online", "0-1"},
		{"cat /sys/devices/system/node/node0/distance", "10 21"},
		{"cat /sys/devices/system/cpu/online", "0-3"},
		{"ls -d /sys/module/vhost_net /sys/module/igb /sys/module/tun | wc -l", "3"},
		{"test -c /dev/kvm && test -c /dev/vhost-net && echo ok", "ok"},
		{"dirname $(grep -l " + lab.MACigb0 + " /sys/class/net/*/address) | xargs -I{} cat {}/device/numa_node", "1"},
		{"dirname $(grep -l " + lab.MACigb1 + " /sys/class/net/*/address) | xargs -I{} cat {}/device/numa_node", "-1"},
		{"dirname $(grep -l " + lab.MACvirtio + " /sys/class/net/*/address) | xargs -I{} sh -c 'ls -d {}/queues/rx-* " +
			"| wc -l'", "4"},
		{"ls /sys/kernel/iommu_groups | wc -l | xargs test 5 -lt && echo ok", "ok"},
		{"uname -r", l.Release()},
	} {
		must.Equal(t, outputOf(t, l, c.script), c.want, "%s", c.script)
	}
	if l.Emulated() {
		must.Equal(t, outputOf(t, l, "cat /sys/module/kvm_amd/parameters/nested"), "1", "kvm_amd nested")
	}
}

func TestCommands(t *testing.T) {
	l := labtest.Host(t, labtest.NoBinary)
	ctx := t.Context()
	t.Run("streams apart", func(t *testing.T) {
		r := must.Get(l.Exec(ctx, lab.Cmd{Script: "cat; echo err >&2; exit 7",
			Stdin: strings.NewReader("in\x00\xff\n@@ 1 rc 0\n")}))(t)
		must.Hold(t, r.Stdout == "in\x00\xff\n@@ 1 rc 0\n" && r.Stderr == "err\n" && r.Code == 7, "found %+v", r)
	})
	t.Run("arguments unharmed", func(t *testing.T) {
		r, err := l.Run(ctx, "printf", "%s|", "a b", "'", `"$HOME"`, "", "*")
		if want := `a b|'|"$HOME"||*|`; err != nil || r.Stdout != want {
			t.Errorf("found %q, %v, want %q", r.Stdout, err, want)
		}
	})
	t.Run("missing program", func(t *testing.T) {
		r, err := l.Run(ctx, "/no/such/program")
		must.Hold(t, err == nil && r.Code == 127, "found %+v, %v, want code 127", r, err)
	})
	t.Run("side by side", func(t *testing.T) {
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 20 {
			wg.Go(func() {
				want := fmt.Sprintf("%d\n", i)
				r, err := l.Shell(ctx, fmt.Sprintf("sleep 2; echo %d", i))
				must.Hold(t, err == nil && r.Stdout == want, "found %q, %v, want %q", r.Stdout, err, want)
			})
		}
		wg.Wait()
		if d := time.Since(start); d > 38*time.Second {
			t.Errorf("20 commands of 2 s took %v: one after the other", d)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		r, err := l.Exec(short, lab.Cmd{Argv: []string{"bash", "-c", "trap 'echo heard; exit 3' INT; while :; do " +
			"sleep 0.1; done"}, Grace: 20 * time.Second})
		must.Hold(t, err == nil && r.Code == 3 && r.Stdout == "heard\n", "found %+v, %v", r, err)
	})
	t.Run("cancelled", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := l.Shell(short, "sleep 4711 & sleep 4711"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("found %v, want a deadline", err)
		}
		must.Equal(t, outputOf(t, l, "sleep 0.3; pgrep -f 'sleep 4711' | wc -l"), "0", "processes of a cancelled command")
	})
	t.Run("a megabyte", func(t *testing.T) {
		r, err := l.Run(ctx, "seq", "200000")
		must.Hold(t, err == nil && len(r.Stdout) == 1288895, "found %d bytes, %v", len(r.Stdout), err)
	})
	t.Run("files", func(t *testing.T) {
		f := filepath.Join(t.TempDir(), "f")
		must.Do(t, os.WriteFile(f, []byte("#!/bin/sh\necho $0 | tee /share/out\n"), 0o755))
		must.Do(t, l.Put("dir/prog", f))
		must.Equal(t, outputOf(t, l, "/share/dir/prog"), "/share/dir/prog", "output")
		must.Do(t, l.Get("out", f))
		if b, _ := os.ReadFile(f); string(b) != "/share/dir/prog\n" {
			t.Errorf("found %q", b)
		}
		must.Refuse(t, l.Put("../evil", f), "a path outside the share was accepted")
	})
	t.Run("terminal", func(t *testing.T) {
		for range 2 { // the second finds the port as the first has left it
			var out bytes.Buffer
			must.Do(t, l.Terminal(ctx, strings.NewReader("stty size; echo $((6*7)) $TERM; tty\nexit\n"), &out, 33, 99))
			if s := out.String(); !strings.Contains(s, "33 99\r\n42 ") || !strings.Contains(s, "/dev/pts/") {
				t.Errorf("found %q", s)
			}
		}
	})
	t.Run("attached", func(t *testing.T) {
		other := must.Get(lab.Attach(l.Name()))(t)
		defer other.Close()
		r, err := other.Run(ctx, "hostname")
		must.Hold(t, err == nil && r.Stdout == "l1\n", "found %+v, %v", r, err)
	})
}

// TestBeginsAtOnce: a host runs its first command within 3 s where there is a saved state.
func TestBeginsAtOnce(t *testing.T) {
	l := labtest.Host(t, labtest.NoBinary)
	took := l.Restored()
	if took == 0 {
		t.Skip("the host was booted: with KVM, or on a disk that is full, there is no saved state")
	}
	t.Logf("first command after %v of fair time", took)
	must.Hold(t, took <= 3*time.Second, "it took %v", took)
}

func TestResetAndEnd(t *testing.T) {
	labtest.Long(t)
	t.Setenv("MPPS_LAB_STATS", "") // a death on purpose is none of the lab's
	l := labtest.Host(t, labtest.NoBinary, labtest.Fresh, labtest.Persist)
	outputOf(t, l, "mkdir -p /run/lab; echo kept > /etc/kept; echo gone > /run/gone; echo up > /run/lab/guest.console")
	must.Equal(t, l.Death(t.Context()), "", "nothing died")
	outputOf(t, l, "echo '[    9.1] Kernel panic - not syncing: of a guest' > /run/lab/guest.console")
	must.Equal(t, l.Death(t.Context()), "a guest: [    9.1] Kernel panic - not syncing: of a guest",
		"a guest's kernel died")
	if _, err := l.Shell(t.Context(), "sync; echo c > /proc/sysrq-trigger; sleep 20"); !errors.Is(err, lab.ErrGone) {
		t.Errorf("found %v, want ErrGone", err)
	}
	if died := l.Death(t.Context()); !strings.Contains(died, "the lab host: ") ||
		!strings.Contains(died, "Kernel panic - not syncing: sysrq triggered crash") {
		t.Errorf("the host's kernel died, found %q", died)
	}
	must.Do(t, os.WriteFile(l.LogFile("serial"), []byte("[   37.6]  </TASK>\n"), 0o600))
	must.Equal(t, l.Death(t.Context()), "the lab host began to boot again by itself: [   37.6]  </TASK>",
		"the host's kernel died with half a word")
	must.Do(t, l.Reset(t.Context(), "isolcpus=3"))
	must.Equal(t, outputOf(t, l, "cat /etc/kept; ls /run/gone 2>&1 | grep -c 'No such'; "+
		"cat /sys/devices/system/cpu/isolated"), "kept\n1\n3", "after the reset")
	// The command itself ends with L1.
	if _, err := l.Shell(t.Context(), "echo o > /proc/sysrq-trigger; sleep 20"); !errors.Is(err, lab.ErrGone) {
		t.Errorf("found %v, want ErrGone", err)
	}
	reason, err := l.Wait(t.Context())
	must.Hold(t, err == nil && reason == "guest-shutdown", "reason: found %q, %v, want guest-shutdown", reason, err)
	must.Do(t, l.Stop(t.Context()))
	must.Is(t, must.Err(lab.Attach(l.Name())), os.ErrNotExist, "attach after stop")
	must.Try(t, lab.RemoveData(l.Name()))
}

// TestReap runs a program that starts a lab and is killed.
func TestReap(t *testing.T) {
	labtest.Long(t)
	if os.Getenv("MPPS_LAB_ORPHAN") != "" {
		l, err := lab.Start(t.Context(), lab.Config{Name: os.Getenv("MPPS_LAB_ORPHAN"), Bare: true, MemoryMiB: 2048})
		must.Do(t, err)
		fmt.Println("ORPHAN", l.Netns(), "READY")
		time.Sleep(time.Hour)
	}
	keep := labtest.Host(t, labtest.NoBinary)
	name := fmt.Sprintf("orphan-%d", os.Getpid())
	cmd := exec.Command(os.Args[0], "-test.run=^TestReap$", "-test.v")
	cmd.Env = append(os.Environ(), "MPPS_LAB_ORPHAN="+name)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	buf, seen := make([]byte, 4096), ""
	for !strings.Contains(seen, "READY") {
		n, err := out.Read(buf)
		must.Need(t, err == nil, "%v: %s", err, seen)
		seen += string(buf[:n])
	}
	_, rest, _ := strings.Cut(seen, "ORPHAN ")
	path, _, _ := strings.Cut(rest, " READY")
	namespace := must.Get(os.Open(path))(t)
	defer namespace.Close()
	must.Need(t, len(labtest.InNamespace(t, namespace)) != 0, "nobody is in %s: this finds none", path)
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	const limit = 30 * time.Second
	until := time.Now().Add(limit)
	for in := labtest.InNamespace(t, namespace); len(in) > 0; in = labtest.InNamespace(t, namespace) {
		if time.Now().After(until) {
			t.Errorf("%v after their owner was killed the processes %v still hold its network namespace", limit, in)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	must.Pass(lab.Reap(t.Context()))(t, "reap") // or another process does, which starts a lab just now
	for left := true; left; time.Sleep(50 * time.Millisecond) {
		left = slices.ContainsFunc(must.Get(lab.List())(t), func(i lab.Info) bool { return i.Name == name })
		must.Need(t, !left || time.Now().Before(until.Add(limit)), "%s is left", name)
	}
	must.Pass(keep.Run(t.Context(), "true"))(t, "the other lab was harmed")
}
