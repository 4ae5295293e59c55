package survey

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

var (
	affinityLine = regexp.MustCompile(`pid (\d+)'s current affinity list: (\S*)`)
	threadLine   = regexp.MustCompile(`(?m)^\s*(\d+) (.+)$`)
	policyLine   = regexp.MustCompile(`scheduling policy: (SCHED_\w+)`)
	priorityLine = regexp.MustCompile(`scheduling priority: (\d+)`)
)

// thread is the affinity of one of a guest's threads: "vcpu/0", "emulator" or "vhost/MAC/QUEUE". Vhost threads are told
// by the order in which they were made, which is that of their numbers: of a guest of which one NIC has vhost.
func thread(text, role string) (string, bool) {
	affinity := map[int]string{}
	for _, m := range affinityLine.FindAllStringSubmatch(text, -1) {
		tid, _ := strconv.Atoi(m[1])
		affinity[tid] = m[2]
	}
	var qemu int
	var vhost []int
	named := map[string]int{}
	for _, m := range threadLine.FindAllStringSubmatch(text, -1) {
		tid, _ := strconv.Atoi(m[1])
		if qemu == 0 || tid < qemu {
			qemu = tid
		}
		named[m[2]] = tid
		if strings.HasPrefix(m[2], "vhost-") {
			vhost = append(vhost, tid)
		}
	}
	slices.Sort(vhost)
	tid := 0
	switch what, rest, _ := strings.Cut(role, "/"); what {
	case "emulator":
		tid = qemu
	case "vcpu":
		tid = named["CPU "+rest+"/KVM"]
	case "vhost":
		queue, err := strconv.Atoi(rest[strings.LastIndexByte(rest, '/')+1:])
		if err != nil || queue >= len(vhost) {
			return "", false
		}
		tid = vhost[queue]
	}
	list, found := affinity[tid]
	return list, found
}

// policy is how a kernel thread is scheduled, in the words of chrt.
func policy(text, name string) (string, bool) {
	_, own, found := strings.Cut("\n"+text, "\nthread "+name+"\n")
	own, _, _ = strings.Cut(own, "\nthread ")
	match := policyLine.FindStringSubmatch(own)
	if !found || match == nil {
		return "", false
	}
	if priority := priorityLine.FindStringSubmatch(own); priority != nil && priority[1] != "0" {
		return match[1] + " " + priority[1], true
	}
	return match[1], true
}

// swap is what swapon --show says of an area.
func swap(text, name string) string {
	for l := range strings.Lines(text) {
		words := strings.Fields(l)
		if len(words) != 2 || words[0] != name {
			continue
		}
		if strings.HasPrefix(words[1], "-") {
			return "on"
		}
		return "on " + words[1]
	}
	return "off"
}

// function is an attribute of a virtual function in the line that ip link has for it. Rates and VLANs of 0 are not
// shown.
func function(text, number, attribute string) (string, bool) {
	own := ""
	for l := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(l), "vf "+number+" ") {
			own = l
		}
	}
	if own == "" {
		return "", false
	}
	words := map[string]string{
		"mac": `link/ether (\S+)`, "vlan": `, vlan (\d+)`, "qos": `, qos (\d+)`, "max_tx_rate": `max_tx_rate (\d+)`,
		"min_tx_rate": `min_tx_rate (\d+)`,
		"spoofchk":    `spoof checking (on|off)`, "trust": `trust (on|off)`, "link_state": `link-state (\w+)`,
	}[attribute]
	match := regexp.MustCompile(words).FindStringSubmatch(own)
	switch {
	case match != nil:
		return match[1], true
	case strings.HasSuffix(attribute, "_rate"), attribute == "vlan", attribute == "qos":
		return "0", true
	}
	return "", false
}

// rule is where the rule of mpps stands in raw PREROUTING, in the words of the tool that lists the rule set.
func rule(text, name, tool string) (string, bool, error) {
	var rules []string
	switch tool {
	case "iptables-legacy":
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, "-A PREROUTING") {
				rules = append(rules, l)
			}
		}
	case "nft":
		_, table, _ := strings.Cut(text, "table ip raw {")
		table, _, _ = strings.Cut(table, "\n}")
		for l := range strings.Lines(table) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "meta ") || strings.HasPrefix(l, "ip ") ||
				strings.HasPrefix(l, "iifname ") {
				rules = append(rules, l)
			}
		}
	}
	at := slices.IndexFunc(rules, func(r string) bool { return strings.Contains(r, `"mpps `+name+`"`) })
	switch {
	case len(rules) == 0:
		return "", false, fmt.Errorf("%s: no rules at all in raw PREROUTING", tool)
	case at < 0:
		return "", false, nil
	case at > 0:
		return "misplaced", true, nil
	case !strings.Contains(rules[0], "253") || !strings.Contains(strings.ToLower(rules[0]), "accept"):
		return "", false, fmt.Errorf("%s: the rule is %s", tool, rules[0])
	}
	return setting.Flag, true, nil
}
