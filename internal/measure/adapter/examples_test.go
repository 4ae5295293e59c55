package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure/search"
	"mpps/internal/must"
)

const examples = "../../../examples/adapters/"

// python skips where there is none; scripts/deps test installs it.
func python(t *testing.T) string {
	t.Helper()
	// The distribution's own: others may be wrappers that take a while.
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("the example adapters are Python, which is not installed here: scripts/deps test installs it")
	return ""
}

// started is a running adapter.
func started(t *testing.T, words ...string) *Program {
	t.Helper()
	p := must.Get(Start(strings.Join(words, " "), 10*time.Second))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// found searches and expects the capacity that the fake has.
func found(t *testing.T, p *Program, capacity float64) *search.Result {
	t.Helper()
	r := must.Get(search.Run(t.Context(), p, search.Options{
		Mode: search.Fast, MinPPS: 1488, MaxPPS: 14.88e6, FrameBytes: 64, PDR: 0.005, Width: 0.005, Budget: time.Minute,
	}))(t)
	for _, f := range []search.Found{r.NDR, r.PDR} {
		truth := capacity / (1 - f.LossRatio)
		if f.LowerPPS == nil || f.UpperPPS == nil {
			t.Fatalf("%s: no bounds: %+v", f.Name, r)
		}
		if lower, upper := *f.LowerPPS/truth-1, *f.UpperPPS/truth-1; math.Abs(lower) > 0.005 ||
			math.Abs(upper) > 0.005 || lower > 0 || upper < 0 {
			t.Errorf("%s: %.0f to %.0f, expected %.0f between them and within 0.5 %%", f.Name, *f.LowerPPS, *f.UpperPPS,
				truth)
		}
	}
	return r
}

// trex is the command of the adapter for TRex, with the fake of its client.
func trex(t *testing.T, virtual bool, setup map[string]any, words ...string) (command []string, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	setup["log"] = log
	text := must.Get(json.Marshal(setup))(t)
	command = []string{"env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=testdata", "'FAKE_TREX=" + string(text) + "'",
		python(t)}
	if virtual {
		command = append(command, "testdata/clock.py")
	}
	return append(append(command, examples+"trex.py"), words...), log
}

// event is what the fake of TRex's client notes.
type event struct {
	Event    string
	Port     int
	PPS      float64
	Bytes    int
	Src, Dst string
	MAC      string
	Checksum int
	VM       [][]any
	Released []int
}

func events(t *testing.T, log string) (all []event) {
	t.Helper()
	text := must.Get(os.ReadFile(log))(t)
	for line := range bytes.Lines(text) {
		var e event
		must.Do(t, json.Unmarshal(line, &e))
		all = append(all, e)
	}
	return all
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	found(t, started(t, python(t), examples+"template.py"), 1234567)
}

func TestTRex(t *testing.T) {
	t.Parallel()
	command, log := trex(t, true, map[string]any{"capacity": 3.21e6, "stray": 3}, "--dst-mac", "02:00:00:00:00:07")
	p := started(t, command...)
	r := found(t, p, 3.21e6)
	must.Try(t, must.Err(p.Trial(t.Context(), search.Trial{PPS: 1000, FrameBytes: 1518, Seconds: 0.5})))
	must.Try(t, p.Close())
	all := events(t, log)
	must.Hold(t, len(all) == r.Trials+2, "%d events for %d trials", len(all), r.Trials)
	last := all[len(all)-1]
	must.Hold(t, last.Event == "disconnect" && slices.Equal(last.Released, []int{0, 1}), "it ended by %+v", last)
	for i, e := range all[:len(all)-1] {
		size := 64
		if i == r.Trials {
			size = 1518
		}
		must.Hold(t, e.Event == "start" && e.Port == 0 && e.Bytes == size && e.Src == "198.18.0.1" &&
			e.Dst == "198.19.0.1" && e.MAC == "02:00:00:00:00:07" && e.Checksum == 0, "trial %d: %+v", i, e)
		must.Hold(t, len(e.VM) == 4 &&
			slices.Equal(e.VM[0], []any{"tuple", "flow", "198.18.0.1", "198.18.0.16", 49152.0, 49152.0, 16.0}),
			"trial %d varies frames by %v", i, e.VM)
	}
}

func TestTRexTwoWay(t *testing.T) {
	t.Parallel()
	command, log := trex(t, true, map[string]any{"capacity": 1.5e6}, "--two-way", "--flows", "1000")
	p := started(t, command...)
	found(t, p, 3e6) // both directions together
	_ = p.Close()
	all := events(t, log)
	if a, b := all[0], all[1]; a.Port != 0 || b.Port != 1 || a.PPS != b.PPS || b.Src != "198.19.0.1" ||
		b.Dst != "198.18.0.1" ||
		!slices.Equal(b.VM[0], []any{"tuple", "flow", "198.19.0.1", "198.19.0.250", 49152.0, 49155.0, 1000.0}) {
		t.Errorf("the directions are %+v and %+v", a, b)
	}
}

func TestTRexFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup map[string]any
		words []string
		frame int
		want  string
	}{
		"no server": {map[string]any{}, []string{"--server", "192.0.2.1"}, 64, "cannot connect to TRex at " +
			"192.0.2.1: no server"},
		"no such port":   {map[string]any{}, []string{"--ports", "0,7"}, 64, "has no port 7: it has 0, 1"},
		"somebody's":     {map[string]any{"owner": "eve"}, nil, 64, "owned by 'eve'"},
		"frame size":     {map[string]any{}, nil, 60, "frames of 60 bytes: TRex has 64 to 9216"},
		"other traffic":  {map[string]any{"stray": 5000}, nil, 64, "received 1005000 frames of 1000000 sent"},
		"no such client": {map[string]any{}, nil, 64, "TRex's Python client is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, _ := trex(t, true, c.setup, c.words...)
			if name == "no such client" {
				command[2] = "PYTHONPATH="
			}
			failing(t, started(t, command...), search.Trial{PPS: 1e6, FrameBytes: c.frame, Seconds: 1}, c.want)
		})
	}
}

