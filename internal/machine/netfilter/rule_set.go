package netfilter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// wholeRules reads all rules of one tool as text that the tool can restore, flushes them, and restores them.
type wholeRules struct{ m *tree.Tree }

// maxRuleSet is the most bytes of a rule set's text, which journals store.
const maxRuleSet = 4 << 20

var errManagedRules = errors.New("some of these rules were made by iptables-nft, and nft cannot read back what it " +
	"prints of them")

func (s wholeRules) Read(ctx context.Context, a setting.Address) setting.Reading {
	if !s.m.Live() {
		return setting.CouldNotTell(tree.ErrNotLive.Error())
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	text, empty, err := s.save(ctx, a.Path)
	switch {
	case errors.Is(err, errManagedRules), errors.Is(err, errBeyondRestore):
		r := setting.Value(text)
		r.ReadOnly, r.Why = true, err.Error()
		return r
	case err != nil:
		return tree.Unreadable("rules of "+a.Path, err)
	case empty:
		return setting.Missing("no rules")
	case len(text) > maxRuleSet:
		return setting.CouldNotTell(fmt.Sprintf("rules of %s: %d bytes are too many to keep in a journal", a.Path,
			len(text)))
	}
	return setting.Value(text)
}

// save returns a tool's rules, and whether there are none.
func (s wholeRules) save(ctx context.Context, tool string) (text string, empty bool, err error) {
	if tool == "nft" {
		if text, err = s.m.Command(ctx, "nft", "-s", "list", "ruleset"); err != nil {
			return "", false, err
		}
		text, err = setting.Kinds[setting.RuleSet].Canonical(text)
		if err == nil && (strings.Contains(text, "is managed by iptables-nft") ||
			strings.Contains(text, "\txt match ") || strings.Contains(text, " xt target ")) {
			err = errManagedRules
		}
		return text, text == "", err
	}
	legacy, known := s.legacy(tool)
	if !known {
		return "", false, fmt.Errorf("expected iptables-legacy, ip6tables-legacy, ebtables-legacy or nft, found %q",
			tool)
	}
	tables, err := legacyTables(s.m, legacy)
	if err != nil {
		return "", false, err
	}
	var all strings.Builder
	var lost error
	empty = true
	for _, table := range tables {
		saved, err := saveTable(ctx, s.m, legacy, table)
		if err != nil {
			return "", false, err
		}
		var part string
		var none bool
		if legacy.tool == "ebtables-legacy" {
			part, none, err = bridgeRules(saved, table)
			lost = errors.Join(lost, err)
		} else {
			part, none = withoutCounters(saved)
		}
		all.WriteString(part)
		empty = empty && none
	}
	return strings.TrimSpace(all.String()), empty, lost
}

func (s wholeRules) legacy(tool string) (legacyTool, bool) {
	for _, known := range legacyTools {
		if known.tool == tool && known.tool != "arptables-legacy" {
			return known, true
		}
	}
	return legacyTool{}, false
}

// withoutCounters returns a saved table without comments, which have the time, and with zero counters; and whether it
// is empty: no rule, no user-defined chain, and only ACCEPT policies.
func withoutCounters(saved string) (text string, empty bool) {
	var b strings.Builder
	empty = true
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, ":"):
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[1] != "ACCEPT" {
				empty = false
			}
			line = strings.Join(fields[:min(2, len(fields))], " ") + " [0:0]"
		case strings.HasPrefix(line, "*"), line == "COMMIT":
		default:
			empty = false
		}
		b.WriteString(line + "\n")
	}
	return b.String(), empty
}

// emptyTables returns a saved rule set reduced to its built-in chains with ACCEPT policies.
func emptyTables(saved string) string {
	var b strings.Builder
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "*"), line == "COMMIT":
			b.WriteString(line + "\n")
		case strings.HasPrefix(line, ":") && len(fields) >= 2 && fields[1] != "-":
			b.WriteString(fields[0] + " ACCEPT [0:0]\n")
		}
	}
	return b.String()
}

// Write replaces a whole rule set by a saved one, or flushes it if the reading is absent. The tools do that in one
// transaction (x_tables and ebtables: one per table), so that no packet sees half of a table.
func (s wholeRules) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if to.State == setting.Unknown {
		return a.Errorf("an unknown rule set cannot be written")
	}
	if !s.m.Live() {
		return a.Errorf("%w", tree.ErrNotLive)
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	before, none, err := s.save(ctx, a.Path)
	if err != nil {
		return a.Errorf("%w", err)
	}
	if none && to.State == setting.Absent {
		return nil
	}
	switch {
	case a.Path == "nft" && to.State == setting.Absent:
		err = s.m.Change(ctx, "flush ruleset\n", "nft", "-f", "-")
	case a.Path == "nft":
		err = s.m.Change(ctx, "flush ruleset\n"+to.Value+"\n", "nft", "-f", "-")
	case to.State == setting.Absent:
		err = s.m.Change(ctx, emptyTables(before), a.Path+"-restore")
	default:
		err = s.m.Change(ctx, to.Value+"\n", a.Path+"-restore")
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	return nil
}
