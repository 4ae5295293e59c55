//go:build netns

package netfilter

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRuleSets flushes and restores rule sets, checked with the tools.
func TestRuleSets(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	must.Fail(listNftRules(late))(t, "a list of rules after its time")
	mechanism := Mechanisms(treetest.Live(t))[setting.RuleSet]
	ctx := context.Background()
	for _, c := range []struct {
		tool, show string
		setup      [][]string
	}{
		{"nft", "nft -s list ruleset", [][]string{
			{"nft", "add table inet mine"}, {"nft", "add chain inet mine input { type filter hook input priority 0 ; " +
				"policy accept ; }"},
			{"nft", "add set inet mine ports { type inet_service ; elements = { 22, 80 } ; }"},
			{"nft", "add rule inet mine input tcp dport @ports counter accept comment \"two  words\""},
		}},
		{"iptables-legacy", "iptables-legacy -S", [][]string{
			{"iptables-legacy", "-N", "mine"}, {"iptables-legacy", "-A", "mine", "-p", "tcp", "--dport", "22", "-j",
				"ACCEPT"},
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
			must.Need(t, before.State == setting.Known, "%+v", before)
			if again := mechanism.Read(ctx, a); !again.Same(before) {
				t.Errorf("read twice:\n%s\n%s", before.Value, again.Value)
			}
			must.Do(t, mechanism.Write(ctx, a, setting.Missing("removed")))
			must.Equal(t, mechanism.Read(ctx, a).State, setting.Absent, "emptied")
			if text := shown(); strings.Contains(text, "22") || strings.Contains(text, "DROP") {
				t.Errorf("still there: %s", text)
			}
			must.Do(t, mechanism.Write(ctx, a, before))
			must.Equal(t, shown(), was, "restored")
		})
	}
}

func TestNetfilterOfNamespace(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	m := treetest.Live(t)
	ctx := context.Background()
	empty := &facts.Host{}
	Inventory(ctx, m, empty)
	must.Equal(t, len(empty.Netfilter.Backends), 0, "rules in a new namespace: %+v", empty.Netfilter)
	must.Equal(t, m.Line("proc/net/ip_tables_names"), "", "looking at the rules has made tables")
	want := map[string]int{}
	for _, c := range []struct {
		backend string
		rules   int
		program []string
	}{
		{"iptables-legacy", 2, []string{"iptables-legacy", "-A", "FORWARD", "-s", "192.0.2.1", "-j", "DROP"}},
		{"", 0, []string{"iptables-legacy", "-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"}},
		{"nft", 2, []string{"nft", "add table inet x; add chain inet x gate { type filter hook forward priority 0; " +
			"policy drop; }; add rule inet x gate counter accept"}},
		{"iptables-nft", 0, []string{"iptables-nft", "-A", "FORWARD", "-s", "192.0.2.1", "-j", "DROP"}},
	} {
		if _, err := exec.LookPath(c.program[0]); err != nil {
			t.Skipf("%s is not installed", c.program[0])
		}
		treetest.Tool(t, c.program[0], c.program[1:]...)
		if c.backend != "" {
			want[c.backend] = c.rules
		}
	}
	h := &facts.Host{}
	Inventory(ctx, m, h)
	if len(h.Unseen) != 0 || !slices.Equal(h.Netfilter.Backends, []string{"iptables-legacy", "iptables-nft", "nft"}) {
		t.Errorf("back ends %v, unseen %v; want %v", h.Netfilter.Backends, h.Unseen, want)
	}
	for _, set := range h.Netfilter.Rules {
		must.Hold(t, set.Rules == want[set.Tool],
			"%s: %d rules, want %d: %q", set.Tool, set.Rules, want[set.Tool], set.Lines)
		if text := strings.Join(set.Lines, "\n"); !strings.Contains(text, "192.0.2.1") ||
			strings.Contains(text, "packets") {
			t.Errorf("%s:\n%s", set.Tool, text)
		}
	}
}

// TestMasquerade finds source NAT by what the kernel holds, whichever tool made it and whatever its comment says.
func TestMasquerade(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	m := treetest.Live(t)
	masquerades := func() facts.Answer {
		h := &facts.Host{Routing: &facts.Routing{}}
		Inventory(context.Background(), m, h)
		return h.Routing.Masquerade
	}
	must.Equal(t, masquerades(), facts.No, "without rules")
	nat := []string{"nft", "add table ip t", "nft", "add chain ip t post { type nat hook postrouting priority 100 ; }",
		"nft", "add chain ip t pre { type nat hook prerouting priority -100 ; }",
		"nft", "add rule ip t pre udp dport 53 dnat to 192.0.2.1 comment \"-j MASQUERADE\""}
	for i := 0; i < len(nat); i += 2 {
		if out, err := exec.Command(nat[i], nat[i+1]).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", nat[i+1], err, out)
		}
	}
	must.Equal(t, masquerades(), facts.No, "with destination NAT alone")
	for _, rule := range []string{"masquerade", "snat to 192.0.2.1"} {
		treetest.Tool(t, "nft", "add rule ip t post ip saddr 10.0.0.0/8 "+rule)
		must.Equal(t, masquerades(), facts.Yes, "with %s", rule)
		treetest.Tool(t, "nft", "flush chain ip t post")
	}
	for _, program := range []string{"iptables-nft", "ip6tables-nft", "iptables-legacy"} {
		add := []string{"-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"}
		if out, err := exec.Command(program, add...).CombinedOutput(); err != nil {
			t.Logf("%s: %v: %s", program, err, out)
			continue
		}
		must.Equal(t, masquerades(), facts.Yes, "with %s", program)
		treetest.Tool(t, program, "-t", "nat", "-F", "POSTROUTING")
		must.Equal(t, masquerades(), facts.No, "after %s has removed it", program)
	}
}
