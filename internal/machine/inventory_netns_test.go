//go:build netns

package machine

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"mpps/internal/machine/link"
	"mpps/internal/machine/netfilter"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestInventoryWithoutRoot(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add br0 type bridge", "tuntap add t0 mode tap", "link set t0 master br0")
	treetest.Tool(t, "iptables-legacy", "-A", "FORWARD", "-j", "ACCEPT")
	m := live(t)
	must.Do(t, syscall.Setgroups(nil))
	must.Do(t, syscall.Setresgid(65534, 65534, 65534))
	if err := syscall.Setresuid(65534, 65534, 65534); err != nil { // all threads: this process is the test's own
		t.Fatal(err)
	}
	h := &facts.Host{}
	start := time.Now()
	link.Inventory(context.Background(), m.Tree, h)
	netfilter.Inventory(context.Background(), m.Tree, h)
	must.Hold(t, len(h.Bridges) == 1 && len(h.Taps) == 1 && len(h.Bridges[0].Ports) == 1,
		"without root: %d bridges, %d taps; want 1 and 1", len(h.Bridges), len(h.Taps))
	link.AskLanes(m.Tree, h)
	must.Hold(t, h.Kernel.Lanes == nil, "without root the kernel said of lane programs %+v", h.Kernel.Lanes)
	for _, tool := range []string{"iptables-legacy", "nft"} {
		must.Hold(t, slices.Contains(h.Unseen, facts.RulesUnseen(tool, "", "needs root")),
			"unseen %v: want the rules of %s because it needs root", h.Unseen, tool)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
