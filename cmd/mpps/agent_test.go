package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// program runs mpps, or a program that runs it, and returns its exit code and what it said.
func program(t *testing.T, argv ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var failed *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &failed) {
		t.Fatalf("%v: %v", argv, e)
	}
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// startAgent starts an agent and returns its address. It is ended with the test.
func startAgent(t *testing.T, argv ...string) (address string) {
	t.Helper()
	address, _ = startAgentProcess(t, argv...)
	return address
}

// startAgentProcess also returns its process number.
func startAgentProcess(t *testing.T, argv ...string) (address string, pid int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	out := must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		must.Try(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	address, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Fatalf("the agent said %q", line)
	}
	return address, cmd.Process.Pid
}

// result is the run in a JSON answer.
func result(t *testing.T, answer string) *measure.Run {
	t.Helper()
	run, err := measure.Decode(strings.NewReader(answer))
	if err != nil {
		t.Fatalf("%v in %q", err, answer)
	}
	schema := "mpps.bench-" + string(run.Kind) + ".1"
	if strings.HasPrefix(strings.TrimLeft(answer, "{ \n"), `"schema": "mpps.run/1"`) { // a file
		schema = "mpps.run.1"
	}
	must.Try(t, validate(schema, answer))
	return run
}

func TestBenchWithAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, other := filepath.Join(dir, "secret"), filepath.Join(dir, "other")
	for file, text := range map[string]string{secret: "open sesame, open\n", other: "open barley, open\n"} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	address := startAgent(t, "mpps", "agent", "--listen", "127.0.0.1:0", "--secret-file", secret)
	bench := func(argv ...string) (int, string, string) {
		argv = append([]string{argv[0], "--agent", address}, argv[1:]...)
		argv = append(argv, "--duration", "150ms", "--warm-up", "20ms", "--repeat", "2",
			"--keep=false")
		return program(t, append([]string{"mpps", "--json", "bench"}, argv...)...)
	}

	file := filepath.Join(dir, "run.json")
	code, stdout, stderr := bench("rr", "--secret-file", secret, "-o", file, "--name", "loop")
	if code != outcome.CodeOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	run := result(t, stdout)
	if run.Kind != measure.RR || run.Name != "loop" || len(run.Samples) != 2 || run.Median.Value < 1 ||
		run.Median.Unit != "transaction/s" {
		t.Errorf("%+v", run)
	}
	for _, s := range run.Samples {
		if s.Latency == nil || s.Latency.Count != s.Transactions || s.Latency.Loop != "closed" || len(s.CPU) != 2 {
			t.Errorf("%d transactions, latency %+v, %d machines", s.Transactions, s.Latency, len(s.CPU))
		}
	}
	saved := must.Get(os.ReadFile(file))(t)
	if again := result(t, string(saved)); again.Median != run.Median || again.Host != run.Host {
		t.Errorf("the file has %+v, the answer %+v", again.Median, run.Median)
	}

	if code, stdout, stderr = bench("stream", "--secret-file", secret, "--connections", "2",
		"--reverse"); code != outcome.CodeOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	// On a busy machine one of two trials of 150 ms may see nothing.
	if run = result(t, stdout); run.Kind != measure.Stream || run.Median.Value < 1e6 || len(run.Samples) != 2 ||
		run.Samples[0].Bytes+run.Samples[1].Bytes == 0 {
		t.Errorf("%+v", run.Median)
	}

	for _, c := range []struct {
		name string
		argv []string
		code int
		want string
	}{
		{"the wrong secret", []string{"rr", "--secret-file", other}, outcome.CodeFailed, "give the agent's secret"},
		{"no secret", []string{"rr"}, outcome.CodeFailed, "give the agent's secret"},
		{"an interface that is not there", []string{"rr", "--secret-file", secret, "--guest-nic", "no-such0"},
			outcome.CodeUsage, "the agent has lo"},
		{"packets over loopback", []string{"pps", "--secret-file", secret, "--via", "no-such0"}, outcome.CodeUsage,
			"Ethernet address"},
		{"nobody listens", []string{"rr", "--secret-file", secret, "--agent", "127.0.0.1:9"}, outcome.CodeFailed,
			"is 'mpps agent' running"},
	} {
		code, stdout, stderr := bench(c.argv...)
		if code != c.code || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "hint: ") || stdout != "" {
			t.Errorf("%s: exit code %d, expected %d; %s", c.name, code, c.code, stderr)
		}
	}
}

// What answers at an agent's address is not always one, or not one of ours.
func TestBenchWithSomethingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ greeting, want string }{
		"an older agent": {`{"mpps": "0.1.0", "protocol": 2, "challenge": "00ff"}` + "\n",
			"install the same version"},
		"a newer agent": {`{"mpps": "9.9.9", "protocol": 99, "challenge": "00ff"}` + "\n",
			"install the same version"},
		"another service":   {"SSH-2.0-OpenSSH_9.2\r\n", "hint: "},
		"a web server":      {"{}\n", "something else answers"},
		"one that hangs up": {"", "hint: "},
	} {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		go func() {
			c1, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c1, c.greeting)
			_ = c1.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c1)
			c1.Close()
		}()
		code, stdout, stderr := program(t, "mpps", "bench", "rr", "--agent", l.Addr().String(), "--keep=false")
		if code != outcome.CodeFailed || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
		l.Close()
	}
}

// An interrupted measurement shows what it has, marked partial, and keeps the exit code of a failure.
func TestBenchInterrupted(t *testing.T) {
	address := startAgent(t, "mpps", "agent", "--insecure-lab", "--listen", "127.0.0.1:0")
	cmd := exec.Command("mpps", "--json", "bench", "rr", "--agent", address, "--duration", "100ms", "--repeat", "1000",
		"--keep=false")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	must.Do(t, cmd.Start())
	time.Sleep(2500 * time.Millisecond)
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != outcome.CodeFailed ||
		!strings.Contains(errs.String(), "interrupted: ") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	run := result(t, out.String())
	if !run.Partial || len(run.Samples) == 0 || len(run.Samples) > 100 || run.Warnings[0].Code != "partial" {
		t.Errorf("partial %v, %d samples, %+v", run.Partial, len(run.Samples), run.Warnings)
	}
	var answer struct{ Schema string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.Schema != "mpps.bench-rr/1" {
		t.Errorf("%q, %v", answer.Schema, err)
	}
}
