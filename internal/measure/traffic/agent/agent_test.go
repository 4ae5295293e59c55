package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
	"mpps/internal/must"
)

// start serves on loopback until the test is over.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s := must.Get(Listen("", "127.0.0.1:0", o))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			must.Succeed(t, err, "serve")
		case <-time.After(time.Minute):
			b := make([]byte, 1<<20)
			t.Errorf("the agent did not end\n%s", b[:runtime.Stack(b, true)])
		}
	})
	return s
}

func dial(t *testing.T, s *Server, o DialOptions) *Client {
	t.Helper()
	c := must.Get(Dial(t.Context(), s.Addr(), o))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestSecret(t *testing.T) {
	with := start(t, Options{Version: "1.2", Secret: []byte("right")})
	without := start(t, Options{Open: true})
	for name, c := range map[string]struct {
		s      *Server
		secret string
		want   error
	}{
		"right":         {with, "right", nil},
		"wrong":         {with, "wrong", ErrSecret},
		"missing":       {with, "", ErrSecret},
		"none":          {without, "", nil},
		"none but sent": {without, "right", ErrSecret}, // a client that counts on it is told
	} {
		k, err := Dial(t.Context(), c.s.Addr(), DialOptions{Secret: []byte(c.secret)})
		must.Is(t, err, c.want, "%s", name)
		if err == nil {
			must.Pass(k.Stat(t.Context()))(t, "%s", name)
			k.Close()
		}
	}
	if k := dial(t, with, DialOptions{Secret: []byte("right")}); k.Agent.MPPS != "1.2" {
		t.Errorf("version %q", k.Agent.MPPS)
	}
}

// TestFakeAgent: an agent that does not have the secret, one of another
// version, and something else altogether.
func TestFakeAgent(t *testing.T) {
	for name, c := range map[string]struct {
		first string
		done  string
		want  error
	}{
		"without the secret": {`{"mpps":"1","protocol":5,"challenge":"00","secret":true}`,
			`{"proof":"00","silence_ms":1000}`, ErrSecret},
		"older version": {`{"mpps":"9","protocol":1,"challenge":"00"}`, ``, ErrVersion},
		"a silence that overflows": {`{"mpps":"1","protocol":5,"challenge":"00"}`, `{"silence_ms":9223372036854775807}`,
			ErrHello},
		"a web server": {`HTTP/1.1 400 Bad Request`, ``, ErrHello},
		"other JSON":   {`{}`, ``, ErrHello},
		"endless line": {strings.Repeat("x", maxHello+10), ``, ErrHello},
	} {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		go func() {
			c0, err := l.Accept()
			if err != nil {
				return
			}
			defer c0.Close()
			fmt.Fprintln(c0, c.first)
			r := bufio.NewReader(c0)
			if _, err := r.ReadString('\n'); err == nil {
				fmt.Fprintln(c0, c.done)
				_, _ = r.ReadString('\n')
			}
		}()
		secret := []byte("x")
		if !strings.Contains(c.first, `"secret":true`) {
			secret = nil
		}
		must.Is(t,
			must.Err(Dial(t.Context(), l.Addr().String(), DialOptions{Secret: secret, Timeout: 3 * time.Second})),
			c.want, "%s", name)
		l.Close()
	}
}

// TestClientVersion: an agent refuses a client of another version.
func TestClientVersion(t *testing.T) {
	s := start(t, Options{Open: true})
	c := must.Get(net.Dial("tcp", s.Addr()))(t)
	defer c.Close()
	fmt.Fprintln(c, `{"protocol":99}`)
	r := bufio.NewReader(c)
	_, _ = r.ReadString('\n')
	line, _ := r.ReadString('\n')
	var d helloDone
	if err := json.Unmarshal([]byte(line), &d); err != nil || d.Error != "protocol" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestTampered: a line that was changed or repeated ends the session.
func TestTampered(t *testing.T) {
	s := start(t, Options{Secret: []byte("s")})
	c := dial(t, s, DialOptions{Secret: []byte("s")})
	must.Get(c.Stat(t.Context()))(t)
	c.wire.out.Lock()
	c.wire.sent-- // the next line takes the number of the last: a repetition
	c.wire.out.Unlock()
	must.Is(t, must.Err(c.Stat(t.Context())), ErrLost, "a repeated line")
}

func TestOpenNetwork(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "10.1.2.3:0", "127.0.0.1:0"} {
		must.Is(t, must.Err(Listen("", addr, Options{})), ErrOpen, "listening on %s without a secret", addr)
	}
	for _, o := range []Options{{Open: true}, {Secret: []byte("x")}} {
		s := must.Get(Listen("", "0.0.0.0:0", o))(t)
		s.Close()
	}
}

func TestInfo(t *testing.T) {
	c := dial(t, start(t, Options{Version: "7", Open: true}), DialOptions{})
	i := must.Get(c.Info(t.Context()))(t)
	lo := false
	for _, l := range i.Links {
		lo = lo || l.Name == "lo"
	}
	must.Hold(t, i.MPPS == "7" && i.CPUs >= 1 && i.Kernel != "" && lo && !i.First && i.Live != "", "%+v", i)
	s, err := c.Stat(t.Context())
	must.Hold(t, err == nil && strings.HasPrefix(s, "cpu ") && strings.Count(s, "\n") >= 2 &&
		!strings.Contains(s, "intr"), "%q, %v", s, err)
	k, err := c.Counters(t.Context(), traffic.Endpoint{Iface: "lo"})
	must.Hold(t, err == nil && k["rx_packets"] != 0 && k["rx_packets"] == k["tx_packets"], "%v, %v", k, err)
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	c := dial(t, start(t, Options{Open: true}), DialOptions{})
	must.Is(t, must.Err(c.NewSink(t.Context(), traffic.SinkConfig{In: traffic.Endpoint{Iface: "no-such-link"}})),
		traffic.ErrNoDevice, "missing interface")
	must.Is(t, must.Err(c.NewSink(t.Context(), traffic.SinkConfig{In: traffic.Endpoint{Iface: "lo"}, Streams: -1})),
		traffic.ErrConfig, "bad configuration")
	for _, e := range []traffic.Endpoint{{Netns: "../../proc/1/ns/net", Iface: "lo"},
		{Netns: "/proc/1/ns/net", Iface: "lo"}} {
		must.Is(t, must.Err(c.Counters(t.Context(), e)), errRefused, "%v", e)
	}
	must.Is(t, c.call(t.Context(), "sink.counts", handle{77}, nil, 0), errNoHandle, "unknown handle")
	must.Is(t, c.call(t.Context(), "nonsense", handle{}, nil, 0), errRefused, "unknown verb")
	must.Is(t, c.PowerOff(t.Context()), errRefused, "power off")
}

func TestPowerOff(t *testing.T) {
	off := make(chan bool, 1)
	c := dial(t, start(t, Options{Open: true, PowerOff: func() error { off <- true; return nil }}), DialOptions{})
	must.Do(t, c.PowerOff(t.Context()))
	select {
	case <-off:
	case <-time.After(20 * time.Second):
		t.Error("still on")
	}
}

func TestTCP(t *testing.T) {
	far := dial(t, start(t, Options{Open: true}), DialOptions{})
	s := must.Get(far.ServeTCP(t.Context(), "", "127.0.0.1:0"))(t)
	r, err := talk.RR(t.Context(), talk.RRConfig{Target: s.Target(""), Count: 100})
	must.Hold(t, err == nil && r.Transactions == 100 && traffic.FromBins(r.Delays).Count() == 100, "%+v, %v", r, err)
	b, err := talk.Stream(t.Context(), talk.StreamConfig{Target: s.Target(""), Bytes: 1 << 20})
	must.Hold(t, err == nil && b.Bytes == 1<<20, "%+v, %v", b, err)
	if c, err := s.Counts(t.Context()); err != nil || c.Transactions != 100 || c.Received != 1<<20 {
		t.Errorf("%+v, %v", c, err)
	}
	must.Try(t, s.Close())
	must.Is(t, must.Err(s.Counts(t.Context())), errNoHandle, "after closing")
}

// TestElsewhere: an agent that answers with an address of another host, or with none, directs no traffic there.
func TestElsewhere(t *testing.T) {
	for answered, want := range map[string]string{
		"192.0.2.1:8888": "10.0.0.2:8888", "127.0.0.1:22": "10.0.0.2:22", "[::1]:9": "10.0.0.2:9",
		"10.0.0.2:0": "", "10.0.0.2:99999": "", "10.0.0.2:http": "", "": "", "10.0.0.2": "",
	} {
		near, far := net.Pipe()
		c := &Client{wire: newWire(near), timeout: time.Second, silence: time.Second,
			waiting: map[uint64]chan response{}, done: make(chan struct{})}
		go c.read()
		go func() {
			w := newWire(far)
			var r request
			if w.receive(&r, time.Second) == nil {
				text, _ := json.Marshal(Started{Handle: 1, Addr: answered})
				_ = w.send(response{ID: r.ID, Result: text}, time.Second)
			}
		}()
		s, err := c.ServeTCP(t.Context(), "", "10.0.0.2:0")
		if (err == nil) != (want != "") || err == nil && s.Target("").Addr != want {
			t.Errorf("%q: %+v, %v; want %q", answered, s, err, want)
		}
		c.Close()
		far.Close()
	}
}

// TestLost: a client whose agent goes away is told, and so is who waits.
func TestLost(t *testing.T) {
	s, err := Listen("", "127.0.0.1:0", Options{Open: true})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	c := dial(t, s, DialOptions{})
	far := must.Get(c.ServeTCP(t.Context(), "", "127.0.0.1:0"))(t)
	time.AfterFunc(100*time.Millisecond, cancel)
	begin := time.Now()
	_, err = talk.RR(t.Context(), talk.RRConfig{Target: far.Target(""), Duration: time.Minute})
	if err == nil || time.Since(begin) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	must.Succeed(t, <-served, "serve")
	must.Is(t, must.Err(c.Stat(t.Context())), ErrLost, "c.Stat")
}

// TestStarved: an agent of which nothing is heard starves long before it is lost, and one that answers does not.
func TestStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := &Client{wire: newWire(near), timeout: time.Second, silence: 20 * time.Second,
			waiting: map[uint64]chan response{}, done: make(chan struct{}), heard: time.Now()}
		go c.read()
		w := newWire(far)
		for range 3 {
			must.Hold(t, !c.Starved(), "starved at once")
			time.Sleep(4 * time.Second)
			must.Try(t, w.send(response{}, time.Second))
			synctest.Wait()
		}
		time.Sleep(6 * time.Second)
		must.Hold(t, c.Starved(), "nothing was heard for 6 s")
		time.Sleep(15 * time.Second)
		must.Hold(t, !c.Starved(), "it is lost")
		c.Close()
		far.Close()
	})
}

