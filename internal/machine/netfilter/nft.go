package netfilter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// nftRules counts the rules of nf_tables over netlink and, where the nft program is installed, reads them as text.
// Where a family's rules were made by an iptables-nft program, that program is named as a back end too.
func nftRules(ctx context.Context, m *tree.Tree, h *facts.Host) (facts.RuleSet, []string, bool) {
	if !m.Live() || !present(m, "nf_tables") {
		return facts.RuleSet{}, nil, false
	}
	rules, err := countNftRules()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return facts.RuleSet{}, nil, false // the kernel was built without
	}
	if err != nil {
		tree.Note(h, facts.RulesUnseen("nft", "", tree.Reason(err)))
		return facts.RuleSet{}, nil, false
	}
	set := facts.RuleSet{Tool: "nft", Rules: len(rules), Lines: []string{}}
	if len(rules) == 0 {
		return set, nil, true
	}
	// -s leaves out counters. The kernel's parts are loaded: they hold rules.
	text, err := m.Command(ctx, "", "nft", "-s", "list", "ruleset")
	if err != nil {
		tree.Note(h, facts.NftTextUnseen(tree.Reason(err)))
	} else {
		set.Lines = parseNft(text)
	}
	if len(set.Lines) > maxRuleLines {
		set.Lines, set.Cut = set.Lines[:maxRuleLines], true
	}
	return set, nftBackends(rules), true
}

// present reports whether a part of the kernel is there, as a module that is loaded or built in, or could not be loaded
// anyhow, so that asking for it loads nothing.
func present(m *tree.Tree, module string) bool {
	if m.Exists("sys/module/" + module) {
		return true
	}
	modules, err := m.Read("proc/modules")
	if err != nil || m.Line("proc/sys/kernel/modules_disabled") == "1" {
		return true // no modules, or none any more: nothing can be loaded
	}
	for line := range strings.Lines(modules) {
		if name, _, _ := strings.Cut(line, " "); name == module {
			return true
		}
	}
	dir := "lib/modules/" + m.Line("proc/sys/kernel/osrelease")
	builtin, err := m.Read(dir + "/modules.builtin")
	if err != nil {
		return !m.Exists(dir + "/modules.dep") // without it modprobe finds nothing
	}
	return strings.Contains(builtin, "/"+module+".ko")
}

// nftRule is where one rule stands.
type nftRule struct {
	family uint8
	table  string
	chain  string
}

// countNftRules lists where every rule of the network namespace stands, in one dump and without reading what the rules
// say (net/netfilter/nf_tables_api.c, nf_tables_dump_rules).
func countNftRules() ([]nftRule, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("netfilter netlink: %w", err)
	}
	defer conn.Close()
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{
			Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE, Flags: netlink.Request | netlink.Dump,
		},
		Data: []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}, // struct nfgenmsg
	})
	if err != nil {
		return nil, fmt.Errorf("list of rules: %w", unwrapNetlink(err))
	}
	rules := make([]nftRule, 0, len(messages))
	for _, message := range messages {
		rule, err := parseNftRule(message.Data)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func parseNftRule(data []byte) (nftRule, error) {
	if len(data) < 4 {
		return nftRule{}, fmt.Errorf("rule message of %d bytes: expected 4 or more", len(data))
	}
	rule := nftRule{family: data[0]}
	ad, err := netlink.NewAttributeDecoder(data[4:])
	if err != nil {
		return nftRule{}, fmt.Errorf("rule message: %w", err)
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_RULE_TABLE:
			rule.table = ad.String()
		case unix.NFTA_RULE_CHAIN:
			rule.chain = ad.String()
		}
	}
	if err := ad.Err(); err != nil {
		return nftRule{}, fmt.Errorf("rule message: %w", err)
	}
	return rule, nil
}

// unwrapNetlink is the kernel's error under a netlink one.
func unwrapNetlink(err error) error {
	var op *netlink.OpError
	if errors.As(err, &op) {
		return tree.Errno(op.Err)
	}
	return err
}

// iptablesTables are the names that the iptables-nft programs give to their tables.
var iptablesTables = []string{"filter", "nat", "mangle", "raw", "security"}

// nftBackends names the tools whose rules these are. The iptables-nft programs name tables as iptables does, and chains
// of the kernel in capitals; hand-written rule sets do neither by custom.
func nftBackends(rules []nftRule) []string {
	var backends []string
	for _, rule := range rules {
		backend := "nft"
		if slices.Contains(iptablesTables, rule.table) && strings.ToUpper(rule.chain) == rule.chain {
			switch rule.family {
			case unix.NFPROTO_IPV4, unix.NFPROTO_IPV6:
				backend = "iptables-nft"
			case unix.NFPROTO_BRIDGE:
				backend = "ebtables-nft"
			case unix.NFPROTO_ARP:
				backend = "arptables-nft"
			}
		}
		if !slices.Contains(backends, backend) {
			backends = append(backends, backend)
		}
	}
	slices.Sort(backends)
	return backends
}

// parseNft turns the nested text of `nft list ruleset` into one line a rule, each with family, table and chain in
// front, as `nft add rule` takes it. Policies that drop are listed as the chain's own line. Sets, maps and objects are
// left out.
func parseNft(text string) []string {
	var lines []string
	var table, chain string
	depth, chainDepth := 0, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		opens := strings.HasSuffix(line, "{")
		switch {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
			continue
		case line == "}":
			if depth == chainDepth {
				chain, chainDepth = "", 0
			}
			depth = max(depth-1, 0)
			continue
		case opens && depth == 0 && fields[0] == "table" && len(fields) >= 4:
			table = fields[1] + " " + fields[2]
		case opens && depth == 1 && fields[0] == "chain" && len(fields) >= 3:
			chain, chainDepth = fields[1], depth+1
		case chain != "" && depth == chainDepth:
			if fields[0] == "type" { // what hook, priority and policy the chain has
				if strings.Contains(line, "policy drop") {
					lines = append(lines, table+" "+chain+" "+line)
				}
				continue
			}
			if fields[0] != "comment" {
				lines = append(lines, table+" "+chain+" "+line)
			}
		}
		if opens {
			depth++
		}
	}
	return lines
}
