// Package netfilter reads rules, and writes single rules and whole rule sets, of nf_tables and of the legacy tools.
package netfilter

import (
	"context"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// maxRuleLines is how many lines of one rule set are kept as text.
const maxRuleLines = 2000

// Inventory reads the hooks and rules that a frame passes. It must not load a module, as the legacy tools and the
// nf_tables socket would: each is asked only if its part of the kernel is there already. What is not loaded has no
// rules.
func Inventory(ctx context.Context, m *tree.Tree, h *facts.Host) {
	n := facts.Netfilter{
		BridgeModule: m.Exists("sys/module/br_netfilter") || m.Exists("proc/sys/net/bridge"),
		Conntrack:    m.Exists("sys/module/nf_conntrack") || m.Exists("proc/sys/net/netfilter/nf_conntrack_max"),
		Backends:     []string{}, Rules: []facts.RuleSet{},
	}
	for _, legacy := range legacyTools {
		if set, found := legacyRules(ctx, m, h, legacy); found {
			n.Rules = append(n.Rules, set)
			if set.Rules > 0 {
				n.Backends = append(n.Backends, legacy.tool)
			}
		}
	}
	set, rules, found := nftRules(ctx, m, h)
	if found {
		n.Rules = append(n.Rules, set)
		n.Backends = append(n.Backends, nftBackends(rules)...)
	}
	h.Netfilter = n
	if h.Routing != nil {
		h.Routing.Masquerade = masquerades(m, h, rules)
	}
}

// sourceNAT are the targets of iptables that rewrite source addresses; NETMAP does where packets leave.
var sourceNAT = []string{"MASQUERADE", "SNAT", "NETMAP"}

// masquerades reports whether a rule rewrites the source of packets. It is not known if the rules of a tool that can
// have such a rule are not.
func masquerades(m *tree.Tree, h *facts.Host, rules []nftRule) facts.Answer {
	nat := slices.ContainsFunc(rules, func(r nftRule) bool { return r.nat })
	unseen := !m.Live()
	for _, tool := range []string{"nft", "iptables-legacy", "ip6tables-legacy"} {
		set := facts.Find(h.Netfilter.Rules, func(s *facts.RuleSet) bool { return s.Tool == tool })
		switch {
		case set == nil:
			unseen = unseen || slices.ContainsFunc(h.Unseen, func(u facts.Unseen) bool {
				return u.Part == facts.UnseenRules && u.Of == tool
			})
		case tool != "nft": // whose text may be missing or cut: its rules are all in the dump
			unseen = unseen || set.Cut
			nat = nat || slices.ContainsFunc(set.Lines, func(line string) bool {
				return slices.Contains(sourceNAT, target(line))
			})
		}
	}
	switch {
	case nat:
		return facts.Yes
	case unseen:
		return ""
	}
	return facts.No
}

// target returns the target of a rule in iptables' save format, in which words with spaces, such as comments, stand in
// quotes; empty if it has none.
func target(rule string) string {
	jump, quoted := false, false
	for _, word := range strings.Fields(rule) {
		switch {
		case quoted:
		case jump:
			return word
		default:
			jump = word == "-j"
		}
		if (strings.Count(word, `"`)-strings.Count(word, `\"`))%2 == 1 {
			quoted = !quoted
		}
	}
	return ""
}

// legacyTool is one of the tools that use the kernel's old interface (x_tables, ebtables).
type legacyTool struct {
	tool  string
	save  string // program that prints one table
	names string // file that lists the loaded tables, if there is one
	// modules are the modules of the tables, by table, if no file lists them.
	modules map[string]string
}

var legacyTools = []legacyTool{
	{tool: "iptables-legacy", save: "iptables-legacy-save", names: "proc/net/ip_tables_names"},
	{tool: "ip6tables-legacy", save: "ip6tables-legacy-save", names: "proc/net/ip6_tables_names"},
	{tool: "arptables-legacy", save: "arptables-legacy", names: "proc/net/arp_tables_names"},
	{tool: "ebtables-legacy", save: "ebtables-legacy", modules: map[string]string{
		"filter": "ebtable_filter", "nat": "ebtable_nat", "broute": "ebtable_broute",
	}},
}

// legacyRules reads the rules of one tool; false if the kernel has none of its tables.
func legacyRules(ctx context.Context, m *tree.Tree, h *facts.Host, legacy legacyTool) (facts.RuleSet, bool) {
	tables, err := legacyTables(m, legacy)
	if err != nil {
		tree.Note(h, facts.RulesUnseen(legacy.tool, "", tree.Reason(err)))
		return facts.RuleSet{}, false
	}
	if len(tables) == 0 {
		return facts.RuleSet{}, false
	}
	set := facts.RuleSet{Tool: legacy.tool, Lines: []string{}}
	for _, table := range tables {
		text, err := saveTable(ctx, m, legacy, table)
		if err != nil {
			tree.Note(h, facts.RulesUnseen(legacy.tool, table, tree.Reason(err)))
			return facts.RuleSet{}, false
		}
		lines, rules := parseSave(text, table)
		set.Rules += rules
		set.Lines = append(set.Lines, lines...)
	}
	return cut(set), true
}

// cut limits a rule set to maxRuleLines.
func cut(set facts.RuleSet) facts.RuleSet {
	if len(set.Lines) > maxRuleLines {
		set.Lines, set.Cut = set.Lines[:maxRuleLines], true
	}
	return set
}

// legacyTables returns a tool's tables that are in the kernel now.
func legacyTables(m *tree.Tree, legacy legacyTool) ([]string, error) {
	if legacy.names != "" {
		if !m.Exists(legacy.names) { // x_tables family not loaded
			return nil, nil
		}
		text, err := m.Read(legacy.names)
		if err != nil {
			return nil, err
		}
		return strings.Fields(text), nil
	}
	var tables []string
	for _, table := range []string{"broute", "filter", "nat"} {
		if m.Exists(path.Join("sys/module", legacy.modules[table])) {
			tables = append(tables, table)
		}
	}
	return tables, nil
}

// saveTable returns one loaded table as text. Naming the table keeps the program from trying the others, and -M keeps
// it from loading a module if the table has disappeared meanwhile.
func saveTable(ctx context.Context, m *tree.Tree, legacy legacyTool, table string) (string, error) {
	switch legacy.tool {
	// Not with the save programs of these two: they run "arptables" and "ebtables", which may be those for nf_tables.
	case "arptables-legacy":
		text, err := m.Command(ctx, legacy.save, "-t", table, "-n", "-L")
		return saveArptables(text, table), err
	case "ebtables-legacy":
		return m.Command(ctx, legacy.save, "-t", table, "-L", "--Lx")
	}
	return m.Command(ctx, legacy.save, "-M", "/bin/false", "-t", table)
}

// parseSave reads the save format of iptables, ip6tables and arptables (a star and the table; a colon, chain and
// policy; one -A line per rule) and the commands that ebtables -L --Lx prints ("ebtables -t filter -A FORWARD …"). It
// leaves out counters, ACCEPT policies, which block nothing, and other tables. It returns the lines, each with its
// table in front, and how many are rules.
func parseSave(text, table string) (lines []string, rules int) {
	current := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if command, found := strings.CutPrefix(line, "ebtables -t "+table+" "); found {
			if strings.HasPrefix(command, "-A ") {
				rules++
			} else if !strings.HasPrefix(command, "-P ") || strings.HasSuffix(command, " ACCEPT") {
				continue
			}
			lines = append(lines, "-t "+table+" "+command)
			continue
		}
		switch {
		case strings.HasPrefix(line, "*"):
			current = line[1:]
		case current != table:
		case strings.HasPrefix(line, ":"):
			fields := strings.Fields(line[1:])
			if len(fields) >= 2 && fields[1] != "ACCEPT" && fields[1] != "-" && fields[1] != "RETURN" {
				lines = append(lines, "-t "+table+" -P "+fields[0]+" "+fields[1])
			}
		case strings.HasPrefix(line, "-A ") || strings.HasPrefix(line, "-I "):
			lines = append(lines, "-t "+table+" "+line)
			rules++
		case strings.HasPrefix(line, "["): // saved with counters: [packets:bytes] -A …
			if _, rule, found := strings.Cut(line, "] "); found {
				lines = append(lines, "-t "+table+" "+rule)
				rules++
			}
		}
	}
	return lines, rules
}

// saveArptables converts the listing of arptables into the save format. It has rules in the form of its arguments,
// below lines "Chain INPUT (policy ACCEPT)".
func saveArptables(listing, table string) string {
	var save strings.Builder
	save.WriteString("*" + table + "\n")
	chain := ""
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		if head, found := strings.CutPrefix(line, "Chain "); found {
			policy := "-"
			chain, head, _ = strings.Cut(head, " ")
			if _, after, found := strings.Cut(head, "policy "); found {
				policy = strings.TrimRight(after, ")")
			}
			save.WriteString(":" + chain + " " + policy + "\n")
		} else if line != "" {
			save.WriteString("-A " + chain + " " + line + "\n")
		}
	}
	return save.String()
}
