package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/measure/traffic/agent"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

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
	if code != outcome.CodeOK {
		t.Errorf("a true client: exit code %d: %s", code, stderr)
	}
	if n := statusOf(t, pid, "Threads") - threads; n > 100 {
		t.Errorf("%d more threads", n)
	}
	if n := statusOf(t, pid, "VmRSS") - memory; n > 100<<10 {
		t.Errorf("%d KiB more memory", n)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil || len(files) > 400 {
		t.Errorf("%d open files, %v", len(files), err)
	}
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
