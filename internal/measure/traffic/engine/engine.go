// Package engine runs other traffic generators, netperf and iperf3, and parses their machine-readable output. It starts
// them by argument vector, in another network namespace if needed, and ends them with the context or, at the latest,
// with this process.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/owned"
)

// Errors of engines: the program is not installed, its version lacks the expected output format, or its server does not
// answer.
var (
	ErrMissing     = errors.New("program is not installed")
	ErrOld         = errors.New("program does not speak the expected machine format")
	ErrUnreachable = errors.New("server cannot be reached")
)

// Name is the name of an engine.
type Name string

const (
	Netperf Name = "netperf"
	Iperf3  Name = "iperf3"
)

// Names are the engines.
var Names = []Name{Netperf, Iperf3}

// Server returns the program of the far end.
func (n Name) Server() string {
	if n == Netperf {
		return "netserver"
	}
	return "iperf3 -s"
}

// ServerArgv returns the command that runs the server in the foreground, at its default port.
func (n Name) ServerArgv() []string {
	if n == Netperf {
		return []string{"netserver", "-D"}
	}
	return []string{"iperf3", "-s"}
}

// FindServer looks up the server in the search path.
func (n Name) FindServer() (string, error) { return exec.LookPath(n.ServerArgv()[0]) }

// Port returns the default port of the server: netperf's include/netlib.h and iperf3's src/iperf.h.
func (n Name) Port() uint16 {
	if n == Netperf {
		return 12865
	}
	return 5201
}

// A Program is an installed engine.
type Program struct {
	Name    Name
	Version string // "netperf 2.7.1"
	client  string // path
	server  string // path, "" where only the client is installed
}

// versionPattern finds the version in the version output of both programs.
var versionPattern = regexp.MustCompile(`(?i)(?:version|iperf) v?([0-9]+\.[0-9][0-9a-z.+-]*)`)

// Find looks up an engine in the search path and asks for its version. The name may be from a file, and of any program.
func Find(ctx context.Context, name Name) (Program, error) {
	p := Program{Name: name}
	if name != Netperf && name != Iperf3 {
		return p, fmt.Errorf("found %q, expected %s or %s", name, Netperf, Iperf3)
	}
	var err error
	if p.client, err = exec.LookPath(string(name)); err != nil {
		return p, fmt.Errorf("%s: %w", name, ErrMissing)
	}
	flag := "-V"
	if name == Iperf3 {
		flag = "--version"
	}
	if path, err := name.FindServer(); err == nil {
		p.server = path
	}
	out, err := run(ctx, command{argv: []string{p.client, flag}, within: 10 * time.Second})
	found := versionPattern.FindSubmatch(out)
	if found == nil {
		return p, errors.Join(fmt.Errorf("%s %s: found %q, expected its version: %w", name, flag, firstLine(out),
			ErrOld), err)
	}
	p.Version = string(name) + " " + string(found[1])
	return p, nil
}

// command is a program to run.
type command struct {
	netns  string
	argv   []string
	within time.Duration // time limit
}

// maxOutput is how many bytes of a program's output are read.
const maxOutput = 16 << 20

// run runs a command to its end and returns its standard output, even if it failed.
func run(ctx context.Context, c command) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.within, fmt.Errorf("%s: no end within %v", base(c.argv[0]),
		c.within))
	defer cancel()
	var stdout, stderr bounded
	wait, err := start(ctx, c, &stdout, &stderr)
	if err != nil {
		return nil, err
	}
	err = wait()
	if ctx.Err() != nil {
		return stdout.Bytes(), context.Cause(ctx)
	}
	if err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %w: %s", base(c.argv[0]), err,
			firstLine(append(stderr.Bytes(), stdout.Bytes()...)))
	}
	return stdout.Bytes(), nil
}

// start starts a command in its namespace. It ends with the context and, at the latest, with this process. Its own
// process group shields it from the terminal's Ctrl-C, so that only the context ends it.
func start(ctx context.Context, c command, stdout, stderr io.Writer) (wait func() error, err error) {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	if err := owned.StartWithin(cmd, traffic.Endpoint{Netns: c.netns}.Do); err != nil {
		return nil, fmt.Errorf("start %s: %w", base(c.argv[0]), err)
	}
	return cmd.Wait, nil
}

// bounded keeps the first maxOutput bytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line[:min(len(line), 300)]
}

// Reach returns ErrUnreachable unless something listens at addr, so that no client that would wait for minutes is
// started in vain.
func Reach(ctx context.Context, netns, addr string) error {
	return traffic.Endpoint{Netns: netns}.Do(func() error {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return c.Close()
	})
}