// failing expects the answer to be an error.
func failing(t *testing.T, p *Program, trial search.Trial, want string) {
	t.Helper()
	_, err := p.Trial(t.Context(), trial)
	must.Hold(t, err != nil && strings.Contains(err.Error(), "could not do a trial: ") &&
		strings.Contains(err.Error(), want), "failed by %v, expected %q", err, want)
}

// ending ends an adapter in the middle of a trial, when its traffic runs.
func ending(t *testing.T, p *Program, runs func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		for ctx.Err() == nil && !runs() {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(why)
	}()
	must.Is(t, must.Err(p.Trial(ctx, search.Trial{PPS: 1e5, FrameBytes: 64, Seconds: 30})), why, "the trial ended")
	p.grace[0] = 10 * time.Millisecond // in a trial it does not see the end of its input
	must.Try(t, p.Close())
	must.Hold(t, p.cmd.ProcessState.ExitCode() == 128+15,
		"it ended by %v, expected by its own exit after SIGTERM", p.cmd.ProcessState)
}

func TestTRexStopped(t *testing.T) {
	t.Parallel()
	command, log := trex(t, false, map[string]any{})
	ending(t, started(t, command...), func() bool { _, err := os.Stat(log); return err == nil })
	all := events(t, log)
	must.Hold(t, len(all) == 3 && all[1].Event == "stop" && all[1].Port == 0 && all[2].Event == "disconnect",
		"it went so: %+v", all)
}

// dpdk is the command of the adapter for pktgen-dpdk.
func dpdk(t *testing.T, p *pktgen, words ...string) []string {
	t.Helper()
	command := []string{python(t), examples + "pktgen-dpdk.py", "--server", p.address}
	if p.began.IsZero() {
		command = append([]string{"env", "CLOCK=" + p.clock, python(t), "testdata/clock.py"}, command[1:]...)
	}
	return append(command, words...)
}

