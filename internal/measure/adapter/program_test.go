package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/measure/search"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

var question = search.Trial{PPS: 1000, FrameBytes: 64, Seconds: 0.01}

// script is a program that sh runs, started.
func script(t *testing.T, grace time.Duration, text string, words ...string) *Program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "adapter")
	must.Do(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755))
	p := must.Get(Start("sh "+file+" "+strings.Join(words, " "), grace))(t)
	p.grace = [2]time.Duration{100 * time.Millisecond, 100 * time.Millisecond}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// answers says the same to every question.
func answers(line string) string { return "while read -r q; do echo '" + line + "'; done\n" }

func TestTrial(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]search.Outcome{
		`{"sent": 10, "received": 9, "seconds": 0.01}`:               {Sent: 10, Received: 9, Seconds: 0.01},
		`{"seconds": 1, "received": 9e3, "sent": 10000.4, "x": [1]}`: {Sent: 10000, Received: 9000, Seconds: 1},
		`{"sent": 0, "received": 0, "seconds": 0, "error": ""}`:      {},
	} {
		p := script(t, time.Minute, answers(line))
		for range 3 {
			if got, err := p.Trial(t.Context(), question); err != nil || got != want {
				t.Errorf("%s is taken for %+v, %v", line, got, err)
			}
		}
	}
}

// The question is one line of JSON with the names that are promised.
func TestQuestion(t *testing.T) {
	t.Parallel()
	asked := filepath.Join(t.TempDir(), "asked")
	p := script(t, time.Minute, `while read -r q; do echo "$q" >>`+asked+
		`; echo '{"sent":1,"received":1,"seconds":1}'; done`)
	for _, q := range []search.Trial{{PPS: 14.88e6, FrameBytes: 64, Seconds: 1},
		{PPS: 1234.5, FrameBytes: 1518, Seconds: 0.25}} {
		must.Get(p.Trial(t.Context(), q))(t)
	}
	got, err := os.ReadFile(asked)
	if want := `{"pps":14880000,"frame_bytes":64,"seconds":1}` + "\n" +
		`{"pps":1234.5,"frame_bytes":1518,"seconds":0.25}` + "\n"; err != nil || string(got) != want {
		t.Errorf("asked %s, %v", got, err)
	}
}

// What programs do wrong is named, with what they said to people, and no further trial is asked for.
func TestWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want, hint string }{
		"nonsense":      {answers("hello"), `answered "hello": expected a line of JSON`, "docs/search.md"},
		"no object":     {answers("[1,2,3]"), `answered "[1,2,3]"`, "docs/search.md"},
		"text":          {answers(`{"sent":"10","received":9,"seconds":1}`), "expected a line of JSON with sent", ""},
		"missing":       {answers(`{"sent":10,"seconds":1}`), "received is missing", ""},
		"no seconds":    {answers(`{"sent":10,"received":10}`), "seconds is missing", ""},
		"negative":      {answers(`{"sent":10,"received":-1,"seconds":1}`), "received is -1", ""},
		"too much":      {answers(`{"sent":1e19,"received":1,"seconds":1}`), "sent is 1e+19", ""},
		"long nonsense": {answers(strings.Repeat("x", 500)), `"` + strings.Repeat("x", 120) + `"…`, ""},
		"too long":      {"read -r q; head -c 70000 /dev/zero | tr '\\0' x; sleep 5", "a line of more than 65536 bytes", ""},
		"error":         {answers(`{"error":"no link"}`), "could not do a trial: no link", ""},
		"hint": {"echo one >&2; echo two >&2; echo 'the cable is out' >&2\n" + answers(`{"error":"no link"}`),
			"no link", "it said: one / two / the cable is out"},
		"last words": {"read -r q; for i in 1 2 3 4; do echo line $i >&2; done; exit 3", "ended without an answer",
			"it said: line 2 / line 3 / line 4"},
		"ends at once": {"echo no licence >&2; exit 1", "ended without an answer", "it said: no licence"},
		"closes":       {"exec >&-; sleep 5", "ended without an answer", ""},
		"too early":    {"echo ready; sleep 5", `said "ready" before it was asked`, ""},
		"twice": {`while read -r q; do echo '{"sent":1,"received":1,"seconds":1}'; echo done; done`,
			`said "done" before it was asked`, ""},
		"half a line": {`read -r q; printf '{"sent":1,'`, `answered "{\"sent\":1,"`, ""},
		"hangs":       {"sleep 5", "gave no answer to a trial of 0.01 s for 200ms beyond it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := time.Minute
			if name == "hangs" {
				patience = 200 * time.Millisecond
			}
			p := script(t, patience, c.text)
			switch name {
			case "too early", "ends at once":
				time.Sleep(100 * time.Millisecond)
			case "twice":
				must.Get(p.Trial(t.Context(), question))(t)
				time.Sleep(50 * time.Millisecond)
			}
			_, err := p.Trial(t.Context(), question)
			var e *outcome.Fault
			must.Need(t, errors.As(err, &e) && strings.Contains(err.Error(), "the trial command sh ") &&
				strings.Contains(err.Error(), c.want), "found %v, expected %q", err, c.want)
			must.Hold(t, strings.Contains(e.Hint, c.hint) && e.Code == 1,
				"hint %q, exit code %d; expected %q and 1", e.Hint, e.Code, c.hint)
			if name == "error" && e.Hint != "" { // it kept to the protocol
				t.Errorf("hint %q", e.Hint)
			}
			if _, again := p.Trial(t.Context(), question); !errors.Is(again, err) {
				t.Errorf("and then %v: what it answers now may belong to an earlier trial", again)
			}
			begun := time.Now()
			if err := p.Close(); err != nil || time.Since(begun) > 20*time.Second {
				t.Errorf("closed after %v: %v", time.Since(begun), err)
			}
		})
	}
}

