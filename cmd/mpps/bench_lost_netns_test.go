//go:build netns

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

// received is how many bytes an interface of the host has received.
func (h *hostAndGuest) received(iface string) uint64 { return h.statistic(iface, "rx_bytes") }

// statistic returns a counter of an interface of the host, by its name in sysfs.
func (h *hostAndGuest) statistic(iface, name string) uint64 {
	h.t.Helper()
	text := h.ip("netns", "exec", h.host, "cat", "/sys/class/net/"+iface+"/statistics/"+name)
	n := must.Get(strconv.ParseUint(strings.TrimSpace(text), 10, 64))(h.t)
	return n
}

// TestControlConnectionIsCut cuts a control connection that has a link of its own without a word to either side: what
// the agent sends stops within 2 s, and not with the end of its trial.
func TestControlConnectionIsCut(t *testing.T) {
	for _, what := range []string{"stream", "pps"} {
		t.Run(what, func(t *testing.T) {
			h := newHostAndGuest(t)
			h.ip("-n", h.host, "link", "add", "ctl0", "type", "veth", "peer", "name", "ctl1", "netns", h.guest)
			h.ip("-n", h.host, "address", "add", "10.51.0.1/24", "dev", "ctl0")
			h.ip("-n", h.guest, "address", "add", "10.51.0.2/24", "dev", "ctl1")
			h.ip("-n", h.host, "link", "set", "ctl0", "up")
			h.ip("-n", h.guest, "link", "set", "ctl1", "up")
			control := h.startAgent(t, "10.51.0.2:0")
			argv := []string{"netns", "exec", h.host, "mpps", "bench", what, "--agent", control, "--guest-nic", "eth0",
				"--reverse",
				"--duration", "60s", "--warm-up", "0s", "--repeat", "1", "--keep=false"}
			if what == "pps" {
				argv = append(argv, "--via", "br0", "--rate", "20k")
			}
			cmd := exec.Command("ip", argv...)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			must.Do(t, cmd.Start())
			t.Cleanup(func() {
				_ = cmd.Process.Signal(os.Interrupt)
				_ = cmd.Wait()
				if t.Failed() {
					t.Logf("it printed: %s", said.Bytes())
				}
			})
			rate := func() uint64 { // bytes in 200 ms
				before := h.received("tap0")
				time.Sleep(200 * time.Millisecond)
				return h.received("tap0") - before
			}
			for deadline := time.Now().Add(time.Minute); ; {
				if a, b := rate(), rate(); a > 20e3 && b > 20e3 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("no traffic was seen")
				}
			}
			h.ip("-n", h.guest, "link", "set", "ctl1", "down")
			cut := time.Now()
			for rate() > 10e3 {
				if time.Since(cut) > 10*time.Second {
					t.Fatal("the agent still sends 10 s after its control connection was cut")
				}
			}
		})
	}
}
