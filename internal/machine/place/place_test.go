package place

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// slowAgent is an agent whose programs run on this machine, in parallel to its replies, as a guest's do.
type slowAgent struct {
	lock  sync.Mutex
	cmds  map[int64]*slowProgram
	asked int
	mute  bool // answers nothing any more
}

type slowProgram struct {
	cmd  *exec.Cmd
	out  strings.Builder
	err  strings.Builder
	done chan struct{}
}

func (s *slowAgent) Ask(_ context.Context, _ string, commands ...libvirt.AgentCommand) ([]json.RawMessage, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	answers := make([]json.RawMessage, len(commands))
	if s.mute {
		return answers, libvirt.ErrAgentHangs
	}
	var errs []error
	for i, c := range commands {
		arguments, _ := c.Arguments.(map[string]any)
		var answer any
		switch c.Execute {
		case "guest-exec":
			path, _ := arguments["path"].(string)
			args, _ := arguments["arg"].([]string)
			p := &slowProgram{cmd: exec.Command(path, args...), done: make(chan struct{})}
			p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
			if err := p.cmd.Start(); err != nil {
				errs = append(errs, fmt.Errorf("error: Guest agent command failed, error was 'Failed to execute "+
					"child process %q (No such file or directory)'", path))
				continue
			}
			if s.cmds == nil {
				s.cmds = map[int64]*slowProgram{}
			}
			s.cmds[int64(p.cmd.Process.Pid)] = p
			go func() { _ = p.cmd.Wait(); close(p.done) }()
			answer = map[string]any{"pid": p.cmd.Process.Pid}
		case "guest-exec-status":
			s.asked++
			pid, _ := arguments["pid"].(int64)
			p := s.cmds[pid]
			select {
			case <-p.done:
				answer = map[string]any{"exited": true, "exitcode": p.cmd.ProcessState.ExitCode(),
					"out-data": base64.StdEncoding.EncodeToString([]byte(p.out.String())),
					"err-data": base64.StdEncoding.EncodeToString([]byte(p.err.String()))}
			default:
				answer = map[string]any{"exited": false}
			}
		}
		raw, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		answers[i] = raw
	}
	return answers, errors.Join(errs...)
}

// trapping prints its results on SIGINT, as cyclictest does.
var trapping = []string{"sh", "-c", "trap 'echo so far; exit 0' INT; i=0; while [ $i -lt 300 ]; do sleep 0.1; " +
	"i=$((i+1)); done"}

func toolPlaces(t *testing.T) map[string]*Place {
	here := must.Get(Here(treetest.Live(t)))(t)
	return map[string]*Place{"here": here, "guest": {"vm1", &slowAgent{}}}
}

// TestPlaceRun: a program's output and exit code, here and in a guest.
func TestPlaceRun(t *testing.T) {
	for name, p := range toolPlaces(t) {
		e, err := p.Run(t.Context(), 200*time.Millisecond, "sh", "-c", "sleep 0.2; echo said; echo wrong >&2; exit 3")
		if err != nil || e.Out != "said\n" || e.Err != "wrong\n" || e.Code != 3 || e.Cut || e.Problem() != "wrong" {
			t.Errorf("%s: %+v, %v", name, e, err)
			continue
		}
		took := e.To.Sub(e.From)
		must.Hold(t, took >= 200*time.Millisecond, "%s: it took %v", name, took)
		if a, is := p.agents.(*slowAgent); is && a.asked > 2+int((took-200*time.Millisecond)/(100*time.Millisecond)) {
			t.Errorf("it was looked at %d times", a.asked)
		}
		must.Is(t, must.Err(p.Run(t.Context(), 0, "no-such-program-here")), ErrNoProgram, "%s", name)
	}
}

// TestPlaceInterrupted: a program is interrupted with us, and what it prints then is kept.
func TestPlaceInterrupted(t *testing.T) {
	for name, p := range toolPlaces(t) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the shell must have set its trap
		began := time.Now()
		e, err := p.Run(ctx, 30*time.Second, trapping...)
		cancel()
		must.Hold(t, err == nil && e.Cut && e.Out == "so far\n", "%s: %+v, %v", name, e, err)
		if took := time.Since(began); took > 15*time.Second { // of 30
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// TestPlaceChildren: a program's children end with it, and endless output is not kept.
func TestPlaceChildren(t *testing.T) {
	here := toolPlaces(t)["here"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(time.Second, cancel)
	e, err := here.Run(ctx, 30*time.Second, "sh", "-c", "trap '' INT; sleep 60 >/dev/null 2>&1 & echo $!; trap 'exit "+
		"0' INT; while :; do sleep 0.1; done")
	must.Need(t, err == nil && e.Cut, "%+v, %v", e, err)
	pid := must.Get(strconv.Atoi(strings.TrimSpace(e.Out)))(t)
	for range 200 { // until init has buried it
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			pid = 0
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	must.Equal(t, pid, 0, "process left behind")
	w := headWriter{room: 3}
	for _, said := range []string{"ab", "cd", "e"} {
		if n, err := w.Write([]byte(said)); n != len(said) || err != nil {
			t.Errorf("%q: %d, %v", said, n, err)
		}
	}
	must.Equal(t, w.text.String(), "abc", "kept")
}

// TestPlaceMute: an agent that stops replying while a program runs is an error, not an endless wait.
func TestPlaceMute(t *testing.T) {
	a := &slowAgent{}
	p := &Place{guest: "vm1", agents: a}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	time.AfterFunc(100*time.Millisecond, func() { a.lock.Lock(); a.mute = true; a.lock.Unlock() })
	_, err := p.Run(ctx, time.Second, "sleep", "2")
	must.Hold(t, errors.Is(err, libvirt.ErrAgentHangs) && strings.Contains(err.Error(), "ends by itself"), "%v", err)
}

func TestMonotonic(t *testing.T) {
	there, at, off, err := toolPlaces(t)["here"].Monotonic(t.Context())
	must.Hold(t, err == nil && there > 0 && time.Since(at) <= 20*time.Second && off <= 20*time.Second,
		"%v at %v, off by %v: %v", there, at, off, err)
	if d, err := parseTimerList("now at 1234 nsecs\n"); d != 1234 || err != nil {
		t.Errorf("%v, %v", d, err)
	}
	for _, text := range []string{"", "now at -5 nsecs", "now at x nsecs", "later"} {
		must.Fail(parseTimerList(text))(t, "%q is a time", text)
	}
}
