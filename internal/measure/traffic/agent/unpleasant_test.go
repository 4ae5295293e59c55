package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

// unpleasant serves connections at loopback until the test is over, and returns its address.
func unpleasant(t *testing.T, serve func(c net.Conn, lines *bufio.Reader)) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go serve(c, bufio.NewReader(c))
		}
	}()
	return l.Addr().String()
}

// greet plays an agent's part of the hello.
func greet(c net.Conn, lines *bufio.Reader) {
	_, _ = fmt.Fprintf(c, `{"mpps":"1","protocol":%d,"challenge":"00"}`+"\n", Protocol)
	_, _ = lines.ReadString('\n')
	_, _ = io.WriteString(c, `{"silence_ms":30000}`+"\n")
}

// trickle sends a byte at a time, and never a whole line.
func trickle(c net.Conn) {
	for {
		if _, err := io.WriteString(c, "["); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestUnpleasantAgents: an agent that is slow, silent, half open or talks without end costs its client the time that a
// request may take, and a signal ends that at once.
func TestUnpleasantAgents(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(net.Conn, *bufio.Reader){
		"silent":        func(net.Conn, *bufio.Reader) {},
		"slow to greet": func(c net.Conn, _ *bufio.Reader) { trickle(c) },
		"half a greeting": func(c net.Conn, lines *bufio.Reader) {
			_, _ = fmt.Fprintf(c, `{"mpps":"1","protocol":%d,"challenge":"00"}`+"\n", Protocol)
		},
		"silent since":   greet,
		"slow to answer": func(c net.Conn, lines *bufio.Reader) { greet(c, lines); trickle(c) },
		"answers to others": func(c net.Conn, lines *bufio.Reader) {
			greet(c, lines)
			flood := strings.Repeat(`{"id":999999,"result":{"host":"x"}}`+"\n", 1000)
			for {
				if _, err := io.WriteString(c, flood); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := unpleasant(t, serve)
			ask := func(ctx context.Context, timeout time.Duration) error {
				c, err := Dial(ctx, address, DialOptions{Timeout: timeout, Silence: 30 * time.Second})
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = c.Info(ctx)
				return err
			}
			began := time.Now()
			if err := ask(t.Context(), time.Second); err == nil || time.Since(began) > 20*time.Second {
				t.Errorf("it took %v, %v", time.Since(began), err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			began = time.Now()
			if err := ask(ctx, 20*time.Second); !errors.Is(err, context.Canceled) ||
				time.Since(began) > 10*time.Second {
				t.Errorf("cancelled, it took %v: %v", time.Since(began), err)
			}
		})
	}
}

// TestNamespaceIsNoFile: what a client names as a network namespace is opened only if it is one: root opens no pipe,
// watchdog or tape of the agent's machine for it.
func TestNamespaceIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, unix.Mkfifo(pipe, 0o600))
	c := dial(t, start(t, Options{Open: true}), DialOptions{Timeout: time.Second})
	for _, name := range []string{pipe, "../../../../.." + pipe, "/dev/zero", "..", "/proc/self/ns/pid"} {
		_, err := c.Counters(t.Context(), traffic.Endpoint{Netns: name, Iface: "lo"})
		must.Hold(t, err != nil && !errors.Is(err, context.DeadlineExceeded) &&
			!strings.Contains(err.Error(), "no answer"), "%s: %v", name, err)
	}
	if fd, err := unix.Open(pipe, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		unix.Close(fd)
		t.Error("the pipe was opened to read")
	}
}

// TestManyWorkers: one request does not make an agent start a thread for each of thousands of CPUs that it repeats.
func TestManyWorkers(t *testing.T) {
	c := dial(t, start(t, Options{Open: true}), DialOptions{Timeout: 5 * time.Second})
	before := runtime.NumGoroutine()
	conf := traffic.Config{Out: traffic.Endpoint{Iface: "lo"}, Method: traffic.AFPacket, CPUs: make([]int, 20_000),
		Frame: traffic.Frame{Size: 64, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}, Duration: time.Second, Rate: 1}
	raw, _ := json.Marshal(conf)
	must.Need(t, len(raw) <= maxRequest, "%d bytes are no request", len(raw))
	var started Started
	err := c.call(t.Context(), "gen.start", conf, &started, 0)
	if n := runtime.NumGoroutine() - before; err == nil || n > 1000 {
		t.Errorf("%d more goroutines, %v", n, err)
	}
}

// TestManyAlone: the measurements of one end take their workers from the same budget.
func TestManyAlone(t *testing.T) {
	c := dial(t, start(t, Options{Open: true}), DialOptions{Timeout: 5 * time.Second})
	var a traffic.Alone
	args := aloneArgs{Config: traffic.Config{Out: traffic.Endpoint{Iface: "lo"}, CPUs: make([]int, maxWorkers+1),
		Frame: traffic.Frame{Size: 64, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}}, Duration: time.Second}
	for _, verb := range []string{"alone.generator", "alone.receiver"} {
		must.Is(t, c.call(t.Context(), verb, args, &a, 0), ErrDenied, "%s", verb)
	}
}

// TestRequestsOfPeers: requests that wait for their turn take from the memory that clients share.
func TestRequestsOfPeers(t *testing.T) {
	c := dial(t, start(t, Options{Open: true}), DialOptions{Timeout: 5 * time.Second})
	ask := func(bytes int) error {
		return c.call(t.Context(), "tcp.stop", map[string]string{"more": strings.Repeat("x", bytes)}, nil, 0)
	}
	must.Is(t, ask(100<<10), errNoHandle, "a long request")
	room := must.Get(traffic.HoldMemory(1 << 10))(t)
	fill := func() {
		for bytes := uint64(1) << 50; bytes >= 1<<10; {
			free, err := traffic.HoldMemory(bytes)
			if err != nil {
				bytes /= 2
				continue
			}
			t.Cleanup(free)
		}
	}
	var err error
	for range 100 { // what earlier requests held is given back after their answers
		fill()
		if err = ask(100 << 10); errors.Is(err, ErrDenied) {
			break
		}
	}
	must.Is(t, err, ErrDenied, "a long request for which no memory is left")
	room()
	must.Is(t, ask(1), errNoHandle, "a short one")
}

// TestImpossibleHistogram: counts that overflow when they are added up are no answer.
func TestImpossibleHistogram(t *testing.T) {
	must.Succeed(t, plausible(&[]traffic.Bin{{Low: 1, High: 1, Count: 5}}), "five frames")
	must.Is(t, plausible(&[]traffic.Bin{{Low: 1, High: 1, Count: 1 << 63}, {Low: 2, High: 2, Count: 1 << 63}}),
		ErrImplausible, "2^64 frames")
}
