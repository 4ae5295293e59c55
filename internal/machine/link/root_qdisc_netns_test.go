//go:build netns

package link

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRootQdisc replaces qdiscs of virtual devices and restores them, checked with tc; qdiscs with parameters are left
// alone.
func TestRootQdisc(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "tuntap add t0 mode tap", "link set t0 up", "tuntap add t4 mode tap multi_queue", "link set t4 up",
		"tuntap add t5 mode tap", "link add br0 type bridge", "link set br0 up")
	mechanisms := Mechanisms(treetest.Live(t))
	read := func(device string) setting.Reading {
		return mechanisms.Read(t.Context(), setting.Of(setting.RootQdisc, device))
	}
	write := func(device, value string) error {
		return mechanisms.Write(t.Context(), setting.Of(setting.RootQdisc, device), setting.Value(value))
	}
	shown := func(device string) string {
		return strings.TrimSpace(treetest.Tool(t, "tc", "qdisc", "show", "dev", device))
	}
	for _, c := range []struct{ device, put, value string }{
		{"t0", "", "default pfifo_fast"},
		{"t4", "", "default mq pfifo_fast"},
		{"t0", "root handle 8123: pfifo_fast", "pfifo_fast 8123:"},
		{"t4", "root handle 8124: mq", "mq 8124: pfifo_fast"},
	} {
		if c.put != "" {
			treetest.Tool(t, "tc", append(strings.Fields("qdisc replace dev "+c.device), strings.Fields(c.put)...)...)
		}
		before := shown(c.device)
		if r := read(c.device); r.Value != c.value || r.ReadOnly {
			t.Errorf("%s: reads %+v, expected %q; tc: %s", c.device, r, c.value, before)
		}
		for range 2 { // the second time it is there
			must.Try(t, write(c.device, setting.NoQueue))
		}
		if r, tc := read(c.device), shown(c.device); r.Value != setting.NoQueue ||
			!strings.HasPrefix(tc, "qdisc noqueue") {
			t.Errorf("%s: reads %+v, expected none; tc: %s", c.device, r, tc)
		}
		must.Try(t, write(c.device, c.value))
		if r, tc := read(c.device), shown(c.device); r.Value != c.value || tc != before {
			t.Errorf("%s: reads %+v, expected %q; tc: %s, before %s", c.device, r, c.value, tc, before)
		}
	}
	// A bridge has no qdisc by default, and nothing to restore.
	if r := read("br0"); r.Value != setting.NoQueue || r.ReadOnly {
		t.Errorf("br0: %+v", r)
	}
	if r := read("t5"); r.State != setting.Absent || r.NoObject {
		t.Errorf("never up: %+v", r)
	}
	if r := read("t9"); !r.NoObject {
		t.Errorf("not there: %+v", r)
	}
	for device, put := range map[string]string{"t0": "root pfifo limit 17", "t4": "parent 8124:1 pfifo limit 17"} {
		treetest.Tool(t, "tc", append(strings.Fields("qdisc replace dev "+device), strings.Fields(put)...)...)
		before := shown(device)
		r := read(device)
		must.Hold(t, r.State == setting.Known && r.ReadOnly && r.Why != "", "%s with parameters: %+v", device, r)
		must.Say(t, write(device, setting.NoQueue), "put back as they were", "%s with parameters was exchanged", device)
		if after := shown(device); after != before {
			t.Errorf("%s: %s, before %s", device, after, before)
		}
	}
	for _, value := range []string{"htb 1:", "default noqueue", "fq_codel"} {
		must.Refuse(t, write("br0", value), "%s was written", value)
	}
}
