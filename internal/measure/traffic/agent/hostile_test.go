package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
	"mpps/internal/must"
)

// TestBusy: an agent without a secret serves so many clients, and those after them are told.
func TestBusy(t *testing.T) {
	s := start(t, Options{Open: true})
	var first *Client
	for i := range maxSessions {
		c := dial(t, s, DialOptions{Silence: 30 * time.Second})
		if i == 0 {
			first = c
		}
	}
	must.Is(t, must.Err(Dial(t.Context(), s.Addr(), DialOptions{})), ErrBusy, "one more than there is room for")
	first.Close()
	for range 100 {
		c, err := Dial(t.Context(), s.Addr(), DialOptions{})
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("nobody gets in after one has left")
}

// TestHandles: a session holds so many things, and the next is refused.
func TestHandles(t *testing.T) {
	c := dial(t, start(t, Options{Open: true}), DialOptions{})
	for range maxHandles {
		must.Get(c.ServeTCP(t.Context(), "", "127.0.0.1:0"))(t)
	}
	must.Is(t, must.Err(c.ServeTCP(t.Context(), "", "127.0.0.1:0")), errRefused, "one more server")
}

// TestOtherSession: the key of one session opens no data connection of another, and none outlives its session.
func TestOtherSession(t *testing.T) {
	s := start(t, Options{Open: true})
	one, other := dial(t, s, DialOptions{}), dial(t, s, DialOptions{})
	server := must.Get(one.ServeTCP(t.Context(), "", "127.0.0.1:0"))(t)
	target := server.Target("")
	must.Succeed(t, target.Prove(t.Context()), "its own key")
	target.Key = other.wire.dataKey()
	must.Is(t, target.Prove(t.Context()), talk.ErrKey, "another session's key")
}

// TestReplayedHello: what one client sent to prove that it has the secret is worth nothing to another.
func TestReplayedHello(t *testing.T) {
	secret := []byte("0123456789abcdef")
	s := start(t, Options{Secret: secret})
	var reply []byte
	for i := range 2 {
		c := must.Get(net.Dial("tcp", s.Addr()))(t)
		defer c.Close()
		r := bufio.NewReader(c)
		line, err := r.ReadBytes('\n')
		var h Hello
		must.Need(t, err == nil && json.Unmarshal(line, &h) == nil, "%s, %v", line, err)
		if i == 0 {
			reply, _ = json.Marshal(helloReply{Protocol: Protocol, Challenge: "00", Proof: mac(secret, "client",
				h.Challenge, "00")})
		}
		must.Get(c.Write(append(reply[:len(reply):len(reply)], '\n')))(t)
		var done helloDone
		line, _ = r.ReadBytes('\n')
		if err := json.Unmarshal(line, &done); err != nil || (done.Error == "") != (i == 0) {
			t.Errorf("time %d: %s, %v", i+1, line, err)
		}
	}
}

// TestMuteClients: connections that never say anything leave room, and are closed when the agent ends.
func TestMuteClients(t *testing.T) {
	s := start(t, Options{Secret: []byte("0123456789abcdef")})
	before := runtime.NumGoroutine()
	for range 1000 {
		c := must.Get(net.Dial("tcp", s.Addr()))(t)
		defer c.Close()
	}
	c := dial(t, s, DialOptions{Secret: []byte("0123456789abcdef")})
	must.Try(t, must.Err(c.Stat(t.Context())))
	if n := runtime.NumGoroutine() - before; n > 300 {
		t.Errorf("%d more goroutines", n)
	}
}

// TestHugeAnswer: an agent that answers without end costs a session and no more memory than a line may have.
func TestHugeAnswer(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, `{"mpps":"1","protocol":5,"challenge":"00"}`+"\n")
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			return
		}
		_, _ = io.WriteString(c, `{"silence_ms":20000}`+"\n")
		for b := []byte(strings.Repeat("[", 1<<20)); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	c := must.Get(Dial(t.Context(), l.Addr().String(), DialOptions{Silence: 20 * time.Second}))(t)
	defer c.Close()
	if _, err := c.Info(t.Context()); !errors.Is(err, ErrLost) || !errors.Is(err, ErrHello) {
		t.Errorf("%v", err)
	}
}

