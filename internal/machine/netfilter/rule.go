package netfilter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of rules and rule sets.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.NetfilterRule: netfilterRule{m},
		setting.RuleSet:       wholeRules{m},
	}
}

// netfilterRule adds and removes named rules of mpps. The address is the rule's name and its rule set:
//
//	netfilter-rule:nflog-skip/iptables-legacy
//	netfilter-rule:nflog-skip/nft                        table ip raw, chain PREROUTING, where iptables-nft puts it
//	netfilter-rule:nflog-skip/nft/inet/acct/prerouting   another base chain: family, table, chain
//
// nflog-skip is the first rule of raw PREROUTING and accepts everything but IP protocol 253 (for experiments, RFC
// 3692). Packets so skip the accounting rules with target NFLOG after it, which are one per interface and are all
// evaluated for each packet. "Accept" ends that chain only; all later hooks still see the packet. The rule reads as
// present, as misplaced if it is no longer first and so has no effect, or as absent. The chain must exist: without it
// there is nothing to skip, and creating it would leave more behind than the rule.
type netfilterRule struct{ m *tree.Tree }

// The rule's comment, its protocol, and its readings.
const (
	nflogSkip    = "nflog-skip"
	ruleMark     = "mpps " + nflogSkip
	skipProtocol = 253
	rulePresent  = "present"
	ruleMisplace = "misplaced"
)

// ruleSet is a rule set that can have the rule.
type ruleSet interface {
	// state returns present, misplaced or absent.
	state(ctx context.Context) setting.Reading
	// insert makes the rule the first of its chain, drop removes it.
	insert(ctx context.Context) error
	remove(ctx context.Context) error
}

func (n netfilterRule) ruleSet(a setting.Address) (ruleSet, error) {
	elements := strings.Split(a.Path, "/")
	if elements[0] != nflogSkip || len(elements) < 2 {
		return nil, a.Errorf("expected %s/iptables-legacy or %s/nft", nflogSkip, nflogSkip)
	}
	switch {
	case elements[1] == "iptables-legacy" && len(elements) == 2:
		return legacyRule(n), nil
	case elements[1] == "nft" && len(elements) == 2:
		return nftRuleAt{n.m, nftables.TableFamilyIPv4, "raw", "PREROUTING"}, nil
	case elements[1] == "nft" && len(elements) == 5:
		family, known := map[string]nftables.TableFamily{
			"ip": nftables.TableFamilyIPv4, "ip6": nftables.TableFamilyIPv6, "inet": nftables.TableFamilyINet,
		}[elements[2]]
		if known {
			return nftRuleAt{n.m, family, elements[3], elements[4]}, nil
		}
	}
	return nil, a.Errorf("unknown rule set")
}

