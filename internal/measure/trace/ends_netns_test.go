//go:build netns

package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
)

// TestKilled ends a watching process by SIGKILL in the middle. Every program, link and map that it had must be gone.
func TestKilled(t *testing.T) {
	if ns := os.Getenv("TRACE_TEST_WATCH"); ns != "" {
		_, err := Watch(context.Background(), Config{Netns: ns, For: time.Minute, EveryPacket: true,
			Progress: func(time.Duration) {
				fmt.Println("watching")
			}})
		t.Fatal("not killed: ", err)
	}
	s := newScene(t, 0)
	child := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	child.Env = append(os.Environ(), "TRACE_TEST_WATCH="+s.host)
	out, err := child.StdoutPipe()
	s.must(err)
	s.must(child.Start())
	defer child.Wait()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		child.Process.Kill()
		t.Fatalf("the watching process said %q: %v", line, err)
	}
	programs, links, maps := openBPF(t, child.Process.Pid)
	s.must(child.Process.Kill())
	child.Wait()
	must.Hold(t, len(programs) == 4 && len(links) == 4 && len(maps) >= 8,
		"it held %d programs, %d links and %d maps, expected 4, 4 and 8 or more", len(programs), len(links), len(maps))
	// What is closed goes after a grace period.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for _, id := range programs {
			if p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id)); err == nil {
				p.Close()
				left = append(left, fmt.Sprint("program ", id))
			}
		}
		for _, id := range links {
			if l, err := link.NewFromID(link.ID(id)); err == nil {
				l.Close()
				left = append(left, fmt.Sprint("link ", id))
			}
		}
		for _, id := range maps {
			if m, err := ebpf.NewMapFromID(ebpf.MapID(id)); err == nil {
				m.Close()
				left = append(left, fmt.Sprint("map ", id))
			}
		}
		if len(left) == 0 {
			return
		}
		must.Need(t, !time.Now().After(deadline), "left behind: %s", strings.Join(left, ", "))
	}
}

// openBPF returns what of eBPF a process has open, by its own /proc files (Documentation/filesystems/proc.rst, fdinfo).
func openBPF(t *testing.T, pid int) (programs, links, maps []int) {
	t.Helper()
	files := must.Get(filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid)))(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		values := map[string]int{}
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok {
				if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
					values[name] = n
				}
			}
		}
		// A link's file names its program too.
		switch {
		case values["link_id"] != 0:
			links = append(links, values["link_id"])
		case values["prog_id"] != 0:
			programs = append(programs, values["prog_id"])
		case values["map_id"] != 0:
			maps = append(maps, values["map_id"])
		}
	}
	return programs, links, maps
}

// TestMemory: what the tables take at most is what is documented: a little more than 23 MiB, most of it at once, and
// little for each CPU.
func TestMemory(t *testing.T) {
	s := newScene(t, 0)
	n, err := openNamespace(s.host)
	s.must(err)
	p, err := load(n, Config{})
	s.must(err)
	defer p.close()
	var sum uint64
	for name, m := range p.coll.Maps {
		i, err := m.Info()
		s.must(err)
		bytes, known := i.Memlock()
		if !known {
			t.Skip("this kernel does not tell what tables take (Linux 4.10)")
		}
		t.Logf("%s: %d entries, %.1f MiB", name, m.MaxEntries(), float64(bytes)/(1<<20))
		sum += bytes
	}
	if mib := float64(sum) / (1 << 20); mib < 20 || mib > 24+0.1*float64(ebpf.MustPossibleCPU()) {
		t.Errorf("the tables take %.1f MiB, expected 23", mib)
	}
}

// TestRowsOverflow: what the table has no room for is told, and no frame is in neither.
func TestRowsOverflow(t *testing.T) {
	const frames = 2_000
	s := newScene(t, 0)
	tap := s.tap("tap0", 4)
	o := s.watching(Config{EveryPacket: true, rows: 3}, func() {
		for i := range frames {
			s.send(tap[i%4], frame(i%4, 1))
		}
		s.settle()
	})
	counted := frameSum(o, func(r *queuepath.Row) bool { return r.Origin.Device == "tap0" })
	must.Hold(t, o.Lost.Rows != 0 && counted != 0,
		"%d frames counted and %d lost, expected some of each", counted, o.Lost.Rows)
	// Each frame has two hops; the bridge may say something of its own.
	if sum := counted + o.Lost.Rows; sum < 2*frames || sum > 2*frames+10 {
		t.Errorf("%d frames counted and %d lost are %d, expected %d", counted, o.Lost.Rows, sum, 2*frames)
	}
}

// TestNewDevice: a guest that comes while packets are watched is counted from then on, and what passed before its
// device was known is told as lost.
func TestNewDevice(t *testing.T) {
	s := newScene(t, 0)
	var sent uint64
	o := s.watching(Config{EveryPacket: true}, func() {
		tap := s.tap("tap9", 1)
		for end := time.Now().Add(time.Second); time.Now().Before(end); sent++ {
			s.send(tap[0], frame(1, 1))
		}
		s.settle()
	})
	counted := frameSum(o, func(r *queuepath.Row) bool { return r.First() && r.To.Device == "tap9" })
	must.Hold(t, counted != 0 && counted+o.Lost.Rows >= sent && counted <= sent,
		"%d frames of the new guest counted and %d lost, %d were sent", counted, o.Lost.Rows, sent)
}

// TestXDPIsTold: what an XDP program drops is in no row, and this is said of the device.
func TestXDPIsTold(t *testing.T) {
	s := newScene(t, 0)
	o, err := Watch(context.Background(), Config{Netns: strings.TrimSuffix(s.host, "h") + "w",
		For: 50 * time.Millisecond})
	s.must(err)
	if !slices.ContainsFunc(o.Unseen, func(u queuepath.Unseen) bool {
		return strings.Contains(u.What, "XDP") && strings.Contains(u.What, "wire0")
	}) {
		t.Errorf("not seen: %+v, expected a word of wire0, whose frames an XDP program takes", o.Unseen)
	}
}

// TestNotRoot: without privilege the error says what to do.
func TestNotRoot(t *testing.T) {
	if os.Getenv("TRACE_TEST_NOBODY") != "" {
		for _, ns := range []string{"", os.Getenv("TRACE_TEST_NOBODY")} {
			_, err := Watch(context.Background(), Config{For: time.Second, Netns: ns})
			var hinted interface{ Hint() string }
			must.Need(t, err != nil && errors.As(err, &hinted) && strings.Contains(hinted.Hint(), "root"),
				"namespace %q: found %v, expected an error whose hint names root", ns, err)
			if text := err.Error(); ns == "" && text != "cannot watch packets' queues: load the watching program: "+
				"operation not permitted" {
				t.Errorf("found %q, expected no more than what is refused", text)
			}
		}
		return
	}
	self := must.Get(os.ReadFile(os.Args[0]))(t)
	dir := must.Get(os.MkdirTemp("", "trace"))(t)
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "test")
	must.Do(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(binary, self, 0o755)))
	child := exec.Command(binary, "-test.run", "^TestNotRoot$")
	child.Dir, child.Env = "/", append(os.Environ(), "TRACE_TEST_NOBODY="+newScene(t, 0).host)
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if text, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}