// TestLimits: what is outside of the limits, or goes to more than one receiver, is refused as denied.
func TestLimits(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	to := func(first string, count uint32) traffic.Config {
		return traffic.Config{Out: traffic.Endpoint{Iface: "lo"}, Rate: 100, Frame: traffic.Frame{DstMAC: mac,
			Dst: traffic.AddrRange{First: netip.MustParseAddr(first), Count: count}}}
	}
	with := func(change func(*traffic.Config)) traffic.Config {
		c := to("198.19.0.1", 1)
		change(&c)
		return c
	}
	toMAC := func(mac ...byte) traffic.Config { return with(func(c *traffic.Config) { c.Frame.DstMAC = mac }) }
	limited := &Limits{Ifaces: []traffic.Endpoint{{Iface: "lo"}}, MaxPPS: 1000,
		To: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("10.0.0.0/24")}}
	for name, c := range map[string]struct {
		config traffic.Config
		free   bool // without limits too
	}{
		"another interface":      {with(func(c *traffic.Config) { c.Out.Iface = "eth9" }), true},
		"another namespace":      {with(func(c *traffic.Config) { c.Out.Netns = "x" }), true},
		"another network":        {to("10.0.1.1", 1), true},
		"past the end":           {to("10.0.0.250", 7), true},
		"multicast":              {to("224.0.0.1", 1), false},
		"into multicast":         {to("223.255.255.0", 257), false},
		"limited broadcast":      {to("255.255.255.255", 1), false},
		"past the last address":  {to("10.0.0.1", 1<<32-1), false},
		"IPv6":                   {to("fe80::1", 1), false},
		"a network's broadcast":  {to("127.255.255.255", 1), false},
		"over it":                {to("127.255.255.0", 256), false},
		"a group's MAC address":  {toMAC(1, 0, 0x5e, 0, 0, 1), false},
		"everybody's":            {toMAC(255, 255, 255, 255, 255, 255), false},
		"too fast":               {with(func(c *traffic.Config) { c.Rate = 1001 }), true},
		"as fast as possible":    {with(func(c *traffic.Config) { c.Rate = 0 }), true},
		"slower than not at all": {with(func(c *traffic.Config) { c.Rate = -1 }), true},
	} {
		must.Is(t, must.Err(limited.generator(c.config)), ErrDenied, "%s", name)
		if _, err := (&Limits{}).generator(c.config); (err == nil) != c.free {
			t.Errorf("%s, without limits: %v", name, err)
		}
	}
	release := must.Get(limited.generator(with(func(c *traffic.Config) { c.Rate = 600 })))(t)
	must.Is(t, must.Err(limited.generator(with(func(c *traffic.Config) { c.Rate = 600 }))), ErrDenied,
		"two generators that are too fast together")
	release()
	release()
	must.Pass(limited.generator(with(func(c *traffic.Config) { c.Rate = 1000 })))(t, "after the first has ended")
}

// TestDenied: a client sees a refusal as what it is.
func TestDenied(t *testing.T) {
	c := dial(t, start(t, Options{Open: true, Limits: &Limits{Ifaces: []traffic.Endpoint{{Iface: "eth9"}},
		To: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}), DialOptions{})
	_, sink := c.NewSink(t.Context(), traffic.SinkConfig{In: traffic.Endpoint{Iface: "lo"}})
	_, gen := c.NewGenerator(traffic.Config{Out: traffic.Endpoint{Iface: "lo"}}).Run(t.Context())
	_, server := c.ServeTCP(t.Context(), "", "127.0.0.1:0")
	_, counters := c.Counters(t.Context(), traffic.Endpoint{Iface: "lo"})
	_, alone := c.GeneratorAlone(t.Context(), traffic.Config{Out: traffic.Endpoint{Iface: "lo"}}, time.Second)
	for name, err := range map[string]error{"sink": sink, "generator": gen, "server": server, "counters": counters,
		"generator alone": alone} {
		must.Hold(t, errors.Is(err, ErrDenied) && strings.Contains(err.Error(), "does not allow"), "%s: %v", name, err)
	}
}

// TestStreamsToClients: what --to allows is asked of each client of a data port, not only of who has arranged it.
func TestStreamsToClients(t *testing.T) {
	c := dial(t, start(t, Options{Open: true, Limits: &Limits{To: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}),
		DialOptions{})
	server := must.Get(c.ServeTCP(t.Context(), "", "127.0.0.1:0"))(t)
	target := server.Target("")
	must.Succeed(t, target.Prove(t.Context()), "a client that may be sent to")
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other := must.Get(from.Dial("tcp", target.Addr))(t)
	defer other.Close()
	must.Do(t, other.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err := other.Read(make([]byte, 1))
	must.Hold(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "a client beside --to is listened to: %v", err)
}

// TestSocketPeer: another user neither reaches an agent's unix socket nor is taken for an agent.
func TestSocketPeer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	dir, err := os.MkdirTemp("", "mpps-agent")
	must.Do(t, err)
	defer os.RemoveAll(dir)
	must.Do(t, os.Chmod(dir, 0o777))
	path := filepath.Join(dir, "sock")
	s := must.Get(Listen("", "unix:"+path, Options{}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	defer func() {
		cancel()
		<-served
	}()
	dial(t, s, DialOptions{})
	must.Equal(t, s.Addr(), "unix:"+path, "s.Addr()")
	const nobody = 65534
	as(nobody, func() {
		if c, err := net.Dial("unix", path); !errors.Is(err, os.ErrPermission) {
			t.Errorf("another user connects: %v, %v", c, err)
		}
	})
	must.Do(t, os.Chmod(path, 0o666))
	as(nobody, func() {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("another user is answered with %d bytes, %v", n, err)
		}
	})
	theirs := filepath.Join(dir, "theirs")
	var l net.Listener
	as(nobody, func() { l, err = net.Listen("unix", theirs) })
	must.Do(t, err)
	defer l.Close()
	must.Is(t, must.Err(Dial(t.Context(), "unix:"+theirs, DialOptions{})), ErrUser, "an agent of another user")
}

// as runs f as another user, on a separate thread.
func as(uid uintptr, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // which ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno == 0 {
			f()
		}
	}()
	<-done
}

// TestSocketIsBornClosed: nobody else can open an agent's unix socket at any time, and no file that somebody puts in
// its place gets its permissions.
func TestSocketIsBornClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	watch := must.Get(unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK))(t)
	defer unix.Close(watch)
	must.Get(unix.InotifyAddWatch(watch, filepath.Dir(path), unix.IN_ATTRIB))(t)
	l := must.Get(listen("", "unix:"+path))(t)
	defer l.Close()
	if info := must.Get(os.Lstat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if n, err := unix.Read(watch, make([]byte, 4096)); n > 0 || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("its permissions were changed by path after it was there (%d bytes, %v)", n, err)
	}
}
