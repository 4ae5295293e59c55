package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic/agent"
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

// succeeds runs a program that must exit with 0, and returns what it prints.
func succeeds(t *testing.T, argv ...string) string {
	t.Helper()
	code, stdout, stderr := program(t, argv...)
	must.Need(t, code == outcome.CodeOK, "%v: exit code %d: %s%s", argv, code, stdout, stderr)
	return stdout
}

// measures runs a measurement and returns what it prints. How fast generator and path are on a busy machine is not the
// test's business.
func measures(t *testing.T, argv ...string) string {
	t.Helper()
	code, stdout, stderr := program(t, argv...)
	if code != outcome.CodeOK && code != outcome.CodeNotDevice {
		t.Fatalf("%v: exit code %d: %s", argv, code, stderr)
	}
	return stdout
}

// fails runs a program that must exit with a code and say some things on standard error.
func fails(t *testing.T, what string, code int, argv []string, says ...string) {
	t.Helper()
	found, _, stderr := program(t, argv...)
	must.Hold(t, found == code, "%s: exit code %d, expected %d: %s", what, found, code, stderr)
	must.Contain(t, stderr, says...)
}

// running is a program that was started, and what it has printed.
type running struct {
	*exec.Cmd
	out, problems bytes.Buffer
}

func start(t *testing.T, argv ...string) *running {
	t.Helper()
	r := &running{Cmd: exec.Command(argv[0], argv[1:]...)}
	r.Stdout, r.Stderr = &r.out, &r.problems
	must.Do(t, r.Start())
	return r
}

// end sends a signal and returns the exit code.
func (r *running) end(t *testing.T, signal os.Signal) int {
	t.Helper()
	must.Do(t, r.Process.Signal(signal))
	return r.code()
}

// code waits for the end and returns the exit code.
func (r *running) code() int {
	_ = r.Wait() // the exit code is looked at
	return r.ProcessState.ExitCode()
}

// await waits until a condition holds, for three minutes at most; what says how things are instead.
func await(t *testing.T, holds func() bool, what func() string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for three minutes: %s", what())
		}
	}
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
	must.Need(t, found, "the agent said %q", line)
	return address, cmd.Process.Pid
}

// result is the run in a JSON answer.
func result(t *testing.T, answer string) *measure.Run {
	t.Helper()
	run, err := measure.Decode(strings.NewReader(answer))
	must.Need(t, err == nil, "%v in %q", err, answer)
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
		argv = append(argv, "--duration", "150ms", "--warm-up", "20ms", "--repeat", "2", "--keep=false")
		return program(t, append([]string{"mpps", "--json", "bench"}, argv...)...)
	}

	file := filepath.Join(dir, "run.json")
	code, stdout, stderr := bench("rr", "--secret-file", secret, "-o", file, "--name", "loop")
	must.Need(t, code == outcome.CodeOK, "exit code %d: %s", code, stderr)
	run := result(t, stdout)
	if run.Kind != measure.RR || run.Name != "loop" || len(run.Samples) != 2 || run.Median.Value < 1 ||
		run.Median.Unit != "transaction/s" {
		t.Errorf("%+v", run)
	}
	for _, s := range run.Samples {
		must.Hold(t, s.Latency != nil && s.Latency.Count == s.Transactions && s.Latency.Loop == "closed" &&
			len(s.CPU) == 2, "%d transactions, latency %+v, %d machines", s.Transactions, s.Latency, len(s.CPU))
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
		must.Hold(t, code == c.code && strings.Contains(stderr, c.want) && strings.Contains(stderr, "hint: ") &&
			stdout == "", "%s: exit code %d, expected %d; %s", c.name, code, c.code, stderr)
	}
}

// What answers at an agent's address is not always one, or not one of ours.
func TestBenchWithSomethingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ greeting, want string }{
		"an older agent":    {`{"mpps": "0.1.0", "protocol": 2, "challenge": "00ff"}` + "\n", "install the same version"},
		"a newer agent":     {`{"mpps": "9.9.9", "protocol": 99, "challenge": "00ff"}` + "\n", "install the same version"},
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
		must.Hold(t, code == outcome.CodeFailed && strings.Contains(stderr, c.want) && stdout == "",
			"%s: exit code %d: %s", name, code, stderr)
		l.Close()
	}
}

