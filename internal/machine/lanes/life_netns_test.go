//go:build netns

package lanes

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// other is the process that a test starts to write lanes, and kills.
const other = "MPPS_TEST_LANES_WRITE"

func TestMain(m *testing.M) {
	if value := os.Getenv(other); value != "" {
		os.Exit(write(value))
	}
	os.Exit(m.Run())
}

func write(value string) int {
	lanes, err := setting.ParseLanes(value)
	if err != nil {
		return 2
	}
	p, err := programOf("nic0", os.Getenv("MPPS_TEST_FILTERS") != "")
	if err != nil || p.Write(lanes) != nil {
		return 3
	}
	return 0
}

func writer(value string, filters bool) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), other+"="+value)
	if filters {
		cmd.Env = append(cmd.Env, "MPPS_TEST_FILTERS=1")
	}
	return cmd
}

// TestOutlivesTheProcess: another process attaches and ends, and the lanes stay; windows change while the programs stay
// attached.
func TestOutlivesTheProcess(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 4, 4)
	had := map[[3]int]bool{}
	ways(t, func(t *testing.T, filters bool) {
		p.t = t
		if out, err := writer("tap0=0+4 tap1=4+4", filters).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		prog := program(t, filters)
		windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 4, Count: 4}}
		p.run(had, 500).exact(t, "after the process ended", 500, p.guests, windows)
		before := linkIDs(t, prog)
		windows[0].Base, windows[1].Base = 4, 0
		must.Do(t, prog.Write(windows))
		if after := linkIDs(t, prog); after != before {
			t.Errorf("programs were attached again: links %s, before %s", after, before)
		}
		p.run(had, 500).exact(t, "with other windows", 500, p.guests, windows)
		// One tap less: its program is detached, the other's stays.
		must.Do(t, prog.Write(windows[:1]))
		must.Equal(t, prog.reads(t), "tap0=4+4", "reads")
		if is, err := prog.attached(find(t, prog, "tap1"), tapSide); is || err != nil {
			t.Errorf("attached to tap1: %v, %v", is, err)
		}
		must.Do(t, prog.Remove())
		nothingLeft(t)
	})
}

func find(t *testing.T, p Program, tap string) Device {
	t.Helper()
	d, found := p.Find(tap)
	must.Need(t, found, "there is no %s", tap)
	return d
}

// linkIDs returns the IDs of the pinned links, or of the filters' programs.
func linkIDs(t *testing.T, p Program) string {
	t.Helper()
	var all []string
	for _, d := range []Device{p.NIC, find(t, p, "tap0"), find(t, p, "tap1")} {
		s := tapSide
		if d == p.NIC {
			s = nicSide
		}
		filters := must.Get(p.filters(d, s))(t)
		for _, f := range filters {
			all = append(all, f.Tag, string(rune('0'+f.Id)))
		}
		if l, err := link.LoadPinnedLink(p.pin(d, s), nil); err == nil {
			info := must.Get(l.Info())(t)
			all = append(all, string(rune('0'+info.ID)))
			l.Close()
		}
	}
	must.Need(t, len(all) >= 3, "programs on %d of 3 devices", len(all))
	return strings.Join(all, " ")
}

