//go:build netns

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"mpps/internal/measure"
)

// TestBenchSourceMACs: a bridge learns as many source MAC addresses as were asked for, all of one flow, and every frame
// arrives; XDP, which sends from one, is refused.
func TestBenchSourceMACs(t *testing.T) {
	h := newHostAndGuest(t)
	sender := h.guest + "s"
	h.ip("netns", "add", sender)
	t.Cleanup(func() { h.ip("netns", "del", sender) })
	h.ip("-n", h.host, "link", "add", "p0", "type", "veth", "peer", "name", "s0", "netns", sender)
	h.ip("-n", h.host, "link", "set", "p0", "master", "br0", "up")
	h.ip("-n", sender, "link", "set", "s0", "up")
	bench := func(more ...string) (int, string, string) {
		return program(t, append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "bench", "pps", "--from",
			"netns:" + sender + "/s0", "--agent", h.agent, "--flows", "1", "--rate", "2k", "--duration", "500ms",
			"--repeat", "3", "--keep=false"}, more...)...)
	}
	for _, macs := range []string{"1", "8"} {
		code, stdout, stderr := bench("--source-macs", macs)
		var got struct{ Result measure.Run }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 && code != 5 {
			t.Fatalf("exit code %d, %v: %s", code, err, stderr)
		}
		if r := got.Result; r.Received == 0 || r.Lost > r.Sent/10 || r.Load.SourceMACs != map[string]int{"8": 8}[macs] {
			t.Errorf("%s: sent %d, lost %d, load %+v", macs, r.Sent, r.Lost, r.Load)
		}
		learned := 0
		_, table, _ := program(t, "bridge", "-n", h.host, "fdb", "show", "br", "br0", "dev", "p0")
		for line := range strings.Lines(table) {
			if !strings.Contains(line, "permanent") {
				learned++
			}
		}
		if want := map[string]int{"1": 1, "8": 8}[macs]; learned != want {
			t.Errorf("the bridge learned %d addresses, expected %d:\n%s", learned, want, table)
		}
	}
	if code, _, stderr := bench("--source-macs", "8", "--generator", "xdp"); code == 0 ||
		!strings.Contains(stderr, "one MAC address") {
		t.Errorf("with XDP: exit code %d, %s", code, stderr)
	}
}
