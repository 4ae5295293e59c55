package knob

import (
	"fmt"
	"strings"

	"mpps/internal/model/facts"
)

// rule is one line of a facts.RuleSet, parsed as far as needed to follow packets through chains.
type rule struct {
	line    string
	chain   string   // table and chain
	base    string   // the kernel's hook, if the chain is named after one, in lower case: input, forward …
	targets []string // chains that it jumps or goes to
}

// parseRule parses a line of the save format ("-t filter -A FORWARD … -j LOG") or of nft ("ip filter FORWARD …").
func parseRule(tool, line string) (r rule, family string, ok bool) {
	fields := strings.Fields(line)
	r.line = line
	var table, chain string
	if tool == "nft" {
		if len(fields) < 3 {
			return r, "", false
		}
		family, table, chain = fields[0], fields[1], fields[2]
		fields = fields[3:]
	} else {
		family = strings.TrimSuffix(tool, "-legacy")
		for i := 0; i+1 < len(fields); i++ {
			switch fields[i] {
			case "-t":
				table = fields[i+1]
			case "-A", "-I", "-P":
				if chain == "" {
					chain = fields[i+1]
				}
			}
		}
		if chain == "" {
			return r, family, false
		}
	}
	r.chain, r.base = table+" "+chain, strings.ToLower(chain)
	for i := 0; i+1 < len(fields); i++ {
		switch fields[i] {
		case "-j", "-g", "jump", "goto":
			r.targets = append(r.targets, table+" "+strings.Trim(fields[i+1], ",;{}"))
		}
	}
	return r, family, true
}

// bridgedRules returns the rules that bridged frames traverse because br_netfilter hands them to one family of hooks
// (iptables, ip6tables or arptables): those in chains reached from a hook other than input and output, which bridged
// frames do not pass. Rules of the bridge family apply whatever br_netfilter does and are not listed. Rules that could
// not be read have a line that says so.
func bridgedRules(h *facts.Host, tool string) []string {
	var listed []string
	for _, u := range h.Unseen {
		if u.Part == facts.UnseenRules && (u.Of == "nft" || strings.HasPrefix(u.Of, tool)) {
			listed = append(listed, fmt.Sprintf("unknown: %s could not be seen (%s)", u.What, u.Why))
		}
	}
	for _, set := range h.Netfilter.Rules {
		if set.Tool != "nft" && set.Tool != tool && !strings.HasPrefix(set.Tool, tool+"-") {
			continue
		}
		var rules []rule
		for _, line := range set.Lines {
			r, family, ok := parseRule(set.Tool, line)
			if !ok {
				r = rule{line: line, chain: "? ?", base: "?"} // not understood: counts as reached
			}
			if set.Tool != "nft" || familySees(family, tool) || !ok {
				rules = append(rules, r)
			}
		}
		for _, line := range reachableLines(rules) {
			listed = append(listed, set.Tool+": "+line)
		}
		if set.Rules > 0 && len(set.Lines) == 0 {
			listed = append(listed,
				fmt.Sprintf("unknown: %s of %s, whose text was not recorded", Count(set.Rules, "rule"), set.Tool))
		}
		if set.Cut {
			listed = append(listed,
				fmt.Sprintf("%s: only the first %d of %d rules were recorded", set.Tool, len(set.Lines), set.Rules))
		}
	}
	return listed
}

// familySees reports whether rules of an nft family see what bridge-nf-call-TOOL hands over.
func familySees(family, tool string) bool {
	switch family {
	case "ip":
		return tool == "iptables"
	case "ip6":
		return tool == "ip6tables"
	case "inet":
		return tool != "arptables"
	case "arp":
		return tool == "arptables"
	case "bridge", "netdev":
		return false
	}
	return true
}

// reachableLines returns the lines of rules in chains that can be reached without passing input or output. A chain that
// no rule jumps to counts as a base chain.
func reachableLines(rules []rule) []string {
	entered := map[string]bool{}
	for _, r := range rules {
		entered[r.chain] = r.base != "input" && r.base != "output"
	}
	for _, r := range rules {
		for _, to := range r.targets {
			entered[to] = false
		}
	}
	for grew := true; grew; {
		grew = false
		for _, r := range rules {
			if !entered[r.chain] {
				continue
			}
			for _, to := range r.targets {
				if !entered[to] {
					entered[to], grew = true, true
				}
			}
		}
	}
	var lines []string
	for _, r := range rules {
		if entered[r.chain] {
			lines = append(lines, r.line)
		}
	}
	return lines
}

// rawPrerouting returns one tool's IPv4 rules in raw PREROUTING: those that log for accounting, and the others except
// mpps's own rule.
func rawPrerouting(h *facts.Host, tool string) (accounting, others []string) {
	for _, set := range h.Netfilter.Rules {
		if set.Tool != tool {
			continue
		}
		for _, line := range set.Lines {
			r, family, ok := parseRule(tool, line)
			if !ok || r.chain != "raw PREROUTING" || tool == "nft" && family != "ip" || strings.Contains(line,
				"mpps nflog-skip") {
				continue
			}
			if strings.Contains(line,
				"-j NFLOG") || strings.Contains(line, "log ") && strings.Contains(line, "group ") {
				accounting = append(accounting, line)
			} else {
				others = append(others, line)
			}
		}
	}
	return accounting, others
}
