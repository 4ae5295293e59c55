//go:build lab

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/setting"
)

// survey is what other programs say of the host: one text each, by command. It answers what stands at an address without
// any code of mpps's mechanisms, and two surveys of an unchanged host are the same byte for byte.
type survey struct {
	text map[string]string
	b    *box
}

// mark divides the answers of one script. Each program is a fork, which costs an emulated host 65 ms.
const mark = "@@ "

// survey asks all programs, of NICs about those that the given addresses name (all where they name none); grep prints files
// below /sys.
func (b *box) survey(addresses ...setting.Address) *survey {
	b.Helper()
	commands := []string{
		`sysctl -a -r '^(net\.core|net\.ipv4\.conf|net\.ipv4\.tcp|net\.bridge|vm|kernel\.(sched|numa))'`,
		"grep -H . /sys/class/net/*/queues/*/xps_cpus /sys/class/net/*/queues/*/rps_cpus",
		"grep -H . /proc/irq/*/smp_affinity_list",
		"iptables-legacy-save | sed '/^#/d;s/ \\[[0-9:]*\\]$//'", // without the time and the counters of policies
		"nft --stateless list ruleset",
		"virsh dumpxml --inactive " + guestName,
		"for f in /run/libvirt/qemu/" + guestName + ".pid; do taskset -apc $(cat $f); ps -L -o tid=,comm= -p $(cat $f); done",
		"ip -o -d link show type bridge | sed -E 's/ ([a-z_]*timer|fdb_n_learned) *[0-9.]*//g'",
	}
	nics := b.nics()
	if named := slices.DeleteFunc(slices.Clone(nics), func(nic string) bool {
		return !slices.ContainsFunc(addresses, func(a setting.Address) bool {
			return a.Object() == nic || strings.HasPrefix(a.Path, "class/net/"+nic+"/")
		})
	}); len(named) > 0 {
		nics = named
	}
	for _, nic := range nics {
		for _, what := range []string{"-l", "-g", "-c", "-k"} {
			commands = append(commands, "ethtool "+what+" "+nic)
		}
		for _, flow := range []string{"udp4", "udp6"} {
			commands = append(commands, "ethtool -n "+nic+" rx-flow-hash "+flow)
		}
	}
	var files []string
	for _, a := range addresses {
		if a.Kind == setting.Sysfs {
			files = append(files, "/sys/"+a.Path)
		}
	}
	if len(files) > 0 {
		slices.Sort(files)
		commands = append(commands, "grep -H '' "+strings.Join(slices.Compact(files), " "))
	}
	var script strings.Builder
	for i, c := range commands {
		// What a program cannot say of this host (a device without rings) is an answer too.
		fmt.Fprintf(&script, "echo '%s%d'\n{ %s; } 2>&1\n", mark, i, c)
	}
	s := &survey{text: map[string]string{}, b: b}
	for _, part := range strings.Split("\n"+b.must(script.String()), "\n"+mark)[1:] {
		number, text, _ := strings.Cut(part, "\n")
		i, err := strconv.Atoi(number)
		if err != nil {
			b.Fatalf("survey: %q", part)
		}
		s.text[commands[i]] = text
	}
	if len(s.text) != len(commands) {
		b.Fatalf("survey: %d answers to %d questions", len(s.text), len(commands))
	}
	return s
}

// nics are the host's NICs with drivers of hardware.
func (b *box) nics() []string {
	return slices.Sorted(maps.Values(b.names))
}

// same requires that two surveys are equal byte for byte.
func (s *survey) same(b *box, before *survey) {
	b.Helper()
	for command, text := range before.text {
		now, asked := s.text[command]
		if !asked || now == text {
			continue
		}
		then, is := strings.Split(text, "\n"), strings.Split(now, "\n")
		for i := range max(len(then), len(is)) {
			if i >= len(then) || i >= len(is) || then[i] != is[i] {
				b.Errorf("%s: line %d was\n\t%s\nand is\n\t%s", command, i+1, strings.Join(then[min(i, len(then)):min(i+1, len(then))], ""),
					strings.Join(is[min(i, len(is)):min(i+1, len(is))], ""))
				break
			}
		}
	}
}