// TestLongStderr: a program that talks a lot to people is not held up by it, and its last words are kept.
func TestLongStderr(t *testing.T) {
	t.Parallel()
	p := script(t, time.Minute, "head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; echo the end >&2\n"+
		answers(`{"error":"no"}`))
	_, err := p.Trial(t.Context(), question)
	var e *outcome.Fault
	must.Hold(t, errors.As(err, &e) && e.Hint == "it said: the end" && len(p.stderr.text) <= maxStderr, "%v", err)
}

func TestStart(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"":                       "expected a program, found nothing",
		"  ":                     "expected a program, found nothing",
		"''":                     "expected a program, found nothing",
		"trex.py 'a":             "Unterminated single-quoted string",
		"/no/such/program -x":    "no such file",
		"no-such-program-at-all": "executable file not found",
		"/etc/passwd":            "permission denied",
	} {
		p, err := Start(command, time.Second)
		var e *outcome.Fault
		must.Hold(t, p == nil && errors.As(err, &e) && e.Code == 64 && strings.Contains(err.Error(), want),
			"%q: %v, expected %q and exit code 64", command, err, want)
	}
}

// Words are split as a shell splits them; nothing else that a shell does happens.
func TestWords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "words")
	p := script(t, time.Minute, `for w; do printf '%s\n' "$w" >>`+file+`; done`+"\n"+
		answers(`{"sent":1,"received":1,"seconds":1}`),
		`plain 'single quoted $HOME' "double \"quoted\"" back\ slash '' --a='b c' $HOME '*' ; a|b '>x'`)
	must.Get(p.Trial(t.Context(), question))(t)
	text, err := os.ReadFile(file)
	got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	want := []string{"plain", "single quoted $HOME", `double "quoted"`, "back slash", "", "--a=b c", "$HOME", "*", ";",
		"a|b", ">x"}
	must.Hold(t, err == nil && slices.Equal(got, want), "words %q, %v", got, err)
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	p := script(t, time.Minute, "sleep 30")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	begun := time.Now()
	if _, err := p.Trial(ctx, question); !errors.Is(err, why) || time.Since(begun) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

// What a program started ends with it: whether it ended at the end of its input, by SIGTERM, or not by itself.
func TestClose(t *testing.T) {
	t.Parallel()
	answer := answers(`{"sent":1,"received":1,"seconds":1}`)
	for name, c := range map[string]struct {
		text string
		exit int // 137: killed
	}{
		"end of input":  {answer + "exit 7", 7},
		"SIGTERM":       {"trap 'exit 8' TERM\n" + answer + "while :; do sleep 0.01; done", 8},
		"deaf":          {"trap '' TERM\n" + answer + "while :; do sleep 0.01; done", 137},
		"child at pipe": {answer + "sleep 60 >&2 & exit 9", 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "child")
			p := script(t, time.Minute, "sleep 60 </dev/null >/dev/null 2>&1 &\necho $! >"+file+"\n"+c.text)
			if name != "deaf" {
				p.grace[1] = 3 * time.Second
			}
			must.Get(p.Trial(t.Context(), question))(t)
			text := must.Get(os.ReadFile(file))(t)
			child, err := strconv.Atoi(strings.TrimSpace(string(text)))
			must.Need(t, err == nil && alive(child), "no child %q: %v", text, err)
			begun := time.Now()
			for range 2 { // closing twice does no harm
				must.Try(t, p.Close())
			}
			if code := p.cmd.ProcessState.ExitCode(); code != c.exit || time.Since(begun) > 20*time.Second {
				t.Errorf("it ended by %v after %v", p.cmd.ProcessState, time.Since(begun))
			}
			for i := 0; alive(child); i++ {
				if i > 100 {
					_ = syscall.Kill(child, syscall.SIGKILL)
					t.Fatal("its child is still there")
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}