// An interrupted measurement shows what it has, marked partial, and keeps the exit code of a failure.
func TestBenchInterrupted(t *testing.T) {
	address := startAgent(t, "mpps", "agent", "--insecure-lab", "--listen", "127.0.0.1:0")
	cmd := start(t, "mpps", "--json", "bench", "rr", "--agent", address, "--duration", "100ms", "--repeat", "1000",
		"--keep=false")
	time.Sleep(2500 * time.Millisecond)
	if code := cmd.end(t, os.Interrupt); code != outcome.CodeFailed ||
		!strings.Contains(cmd.problems.String(), "interrupted: ") {
		t.Errorf("exit code %d: %s", code, cmd.problems.String())
	}
	run := result(t, cmd.out.String())
	must.Hold(t, run.Partial && len(run.Samples) != 0 && len(run.Samples) <= 100 && run.Warnings[0].Code == "partial",
		"partial %v, %d samples, %+v", run.Partial, len(run.Samples), run.Warnings)
	var answer struct{ Schema string }
	if err := json.Unmarshal(cmd.out.Bytes(), &answer); err != nil || answer.Schema != "mpps.bench-rr/1" {
		t.Errorf("%q, %v", answer.Schema, err)
	}
}

// statusOf returns a number of a process's /proc/PID/status.
func statusOf(t *testing.T, pid int, field string) int {
	t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			n := must.Get(strconv.Atoi(strings.Fields(rest)[0]))(t)
			return n
		}
	}
	t.Fatalf("no %s in %s", field, text)
	return 0
}

// secretFile returns a file with a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte(secret), 0o600))
	return file
}

// TestAgentUnderSiege: thousands of connections at both ports of an agent, which say nothing, greet wrongly or send one
// long line, cost it little, and a client that has the secret gets in.
func TestAgentUnderSiege(t *testing.T) {
	const secret = "0123456789abcdef"
	file := secretFile(t, secret)
	address, pid := startAgentProcess(t, "mpps", "agent", "--listen", "127.0.0.1:0", "--secret-file", file)
	client := must.Get(agent.Dial(t.Context(), address, agent.DialOptions{Secret: []byte(secret),
		Silence: 30 * time.Second}))(t)
	defer client.Close()
	server := must.Get(client.ServeTCP(t.Context(), "", "127.0.0.1:0"))(t)
	// What version 2 of the protocol began a data connection with: a sink for bytes.
	hello := []byte("mppsTCP1\x00\x00\x00\x01\x00\x00\x04\x00\x00\x00\x00\x00 and bytes that must not be counted")
	long := bytes.Repeat([]byte("x"), 64<<10)
	threads, memory := statusOf(t, pid, "Threads"), statusOf(t, pid, "VmRSS")
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	for i := range min(10_000, int(limit.Cur)-500) {
		at := address
		if i%2 > 0 {
			at = server.Target("").Addr
		}
		c := must.Get(net.Dial("tcp", at))(t)
		defer c.Close()
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		switch {
		case i%2 > 0:
			_, _ = c.Write(hello) // it may be closed already
		case i%4 == 0 && i < 1000:
			_, _ = c.Write(long)
		}
	}
	code, _, stderr := program(t, "mpps", "--json", "bench", "rr", "--agent", address, "--secret-file", file,
		"--duration", "100ms", "--warm-up", "0s", "--repeat", "1", "--keep=false")
	must.Hold(t, code == outcome.CodeOK, "a true client: exit code %d: %s", code, stderr)
	if n := statusOf(t, pid, "Threads") - threads; n > 100 {
		t.Errorf("%d more threads", n)
	}
	if n := statusOf(t, pid, "VmRSS") - memory; n > 100<<10 {
		t.Errorf("%d KiB more memory", n)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must.Hold(t, err == nil && len(files) <= 400, "%d open files, %v", len(files), err)
	if counts, err := server.Counts(t.Context()); err != nil || counts.Received != 0 || counts.Transactions != 0 {
		t.Errorf("%+v was counted, %v", counts, err)
	}
}

// TestAgentLongLine: a line without an end is not read to the end before the secret is known.
func TestAgentLongLine(t *testing.T) {
	t.Parallel()
	address := startAgent(t, "mpps", "agent", "--listen", "127.0.0.1:0", "--secret-file",
		secretFile(t, "0123456789abcdef"))
	c := must.Get(net.Dial("tcp", address))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	n, err := io.Copy(c, io.LimitReader(zeros{}, 64<<20))
	if err == nil || n > 6<<20 { // what the sockets hold
		t.Errorf("the agent took %d bytes, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestAgentSocket: a unix socket needs no secret, and only its user can reach it.
func TestAgentSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sock")
	address := startAgent(t, "mpps", "agent", "--listen", "unix:"+path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	code, stdout, stderr := program(t, "mpps", "--json", "bench", "rr", "--agent", address, "--duration", "100ms",
		"--warm-up", "0s", "--repeat", "1", "--keep=false")
	if code != outcome.CodeOK || result(t, stdout).Median.Value < 1 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