// of is the answer of the first command that begins so.
func (s *survey) of(command string) string {
	s.b.Helper()
	for c, text := range s.text {
		if strings.HasPrefix(c, command) {
			return text
		}
	}
	s.b.Fatalf("survey: nobody was asked %q", command)
	return ""
}

// line is what stands behind the first line that begins with a label; the labels of ethtool end in a colon.
func line(text, label string) (string, bool) {
	for l := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(l), label); found {
			return strings.Join(strings.Fields(rest), " "), true
		}
	}
	return "", false
}

// current is the second half of what ethtool -l and -g print; the first are the maxima.
func current(text string) string {
	_, half, _ := strings.Cut(text, "Current hardware settings:")
	return half
}

// at is the reading at an address as the other program has it, in mpps's canonical form.
func (s *survey) at(a setting.Address) setting.Reading {
	s.b.Helper()
	value, found := s.value(a)
	if !found {
		return setting.Missing("not in what other programs print")
	}
	return setting.Value(value)
}

func (s *survey) value(a setting.Address) (string, bool) {
	object, rest := a.Object(), a.Rest()
	switch a.Kind {
	case setting.Sysctl:
		return line(s.of("sysctl"), a.Path+" = ")
	case setting.Sysfs:
		text, found := line(s.of("grep -H ''"), "/sys/"+a.Path+":")
		if chosen := regexp.MustCompile(`\[(.*?)\]`).FindStringSubmatch(text); chosen != nil {
			text = chosen[1]
		}
		return text, found
	case setting.SysfsCPUs:
		mask, found := line(s.of("grep -H . /sys/class/net"), "/sys/"+a.Path+":")
		return cpus(s.b, mask), found
	case setting.NICChannels:
		return line(current(s.of("ethtool -l "+object)), map[string]string{"combined": "Combined:", "rx": "RX:", "tx": "TX:"}[rest])
	case setting.NICRing:
		return line(current(s.of("ethtool -g "+object)), map[string]string{"rx": "RX:", "tx": "TX:"}[rest])
	case setting.NICCoalesce:
		text := s.of("ethtool -c " + object)
		if rest == "adaptive-rx" || rest == "adaptive-tx" {
			both, found := line(text, "Adaptive RX:")
			f := strings.Fields(both)
			if !found || len(f) != 3 {
				return both, false
			}
			return map[string]string{"adaptive-rx": f[0], "adaptive-tx": f[2]}[rest], true
		}
		return line(text, rest+":")
	case setting.NICFeature:
		name := rest
		if old, renamed := ethtoolNames[rest]; renamed {
			name = old
		}
		value, found := line(s.of("ethtool -k "+object), name+":")
		return strings.TrimSuffix(value, " [fixed]"), found
	case setting.NICFlowHash:
		return flowHash(s.of("ethtool -n " + object + " rx-flow-hash " + rest))
	case setting.IRQAffinity:
		number := a.Path[strings.LastIndex(a.Path, "/")+1:]
		return line(s.of("grep -H . /proc/irq"), "/proc/irq/"+number+"/smp_affinity_list:")
	case setting.ThreadAffinity:
		return s.thread(rest)
	case setting.NetfilterRule:
		return s.rule(rest)
	case setting.Domain:
		return definition(s.b, s.of("virsh dumpxml"), rest)
	}
	s.b.Fatalf("%s: no other program is asked for it", a)
	return "", false
}