func (n netfilterRule) Read(ctx context.Context, a setting.Address) setting.Reading {
	if !n.m.Live() {
		return setting.CouldNotTell(tree.ErrNotLive.Error())
	}
	place, err := n.ruleSet(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	ctx, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	return place.state(ctx)
}

func (n netfilterRule) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	wanted := to.String()
	if !n.m.Live() {
		return tree.Refusal(a, wanted, tree.ErrNotLive)
	}
	place, err := n.ruleSet(a)
	if err != nil {
		return err
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	switch {
	case to.State == setting.Absent:
		err = place.remove(ctx)
	case to.State == setting.Known && to.Value == rulePresent:
		err = place.insert(ctx)
	default:
		err = fmt.Errorf("expected %s or absent", rulePresent)
	}
	if err != nil {
		return tree.Refusal(a, wanted, err)
	}
	return nil
}

// ruleReading returns the rule's reading, given which rules of the chain are ours.
func ruleReading(marked []bool) setting.Reading {
	switch slices.Index(marked, true) {
	case -1:
		return setting.Missing("no such rule")
	case 0:
		return setting.Value(rulePresent)
	}
	return setting.Value(ruleMisplace)
}

// legacyRule is the rule in the tables of iptables-legacy.
type legacyRule struct{ m *tree.Tree }

var legacyIPv4 = legacyTools[0]

var errNoRawTable = errors.New("table raw is not loaded, so no rule stands there to pass by")

// legacySkip are the rule's arguments after the chain.
var legacySkip = []string{"!", "-p", fmt.Sprint(skipProtocol), "-m", "comment", "--comment", ruleMark, "-j", "ACCEPT"}

// ownRules reports for each rule of raw PREROUTING whether it is ours.
func (l legacyRule) ownRules(ctx context.Context) ([]bool, error) {
	tables, err := legacyTables(l.m, legacyIPv4)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(tables, "raw") {
		return nil, errNoRawTable
	}
	text, err := saveTable(ctx, l.m, legacyIPv4, "raw")
	if err != nil {
		return nil, err
	}
	return ownLegacyRules(text), nil
}

// ownLegacyRules reports for each rule of raw PREROUTING in iptables-save's format whether it is ours.
func ownLegacyRules(save string) []bool {
	var marks []bool
	lines, _ := parseSave(save, "raw")
	for _, line := range lines {
		if rule, found := strings.CutPrefix(line, "-t raw -A PREROUTING "); found {
			marks = append(marks, strings.Contains(rule, `--comment "`+ruleMark+`"`))
		}
	}
	return marks
}

func (l legacyRule) state(ctx context.Context) setting.Reading {
	marks, err := l.ownRules(ctx)
	if errors.Is(err, errNoRawTable) {
		return setting.Missing(err.Error())
	}
	if err != nil {
		return tree.Unreadable("rule", err)
	}
	return ruleReading(marks)
}

// iptables changes raw PREROUTING; -w waits up to 5 s for another program that holds the lock.
func (l legacyRule) iptables(ctx context.Context, verb ...string) error {
	args := append([]string{"-w", "5", "-t", "raw"}, verb...)
	return l.m.Change(ctx, "", "iptables-legacy", append(args, legacySkip...)...)
}

func (l legacyRule) insert(ctx context.Context) error {
	marks, err := l.ownRules(ctx)
	if err != nil {
		return err
	}
	if len(marks) > 0 && marks[0] {
		return nil
	}
	if err := l.remove(ctx); err != nil { // if it is no longer first
		return err
	}
	return l.iptables(ctx, "-I", "PREROUTING", "1")
}

func (l legacyRule) remove(ctx context.Context) error {
	marks, err := l.ownRules(ctx)
	if errors.Is(err, errNoRawTable) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, mark := range marks {
		if mark {
			if err := l.iptables(ctx, "-D", "PREROUTING"); err != nil {
				return err
			}
		}
	}
	return nil
}

// nftRuleAt is the rule in a chain of nf_tables.
type nftRuleAt struct {
	m      *tree.Tree
	family nftables.TableFamily
	table  string
	chain  string
}

var errNoChain = errors.New("there is no such chain, so no rule stands there to pass by")

// open returns a connection, the chain and its rules.
func (n nftRuleAt) open() (*nftables.Conn, *nftables.Chain, []*nftables.Rule, error) {
	if !present(n.m, "nf_tables") {
		return nil, nil, nil, errNoChain
	}
	conn, err := nftables.New()
	if err != nil {
		return nil, nil, nil, err
	}
	chains, err := conn.ListChainsOfTableFamily(n.family)
	if err != nil {
		return nil, nil, nil, tree.Netlink(err)
	}
	for _, chain := range chains {
		if chain.Table.Name == n.table && chain.Name == n.chain {
			chain.Table.Family = n.family
			rules, err := conn.GetRules(chain.Table, chain)
			if err != nil {
				return nil, nil, nil, tree.Netlink(err)
			}
			return conn, chain, rules, nil
		}
	}
	return nil, nil, nil, errNoChain
}

func isOurs(rule *nftables.Rule) bool {
	comment, found := userdata.GetString(rule.UserData, userdata.TypeComment)
	return found && strings.TrimRight(comment, "\x00") == ruleMark
}

func (n nftRuleAt) state(ctx context.Context) setting.Reading {
	answer := make(chan setting.Reading, 1)
	err := setting.Within(ctx, func() error {
		_, _, rules, err := n.open()
		if err != nil {
			return err
		}
		marks := make([]bool, len(rules))
		for i, rule := range rules {
			marks[i] = isOurs(rule)
		}
		answer <- ruleReading(marks)
		return nil
	})
	if errors.Is(err, errNoChain) {
		return setting.Missing(err.Error())
	}
	if err != nil {
		return tree.Unreadable("rule", err)
	}
	return <-answer
}

// insert removes our rules and inserts the rule at the head, in one transaction.
func (n nftRuleAt) insert(ctx context.Context) error {
	return setting.Within(ctx, func() error {
		conn, chain, rules, err := n.open()
		if err != nil {
			return err
		}
		if len(rules) > 0 && isOurs(rules[0]) {
			return nil
		}
		if err := deleteOurs(conn, rules); err != nil {
			return err
		}
		conn.InsertRule(&nftables.Rule{
			Table: chain.Table, Chain: chain,
			Exprs: []expr.Any{
				&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
				&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{skipProtocol}},
				&expr.Verdict{Kind: expr.VerdictAccept},
			},
			UserData: userdata.AppendString(nil, userdata.TypeComment, ruleMark),
		})
		return conn.Flush()
	})
}

func (n nftRuleAt) remove(ctx context.Context) error {
	return setting.Within(ctx, func() error {
		conn, _, rules, err := n.open()
		if errors.Is(err, errNoChain) {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(rules, isOurs) {
			return nil
		}
		if err := deleteOurs(conn, rules); err != nil {
			return err
		}
		return conn.Flush()
	})
}

func deleteOurs(conn *nftables.Conn, rules []*nftables.Rule) error {
	for _, rule := range rules {
		if isOurs(rule) {
			if err := conn.DelRule(rule); err != nil {
				return err
			}
		}
	}
	return nil
}
