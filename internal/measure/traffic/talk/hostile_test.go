package talk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

// keyed serves whoever has the key "k".
func keyed(t *testing.T) *Server {
	t.Helper()
	s := must.Get(Listen("", "127.0.0.1:0", []byte("k"), nil, nil))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// closedBy reports whether the far end closes a connection without another word, within 3 s.
func closedBy(t *testing.T, c net.Conn) bool {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
	n, err := c.Read(make([]byte, 1))
	return n == 0 && err != nil && !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestInterruptedHello: a run that is interrupted while it greets a far end that is slow says so, and blames nobody.
func TestInterruptedHello(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t) // the kernel accepts, and nobody answers
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	err := Target{Addr: l.Addr().String(), Key: []byte("k")}.Prove(ctx)
	must.Is(t, err, context.Canceled, "interrupted")
	must.Hold(t, !errors.Is(err, ErrKey), "%v", err)
}

// TestKeyless: without the key, or with a proof that was recorded, nothing is counted.
func TestKeyless(t *testing.T) {
	s := keyed(t)
	for name, key := range map[string]string{"none": "", "another": "l"} {
		must.Is(t, must.Err(RR(t.Context(), RRConfig{Target: Target{Addr: s.Addr(), Key: []byte(key)}, Count: 1})),
			ErrKey, "key %s", name)
	}
	dial := func() net.Conn {
		c := must.Get(net.Dial("tcp", s.Addr()))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	// As version 2 of the protocol did: the hello, and then bytes.
	c := dial()
	h := hello{service: serviceSink, request: 1 << 10}.bytes()
	must.Get(c.Write(append(h[:helloBytes:helloBytes], make([]byte, 4096)...)))(t)
	_, _ = io.ReadFull(c, make([]byte, challengeBytes+proofBytes))
	must.Hold(t, closedBy(t, c), "a client without a proof was not hung up on")
	// A recorded opening, word for word.
	open := append(h, make([]byte, challengeBytes)...)
	answer := make([]byte, challengeBytes+proofBytes)
	var recorded []byte
	for i := range 2 {
		c := dial()
		must.Get(c.Write(open))(t)
		must.Get(io.ReadFull(c, answer))(t)
		if i == 0 {
			recorded = proof([]byte("k"), "client", open[:helloBytes], open[helloBytes:], answer[:challengeBytes])
		}
		must.Get(c.Write(append(recorded[:proofBytes:proofBytes], make([]byte, 100)...)))(t)
		if i == 1 && !closedBy(t, c) {
			t.Error("a recorded proof was accepted")
		}
		c.Close()
	}
	for range 50 {
		if s.Counts().Received == 100 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := s.Counts(); n.Received != 100 || n.Transactions != 0 { // of the first, true one
		t.Errorf("%+v", n)
	}
}

// TestMessagesOfPeers: what peers have a server hold comes out of one budget, and goes back there with the connection.
func TestMessagesOfPeers(t *testing.T) {
	s := keyed(t)
	transact := func(bytes int) error {
		_, err := RR(t.Context(), RRConfig{Target: Target{Addr: s.Addr(), Key: []byte("k")}, Count: 1, Request: bytes,
			Timeout: time.Second})
		return err
	}
	room := must.Get(traffic.HoldMemory(1 << 20))(t)
	var free []func()
	defer func() {
		for _, f := range free {
			f()
		}
	}()
	for bytes := uint64(1) << 50; bytes >= 1<<20; {
		f, err := traffic.HoldMemory(bytes)
		if err != nil {
			bytes /= 2
			continue
		}
		free = append(free, f)
	}
	room()
	must.Refuse(t, transact(8<<20), "a message of 8 MiB was taken where less than 2 are left")
	for range 100 {
		if err := transact(500 << 10); err != nil {
			t.Fatalf("a message for which there is room: %v", err)
		}
		for deadline := time.Now().Add(10 * time.Second); serving.Load() > 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestStranger: a client sends nothing to what does not have the key.
func TestStranger(t *testing.T) {
	for name, answer := range map[string]string{
		"a mirror": "", "SSH": "SSH-2.0-OpenSSH_9.2\r\nthis is more than a challenge and a proof of 48 bytes",
	} {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		got := make(chan int, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			b := make([]byte, 1<<20)
			n, _ := io.ReadAtLeast(c, b, helloBytes+challengeBytes)
			if answer == "" {
				_, _ = c.Write(append(b[:n], b[:n]...))
			} else {
				_, _ = io.WriteString(c, answer)
			}
			more, _ := io.ReadFull(c, b)
			got <- n + more
		}()
		_, err := Stream(t.Context(), StreamConfig{Target: Target{Addr: l.Addr().String(), Key: []byte("k")},
			Duration: time.Second})
		if n := <-got; !errors.Is(err, ErrKey) || n != helloBytes+challengeBytes {
			t.Errorf("%s: %v, and it got %d bytes", name, err, n)
		}
		l.Close()
	}
}

// TestCrowd: thousands of connections that say nothing neither take threads nor keep a client out.
func TestCrowd(t *testing.T) {
	s := keyed(t)
	before := runtime.NumGoroutine()
	for range 2000 {
		c := must.Get(net.Dial("tcp", s.Addr()))(t)
		defer c.Close()
	}
	r, err := RR(t.Context(), RRConfig{Target: Target{Addr: s.Addr(), Key: []byte("k")}, Count: 10})
	must.Hold(t, err == nil && r.Transactions == 10, "%+v, %v", r, err)
	if n := runtime.NumGoroutine() - before; n > 2*lobbySeats {
		t.Errorf("%d more goroutines", n)
	}
}

// TestLobbyIsFair: the address, or the /64 of IPv6, that has the most connections loses one, and time ends.
func TestLobbyIsFair(t *testing.T) {
	var l Lobby
	enter := func(from string, within time.Duration) (net.Conn, func() bool) {
		near, far := net.Pipe()
		c := &addressed{Conn: near, from: net.TCPAddr{IP: net.ParseIP(from)}}
		t.Cleanup(func() { far.Close() })
		return c, l.Enter(c, within)
	}
	_, one := enter("10.0.0.1", time.Minute)
	var crowd []func() bool
	for range lobbySeats + 10 {
		_, leave := enter("10.0.0.2", time.Minute)
		crowd = append(crowd, leave)
	}
	must.Hold(t, one(), "the only connection of its address was closed")
	must.Hold(t, !crowd[0]() && crowd[lobbySeats]() && !one(),
		"expected the oldest of the crowd to be closed, the newest open, and each to leave once")
	_, leave := enter("10.0.0.3", time.Nanosecond)
	time.Sleep(50 * time.Millisecond)
	must.Hold(t, !leave(), "a connection stayed for longer than its time")
	_, one = enter("2001:db8:0:1::1", time.Minute)
	for i := range 2 * lobbySeats { // one machine has 2^64 addresses
		enter(fmt.Sprintf("2001:db8:0:2::%x", i), time.Minute)
	}
	must.Hold(t, one(), "the only connection of its network was closed")
	l.Close()
	if _, leave := enter("10.0.0.4", time.Minute); leave() || crowd[lobbySeats-1]() {
		t.Error("a closed lobby has open connections")
	}
}

type addressed struct {
	net.Conn
	from net.TCPAddr
}

func (a *addressed) RemoteAddr() net.Addr { return &a.from }

// arranged opens the control connection of a service and returns it with the address that the service goes on at.
func arranged(t *testing.T, s *Server, h hello) (*conn, string) {
	t.Helper()
	control := must.Get(Target{Addr: s.Addr(), Key: []byte("k")}.dial(t.Context(), h))(t)
	t.Cleanup(func() { closeAll(control) })
	port := must.Get(control[0].port())(t)
	return control[0], net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
}

// TestConnectionsOfOthers: a program with the client's address, which has not the token, is not answered at the port of
// crr, and the client is, also after one that says nothing.
func TestConnectionsOfOthers(t *testing.T) {
	s := keyed(t)
	control, at := arranged(t, s, hello{service: serviceCRR, request: TokenBytes, response: 4})
	ask := func(request []byte) int {
		c := must.Get(net.Dial("tcp", at))(t)
		defer c.Close()
		must.Get(c.Write(request))(t)
		_ = c.SetReadDeadline(time.Now().Add(3 * requestWithin))
		n, _ := io.ReadFull(c, make([]byte, 4))
		return n
	}
	must.Equal(t, ask(make([]byte, TokenBytes)), 0, "a request without the token is answered with bytes")
	mute := must.Get(net.Dial("tcp", at))(t)
	defer mute.Close()
	must.Equal(t, ask(control.token), 4, "a request with the token is answered with bytes")
	if n := s.Counts().Transactions; n != 1 {
		t.Errorf("%d transactions counted, expected the client's", n)
	}
}

// TestDatagramsOfOthers: a program with the client's address, which has not the token, is not answered, and does not
// take the client's place by being first. Nor does one with the token and another address, which may be a third one's.
func TestDatagramsOfOthers(t *testing.T) {
	s := keyed(t)
	control, at := arranged(t, s, hello{service: serviceUDPRR, request: firstBytes, response: NumberBytes})
	dial := func() net.Conn {
		c := must.Get(net.Dial("udp", at))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	stranger, client := dial(), dial()
	for range 10 {
		must.Get(stranger.Write(make([]byte, firstBytes)))(t)
	}
	_ = stranger.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := stranger.Read(make([]byte, 100)); err == nil {
		t.Errorf("a stranger is answered with %d bytes", n)
	}
	forged := must.Get((&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("udp", at))(t)
	defer forged.Close()
	must.Get(forged.Write(append([]byte{0}, control.token...)))(t)
	must.Get(client.Write(append([]byte{0}, control.token...)))(t)
	must.Do(t, control.readFull(make([]byte, 1)))
	_, _ = stranger.Write(append([]byte{0}, control.token...)) // too late
	must.Get(client.Write(make([]byte, firstBytes)))(t)
	_ = client.SetReadDeadline(time.Now().Add(3 * time.Second))
	if n, err := client.Read(make([]byte, 100)); err != nil || n != NumberBytes {
		t.Errorf("the client is answered with %d bytes, %v", n, err)
	}
	if n := s.Counts().Transactions; n != 1 {
		t.Errorf("%d transactions counted, expected the client's", n)
	}
}