func TestPktgenDPDK(t *testing.T) {
	t.Parallel()
	fake := newPktgen(t, "buffer", 2.345e6, true)
	fake.stray = 2
	p := started(t, dpdk(t, fake, "--dst-mac", "02:00:00:00:00:07")...)
	found(t, p, 2.345e6)
	port := fake.port(0)
	must.Hold(t, port.rangeSize == 64 && port.ranges && port.srcFrom == "198.18.0.1" && port.srcTo == "198.18.0.16" &&
		port.portFrom == 49152 && port.portTo == 49167 && port.count != 0, "the port that sends: %+v", port)
	must.Hold(t, slices.Contains(fake.calls, "range.dst_mac"), "frames go to no MAC address")
	must.Hold(t, fake.port(1).opackets == 0, "the port that receives sent, too")
	// It is left stopped, without its own end and with its other modes.
	_ = p.Close()
	if port := fake.port(0); port.sending || port.count != 0 || port.ranges {
		t.Errorf("afterwards: %+v", port)
	}
	must.Empty(t, fake.console, "pktgen's console says")
}

func TestPktgenDPDKTwoWay(t *testing.T) {
	t.Parallel()
	fake := newPktgen(t, "clean", 1e6, true)
	found(t, started(t, dpdk(t, fake, "--two-way")...), 2e6)
	if a, b := fake.port(0).opackets, fake.port(1).opackets; a != b || a == 0 {
		t.Errorf("the ports sent %g and %g", a, b)
	}
}

func TestPktgenDPDKFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words []string
		frame int
		stray float64
		want  string
	}{
		"no server":     {[]string{"--server", "127.0.0.1:1"}, 64, 0, "cannot connect to pktgen at 127.0.0.1:1"},
		"no such port":  {[]string{"--ports", "0,7"}, 64, 0, "pktgen has no port 7: it has 2"},
		"small frames":  {nil, 60, 0, "frames of 60 bytes: pktgen has 64"},
		"large frames":  {nil, 4000, 0, "frames of 4000 bytes: pktgen makes them 1518"},
		"other traffic": {nil, 64, 5000, "the ports have other traffic"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := newPktgen(t, "clean", 1e9, true)
			fake.stray = c.stray
			p := started(t, dpdk(t, fake, c.words...)...)
			failing(t, p, search.Trial{PPS: 1e6, FrameBytes: c.frame, Seconds: 1}, c.want)
			_ = p.Close()
			if name == "no such port" && (slices.Contains(fake.calls, "stop") || slices.Contains(fake.calls, "set")) {
				t.Errorf("ports were touched: %v", fake.calls)
			}
		})
	}
}

func TestPktgenDPDKStopped(t *testing.T) {
	t.Parallel()
	fake := newPktgen(t, "clean", 1e6, false)
	ending(t, started(t, dpdk(t, fake, "--late", "0")...), func() bool { return fake.port(0).sending })
	if port := fake.port(0); port.sending || port.opackets == 0 || port.opackets > 5e5 {
		t.Errorf("afterwards: %+v", port)
	}
}

// TestPktgenDPDKTalks: a server that talks without end costs its client ten seconds, and no memory.
func TestPktgenDPDKTalks(t *testing.T) {
	t.Parallel()
	for name, talk := range map[string]string{"lines": strings.Repeat("pktgen:/> \n", 4096),
		"no line": strings.Repeat("x", 64<<10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close()
			go func() {
				c, err := l.Accept()
				for err == nil {
					_, err = io.WriteString(c, talk)
				}
			}()
			command := []string{"sh", "-c", `'ulimit -v 300000; exec "$0" "$@"'`, python(t), examples + "pktgen-dpdk.py",
				"--server", l.Addr().String()}
			p := must.Get(Start(strings.Join(command, " "), time.Minute))(t)
			defer p.Close()
			failing(t, p, search.Trial{PPS: 1e6, FrameBytes: 64, Seconds: 1}, "talks without an answer")
		})
	}
}
