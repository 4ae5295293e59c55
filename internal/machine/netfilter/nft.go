package netfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// nftRules lists the rules of nf_tables over netlink and, if the nft program is installed, reads them as text. It is
// false if the kernel has no nf_tables.
func nftRules(ctx context.Context, m *tree.Tree, h *facts.Host) (facts.RuleSet, []nftRule, bool) {
	if !m.Live() || !present(m, "nf_tables") {
		return facts.RuleSet{}, nil, false
	}
	rules, err := listNftRules(ctx)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return facts.RuleSet{}, nil, false // the kernel was built without nf_tables
	}
	if err != nil {
		tree.Note(h, facts.RulesUnseen("nft", "", tree.Reason(err)))
		return facts.RuleSet{}, nil, false
	}
	set := facts.RuleSet{Tool: "nft", Rules: len(rules), Lines: []string{}}
	if len(rules) == 0 {
		return set, rules, true
	}
	// -s leaves out counters. This loads no module: the kernel has rules already.
	text, err := m.Command(ctx, "nft", "-s", "list", "ruleset")
	if err != nil {
		tree.Note(h, facts.NftTextUnseen(tree.Reason(err)))
	} else {
		set.Lines = parseNft(text)
	}
	return cut(set), rules, true
}

// present reports whether using a part of the kernel loads no module: it is loaded, built in, or cannot be loaded.
func present(m *tree.Tree, module string) bool {
	if m.Exists("sys/module/" + module) {
		return true
	}
	modules, err := m.Read("proc/modules")
	if err != nil || m.Line("proc/sys/kernel/modules_disabled") == "1" {
		return true // the kernel has no modules, or loads none any more
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

// nftRule is the place of one rule, and whether it is source NAT.
type nftRule struct {
	family uint8
	table  string
	chain  string
	nat    bool
}

// listNftRules returns every rule in the network namespace, from one dump (net/netfilter/nf_tables_api.c,
// nf_tables_dump_rules). The dump ends with the context, or after tree.ReadPatience.
func listNftRules(ctx context.Context) ([]nftRule, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("netfilter netlink: %w", err)
	}
	defer conn.Close()
	ctx, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	if latest, limited := ctx.Deadline(); limited {
		_ = conn.SetDeadline(latest) // a netlink socket has deadlines
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{
			Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE, Flags: netlink.Request | netlink.Dump,
		},
		Data: []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}, // struct nfgenmsg
	})
	if err != nil {
		return nil, fmt.Errorf("list of rules: %w", tree.Netlink(err))
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
		case unix.NFTA_RULE_EXPRESSIONS:
			ad.Nested(rule.parseExpressions)
		}
	}
	if err := ad.Err(); err != nil {
		return nftRule{}, fmt.Errorf("rule message: %w", err)
	}
	return rule, nil
}

// parseExpressions looks for source NAT among a rule's expressions (net/netfilter/nft_masq.c, nft_nat.c, nft_compat.c).
// That of the bridge family rewrites MAC addresses.
func (r *nftRule) parseExpressions(list *netlink.AttributeDecoder) error {
	for list.Next() {
		list.Nested(func(ad *netlink.AttributeDecoder) error {
			name := ""
			for ad.Next() {
				switch ad.Type() {
				case unix.NFTA_EXPR_NAME:
					name = ad.String()
				case unix.NFTA_EXPR_DATA:
					data := map[uint16][]byte{}
					ad.Nested(func(ad *netlink.AttributeDecoder) error {
						for ad.Next() {
							data[ad.Type()] = ad.Bytes()
						}
						return nil
					})
					r.nat = r.nat || r.family != unix.NFPROTO_BRIDGE && isSourceNAT(name, data)
				}
			}
			return nil
		})
	}
	return nil
}

// nftaTargetName is NFTA_TARGET_NAME (include/uapi/linux/netfilter/nf_tables_compat.h).
const nftaTargetName = 1

// isSourceNAT reports whether an expression rewrites source addresses. "target" is a target of iptables.
func isSourceNAT(expression string, data map[uint16][]byte) bool {
	switch expression {
	case "masq":
		return true
	case "nat":
		kind := data[unix.NFTA_NAT_TYPE]
		return len(kind) == 4 && binary.BigEndian.Uint32(kind) == unix.NFT_NAT_SNAT
	case "target":
		return slices.Contains(sourceNAT, strings.TrimRight(string(data[nftaTargetName]), "\x00"))
	}
	return false
}

// iptablesTables are the names of the iptables-nft programs' tables.
var iptablesTables = []string{"filter", "nat", "mangle", "raw", "security"}

// nftBackends returns the tools that made these rules, sorted. The iptables-nft programs use iptables' table names and
// built-in chains in capitals; hand-written rule sets usually do neither.
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

// parseNft converts the nested text of `nft list ruleset` into one line per rule, with family, table and chain in
// front, as for `nft add rule`. A drop policy is listed as the chain's own line. Sets, maps and objects are left out.
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
			if fields[0] == "type" { // the chain's hook, priority and policy
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
