package rig

import (
	"errors"
	"net"
	"testing"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/must"
)

// TestReach: an agent answers with the secret; an open port, one with another secret and nobody do not.
func TestReach(t *testing.T) {
	secret := []byte("0123456789abcdef")
	s := must.Get(agent.Listen("", "127.0.0.1:0", agent.Options{Version: "v", Secret: secret}))(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context()) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	open := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() {
		for {
			c, err := open.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n"))
			c.Close()
		}
	}()
	t.Cleanup(func() { open.Close() })
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone.Close()
	for name, c := range map[string]struct {
		o    AgentOptions
		want bool
	}{
		"an agent":       {AgentOptions{Address: s.Addr(), Secret: secret}, true},
		"another secret": {AgentOptions{Address: s.Addr(), Secret: []byte("fedcba9876543210")}, false},
		"no secret":      {AgentOptions{Address: s.Addr()}, false},
		"no such NIC":    {AgentOptions{Address: s.Addr(), Secret: secret, NIC: "eth99"}, false},
		"an open port":   {AgentOptions{Address: open.Addr().String(), Secret: secret}, false},
		"nobody":         {AgentOptions{Address: gone.Addr().String()}, false},
		"not an address": {AgentOptions{Address: "guest"}, false},
	} {
		c.o.Version = "v"
		if err := Reach(t.Context(), c.o); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckEnds: interfaces must be there, and bridges be bridges.
func TestCheckEnds(t *testing.T) {
	must.Try(t, CheckEnd(traffic.Endpoint{Iface: "lo"}))
	for _, e := range []traffic.Endpoint{{Iface: "mppsnone0"}, {Netns: "mpps-none", Iface: "lo"}} {
		if err := CheckEnd(e); err == nil {
			t.Errorf("%s was taken for an end", e)
		}
	}
	for _, name := range []string{"lo", "mppsnone0"} {
		if err := CheckBridge(name); err == nil {
			t.Errorf("%s was taken for a bridge", name)
		}
	}
}