// TestClosing: closing what was started on an agent that is gone, or silent, is no failure; what it refuses is one.
func TestClosing(t *testing.T) {
	for name, answer := range map[string]func(w *wire, r request){
		"gone":    func(w *wire, _ request) { w.conn.Close() },
		"silent":  func(*wire, request) {},
		"stopped": func(w *wire, r request) { _ = w.send(response{ID: r.ID}, time.Second) },
		"refuses": func(w *wire, r request) { _ = w.send(response{ID: r.ID, Error: remoteError(errRefused)}, time.Second) },
	} {
		near, far := net.Pipe()
		defer far.Close()
		c := &Client{wire: newWire(near), timeout: 100 * time.Millisecond, silence: time.Minute,
			waiting: map[uint64]chan response{}, done: make(chan struct{})}
		defer c.Close()
		go c.read()
		go func() {
			w := newWire(far)
			for {
				var r request
				if w.receive(&r, time.Minute) != nil {
					return
				}
				answer(w, r)
			}
		}()
		for _, started := range []interface{ Close() error }{&Sink{c: c}, &TCPServer{c: c}} {
			if err := started.Close(); (err != nil) != (name == "refuses") {
				t.Errorf("%s: %T: %v", name, started, err)
			}
		}
	}
}

// FuzzReceive: whatever comes over the connection is a message or an error.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"id":1,"verb":"info"}`+"\n"), false)
	f.Add([]byte(`00 {"id":1,"verb":"ping"}`+"\n"), true)
	f.Add([]byte("\n \n{"), true)
	f.Fuzz(func(t *testing.T, b []byte, secured bool) {
		near, far := net.Pipe()
		defer near.Close()
		go func() {
			_, _ = far.Write(b)
			far.Close()
		}()
		w := newWire(near)
		if secured {
			w.begin([]byte("s"), "a", "b", "server", "client", maxAnswer)
		}
		var r request
		for n := 0; w.receive(&r, time.Second) == nil; n++ {
			must.Need(t, !secured, "a line without a right MAC was accepted")
			must.Need(t, n <= len(b), "more messages than bytes")
		}
	})
}