// TestRemovedUnderTraffic: while guests send, the programs are attached, changed and removed repeatedly; every frame
// arrives once.
func TestRemovedUnderTraffic(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 4, 4)
	had := map[[3]int]bool{}
	ways(t, func(t *testing.T, filters bool) {
		p.t = t
		prog := program(t, filters)
		if filters { // clsact is there: the kernel drops frames while it comes
			for _, err := range []error{prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 4},
				{Tap: "tap1", Base: 4, Count: 4}}), prog.Remove()} {
				must.Do(t, err)
			}
		}
		stop := make(chan struct{})
		var sending sync.WaitGroup
		sending.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, g := range p.guests {
					g.send(t, 16)
				}
				p.pace(2000) // the capture keeps up
			}
		})
		rounds, began, came := 0, time.Now(), p.came.Load()
		for ; time.Since(began) < 1500*time.Millisecond ||
			(rounds < 5 || p.came.Load()-came < 10_000) && time.Since(began) < time.Minute; rounds++ {
			err := prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 4, Count: 4}})
			if err == nil {
				err = prog.Write([]setting.Lane{{Tap: "tap0", Base: 2, Count: 2}})
			}
			if err == nil {
				err = prog.Remove()
			}
			if err != nil {
				t.Error(err)
				break
			}
		}
		close(stop)
		sending.Wait()
		m, frames := p.collect(had), 0
		for _, n := range m {
			frames += n
		}
		t.Logf("%d frames arrived, each once, while the programs came and went %d times", frames, rounds)
		must.Hold(t, rounds >= 5 && frames >= 10_000, "that was too little to prove anything")
		nothingLeft(t)
	})
}

// TestKilled: a process is killed at some point while it attaches. The result reads as absent only if nothing is there,
// and both removing and writing again repair it.
func TestKilled(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2, 2)
	ways(t, func(t *testing.T, filters bool) {
		prog := program(t, filters)
		began := time.Now()
		must.Do(t, writer("tap0=0+2 tap1=2+2", filters).Run())
		took := time.Since(began)
		must.Do(t, prog.Remove())
		partly := map[string]int{}
		for round := range 40 {
			cmd := writer("tap0=0+2 tap1=2+2", filters)
			must.Do(t, cmd.Start())
			time.Sleep(took/4 + rand.N(took))
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
			found := prog.reads(t)
			partly[found]++
			if found == "absent" {
				nothingLeft(t)
			}
			if round%2 == 0 {
				if err := prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 2},
					{Tap: "tap1", Base: 2, Count: 2}}); err != nil {
					t.Fatalf("over %s: %v", found, err)
				}
				must.Equal(t, prog.reads(t), "tap0=0+2 tap1=2+2", "written over %s it reads", found)
			}
			if err := prog.Remove(); err != nil {
				t.Fatalf("over %s: %v", found, err)
			}
			nothingLeft(t)
		}
		t.Logf("a write takes %v; killed in it, it left %v", took, partly)
		for _, dir := range []string{"mpps", "mpps/" + version, "mpps/" + version + "/nic0"} { // killed as soon as it is there
			must.Do(t, os.MkdirAll(filepath.Join(FileSystem, dir), 0o700))
			if found := prog.reads(t); found == "absent" {
				t.Errorf("with an empty %s it reads as absent", dir)
			}
			must.Do(t, prog.Remove())
			nothingLeft(t)
		}
	})
}

// TestTapMadeAnew: a lane whose tap does not exist is in effect; one whose tap was created again is not, until it is
// written again.
func TestTapMadeAnew(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 2, 2)
	had := map[[3]int]bool{}
	ways(t, func(t *testing.T, filters bool) {
		p.t = t
		prog := program(t, filters)
		windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 2}, {Tap: "tap1", Base: 2, Count: 2}}
		const all = "tap0=0+2 tap1=2+2"
		must.Do(t, prog.Write(windows))
		p.guests[1].close() // the tap goes with its last descriptor
		must.Equal(t, prog.reads(t), all, "with its tap gone: reads")
		must.Succeed(t, prog.Write(windows), "with its tap gone")
		sent := p.guests[1].sent
		p.guests[1] = p.guest(1, 2)
		p.guests[1].sent = sent
		must.Equal(t, prog.reads(t), "tap0=0+2", "with its tap recreated: reads")
		must.Do(t, prog.Write(windows))
		must.Equal(t, prog.reads(t), all, "written again: reads")
		p.run(had, 200).exact(t, "with its tap recreated", 200, p.guests, windows)
		pins, err := filepath.Glob(prog.dir() + "/" + tapPin + "*")
		if err != nil || !filters && len(pins) != 2 {
			t.Errorf("pins %q, %v: expected those of the taps that are there", pins, err)
		}
		must.Do(t, prog.Remove())
		nothingLeft(t)
	})
}
