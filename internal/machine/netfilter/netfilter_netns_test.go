//go:build netns

package netfilter

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/setting"
)

// TestRuleSets empties and restores rule sets, and looks at them through the tools themselves.
func TestRuleSets(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	mechanism := Mechanisms(treetest.Live(t))[setting.RuleSet]
	ctx := context.Background()
	for _, c := range []struct {
		tool, show string
		setup      [][]string
	}{
		{"nft", "nft -s list ruleset", [][]string{
			{"nft", "add table inet mine"}, {"nft", "add chain inet mine input { type filter hook input priority 0 ; policy accept ; }"},
			{"nft", "add set inet mine ports { type inet_service ; elements = { 22, 80 } ; }"},
			{"nft", "add rule inet mine input tcp dport @ports counter accept comment \"two  words\""},
		}},
		{"iptables-legacy", "iptables-legacy -S", [][]string{
			{"iptables-legacy", "-N", "mine"}, {"iptables-legacy", "-A", "mine", "-p", "tcp", "--dport", "22", "-j", "ACCEPT"},
			{"iptables-legacy", "-A", "FORWARD", "-j", "mine"}, {"iptables-legacy", "-P", "FORWARD", "DROP"},
		}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skipf("%s is not installed", c.tool)
			}
			for _, command := range c.setup {
				if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
					t.Skipf("%v: %v: %s", command, err, out)
				}
			}
			show := strings.Fields(c.show)
			shown := func() string { return treetest.Tool(t, show[0], show[1:]...) }
			a := setting.Of(setting.RuleSet, c.tool)
			was, before := shown(), mechanism.Read(ctx, a)
			if before.State != setting.Known {
				t.Fatalf("%+v", before)
			}
			if again := mechanism.Read(ctx, a); !again.Same(before) {
				t.Errorf("read twice:\n%s\n%s", before.Value, again.Value)
			}
			if err := mechanism.Write(ctx, a, setting.Missing("removed")); err != nil {
				t.Fatal(err)
			}
			if r := mechanism.Read(ctx, a); r.State != setting.Absent {
				t.Errorf("emptied: %+v", r)
			}
			if text := shown(); strings.Contains(text, "22") || strings.Contains(text, "DROP") {
				t.Errorf("still there: %s", text)
			}
			if err := mechanism.Write(ctx, a, before); err != nil {
				t.Fatal(err)
			}
			if now := shown(); now != was {
				t.Errorf("restored:\n%s\nwas:\n%s", now, was)
			}
		})
	}
}