// ethtoolNames are the features that ethtool -k calls otherwise than the kernel (ethtool's off_flag_def).
var ethtoolNames = map[string]string{
	"rx-checksum": "rx-checksumming", "rx-gro": "generic-receive-offload", "rx-lro": "large-receive-offload",
	"rx-hashing": "receive-hashing", "rx-ntuple-filter": "ntuple-filters", "rx-vlan-hw-parse": "rx-vlan-offload",
	"tx-vlan-hw-insert": "tx-vlan-offload", "tx-generic-segmentation": "generic-segmentation-offload",
}

// cpus turns a mask of hexadecimal words into a list.
func cpus(b *box, mask string) string {
	bits, err := strconv.ParseUint(strings.ReplaceAll(mask, ",", ""), 16, 64)
	if err != nil {
		b.Fatalf("CPU mask %q: %v", mask, err)
	}
	var set setting.CPUSet
	for cpu := range 64 {
		if bits>>cpu&1 == 1 {
			set = append(set, cpu)
		}
	}
	return set.String()
}

// flowHash turns the sentences of ethtool -n into the letters of ethtool -N.
func flowHash(text string) (string, bool) {
	letters := ""
	for _, f := range []struct{ says, letter string }{
		{"L2DA", "m"}, {"VLAN tag", "v"}, {"L3 proto", "t"}, {"IP SA", "s"}, {"IP DA", "d"}, {"L4 bytes 0 & 1", "f"}, {"L4 bytes 2 & 3", "n"},
	} {
		if strings.Contains(text, f.says) {
			letters += f.letter
		}
	}
	return letters, letters != ""
}

// thread is the affinity of one of the guest's threads: "vcpu/0", "emulator" or "vhost/MAC/QUEUE". Vhost threads are told by
// the order in which they were made, which is that of their numbers; the guest has one NIC.
func (s *survey) thread(role string) (string, bool) {
	text := s.of("for f in")
	affinity := map[int]string{}
	for _, m := range regexp.MustCompile(`pid (\d+)'s current affinity list: (\S*)`).FindAllStringSubmatch(text, -1) {
		tid, _ := strconv.Atoi(m[1])
		affinity[tid] = m[2]
	}
	var qemu int
	var vhost []int
	named := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(\d+) (.+)$`).FindAllStringSubmatch(text, -1) {
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
	var tid int
	switch what, rest, _ := strings.Cut(role, "/"); what {
	case "emulator":
		tid = qemu
	case "vcpu":
		tid = named["CPU "+rest+"/KVM"]
	case "vhost":
		queue, err := strconv.Atoi(strings.TrimPrefix(rest, guestMAC+"/"))
		if err != nil || queue >= len(vhost) {
			return "", false
		}
		tid = vhost[queue]
	}
	list, found := affinity[tid]
	return list, found
}

// rule is where the rule of mpps stands, in the words of the tool that lists the rule set.
func (s *survey) rule(tool string) (string, bool) {
	var rules []string
	switch tool {
	case "iptables-legacy":
		for l := range strings.Lines(s.of("iptables-legacy-save")) {
			if strings.HasPrefix(l, "-A PREROUTING") {
				rules = append(rules, l)
			}
		}
	case "nft":
		_, table, _ := strings.Cut(s.of("nft"), "table ip raw {")
		table, _, _ = strings.Cut(table, "\n}")
		for l := range strings.Lines(table) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "meta ") || strings.HasPrefix(l, "ip ") || strings.HasPrefix(l, "iifname ") {
				rules = append(rules, l)
			}
		}
	}
	if len(rules) == 0 {
		s.b.Errorf("%s: no rules at all in raw PREROUTING", tool)
	}
	at := slices.IndexFunc(rules, func(r string) bool { return strings.Contains(r, `"mpps nflog-skip"`) })
	switch {
	case at < 0:
		return "", false
	case at > 0:
		return "misplaced", true
	case !strings.Contains(rules[0], "253") || !strings.Contains(strings.ToLower(rules[0]), "accept"):
		s.b.Errorf("%s: the rule is %s", tool, rules[0])
	}
	return "present", true
}
