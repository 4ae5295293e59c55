// Package survey asks other programs than mpps what stands on a host: sysctl, ethtool, ip, nft, iptables-save, virsh,
// taskset, chrt, swapon, and grep for files that have no program of their own. It shares no code with the mechanisms of
// mpps, and two surveys of an unchanged host are the same byte for byte.
package survey

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

// Script runs a script for bash on the host and returns what it printed.
type Script func(script string) (string, error)

// Survey is what the programs say: one text each, by command line.
type Survey struct{ text map[string]string }

// mark divides the answers of one script. Each program is a fork, which costs an emulated host 65 ms: what can be asked
// together is.
const mark = "@@ "

// RuleSets are the command lines that list rule sets, by tool, without times and counters.
func RuleSets() map[string]string { return maps.Clone(saved) }

// Bridges is the command line that lists bridges without timers and without the state of their links.
func Bridges() string { return bridgeCommand }

// Whole are command lines that tell all of what changes may move besides the values that they are to give: interrupts,
// links, bridges, rule sets, and the files that make values last or that the boot loader reads.
func Whole() []string {
	files := "cd / && find etc/sysctl.d etc/modprobe.d etc/systemd etc/udev/rules.d etc/default etc/kernel boot/grub " +
		"var/lib/mpps/desired.json -type f -exec md5sum {} + | sort"
	return []string{
		"grep -H . /proc/irq/*/smp_affinity_list", "grep -H . /sys/class/net/*/queues/*/[xr]ps_cpus", linksCommand,
		bridgeCommand, files,
		saved["iptables-legacy"], saved["ip6tables-legacy"], saved["nft"],
	}
}

// Take asks all programs that know of the given addresses, and the given command lines besides.
func Take(run Script, addresses []setting.Address, more ...string) (*Survey, error) {
	commands, err := questions(addresses)
	if err != nil {
		return nil, err
	}
	for _, c := range more {
		if !slices.Contains(commands, c) {
			commands = append(commands, c)
		}
	}
	var script strings.Builder
	for i, c := range commands {
		// What a program cannot say of this host (a device without rings) is an answer too.
		fmt.Fprintf(&script, "echo '%s%d'\n{ %s\n} 2>&1\n", mark, i, c)
	}
	out, err := run(script.String())
	if err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	s := &Survey{text: map[string]string{}}
	for _, part := range strings.Split("\n"+out, "\n"+mark)[1:] {
		number, text, _ := strings.Cut(part, "\n")
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(commands) {
			return nil, fmt.Errorf("survey: expected the number of a command, found %q", part)
		}
		s.text[commands[i]] = text
	}
	if len(s.text) != len(commands) {
		return nil, fmt.Errorf("survey: %d answers to %d questions", len(s.text), len(commands))
	}
	return s, nil
}

// Commands are the command lines that were asked, sorted.
func (s *Survey) Commands() []string { return slices.Sorted(maps.Keys(s.text)) }

// Of is the answer of the first command that begins so; false where nobody was asked that.
func (s *Survey) Of(command string) (string, bool) {
	for _, c := range s.Commands() {
		if strings.HasPrefix(c, command) {
			return s.text[c], true
		}
	}
	return "", false
}

// Differences are the commands that answer otherwise than before, each with the first line that differs. A command that
// only one of the two was asked is a difference too.
func (s *Survey) Differences(before *Survey) []string {
	var all []string
	for _, command := range slices.Compact(
		slices.Sorted(slices.Values(slices.Concat(s.Commands(), before.Commands())))) {
		was, asked := before.text[command]
		is, asks := s.text[command]
		if asked && asks && was == is {
			continue
		}
		then, now := strings.Split(was, "\n"), strings.Split(is, "\n")
		for i := range max(len(then), len(now)) {
			if line(then, i) != line(now, i) {
				all = append(all, fmt.Sprintf("%s: line %d was\n\t%s\nand is\n\t%s", command, i+1, line(then, i),
					line(now, i)))
				break
			}
		}
	}
	return all
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// behind is what stands behind the first line that begins with a label; the labels of ethtool end in a colon.
func behind(text, label string) (string, bool) {
	for l := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(l), label); found {
			return strings.Join(strings.Fields(rest), " "), true
		}
	}
	return "", false
}

// questions are the command lines that answer for addresses, in a fixed order.
func questions(addresses []setting.Address) ([]string, error) {
	var sysctls, files, threads []string
	asked := map[string]bool{}
	for _, a := range addresses {
		command, err := question(a)
		switch {
		case err != nil:
			return nil, err
		case command != "":
			asked[command] = true
		case a.Kind == setting.Sysctl:
			sysctls = append(sysctls, a.Path)
		case a.Kind == setting.ThreadSched:
			threads = append(threads, a.Path)
		default:
			files = append(files, fileOf(a))
		}
	}
	commands := slices.Sorted(maps.Keys(asked))
	if len(sysctls) > 0 {
		commands = append(commands, sysctlCommand+strings.Join(sorted(sysctls), " "))
	}
	if len(files) > 0 {
		commands = append(commands, grepCommand+strings.Join(sorted(files), " "))
	}
	if len(threads) > 0 {
		commands = append(commands, threadCommand+"case $c in "+strings.Join(sorted(threads), "|")+
			`) echo "thread $c"; chrt -p $p;; esac; done`)
	}
	return commands, nil
}

func sorted(words []string) []string {
	return slices.Compact(slices.SortedFunc(slices.Values(words), cmp.Compare[string]))
}

// Command lines that answer for several addresses.
const (
	sysctlCommand = "sysctl "
	grepCommand   = "grep -H '' "
	threadCommand = "ps -eo pid=,comm= | while read -r p c; do "
	swapCommand   = "swapon --show=NAME,PRIO --noheadings --raw"
	eventsCommand = "cat /sys/kernel/tracing/set_event"
	// Without timers, and without the state of links, which come up again behind a change.
	bridgeCommand = "ip -o -d link show type bridge | sed -E 's/ ([a-z_]*timer|fdb_n_learned) *[0-9.]*//g; " +
		"s/<[^>]*>//; s/ state [A-Z]+//'"
	menuCommand = "grep -E '^[[:space:]]*(linux|set default=)' /boot/grub/grub.cfg"
	// The CPUs of each kernel thread (PF_KTHREAD) that is not bound for good (PF_NO_SETAFFINITY), each list once:
	// bash's own words alone, since a program for each thread would take seconds. Threads of interrupts follow them,
	// and vhost's are a guest's.
	movableCommand = `for d in /proc/[0-9]*; do read -r s <$d/stat || continue; n=${s#*(}; case $n in irq/*|vhost-*) continue;; esac; set -- ${s##*) }; ` +
		`(( ($7 & 0x200000) && !($7 & 0x4000000) && ${39} != 6 )) || continue; while read -r k v; do [ $k != Cpus_allowed_list: ] || [ -z "$v" ] || echo "$v"; done <$d/status; done 2>/dev/null | sort -u`
	linksCommand = "ip -o link show | sed -E 's/<[^>]*>//; s/ state [A-Z]+//'"
)

// saved are the command lines that list rule sets, without times and counters.
var saved = map[string]string{
	"iptables-legacy":  "iptables-legacy-save | sed '/^#/d;s/ \\[[0-9:]*\\]$//'",
	"ip6tables-legacy": "ip6tables-legacy-save | sed '/^#/d;s/ \\[[0-9:]*\\]$//'",
	"nft":              "nft --stateless list ruleset",
}

// question is the command line that answers for one address, "" where one for several is made of it.
func question(a setting.Address) (string, error) {
	object := a.Object()
	switch a.Kind {
	case setting.Sysctl, setting.ThreadSched, setting.SysfsCPUs, setting.ModuleParam, setting.KSM, setting.IRQAffinity,
		setting.IRQCPUs:
		return "", nil
	case setting.Sysfs:
		switch {
		case strings.HasPrefix(a.Path, "class/net/") && strings.Contains(a.Path, "/bridge/"):
			return bridgeCommand, nil
		case strings.HasSuffix(a.Path, "/tx_queue_len"):
			return linksCommand, nil
		}
		return "", nil
	case setting.RootQdisc:
		return "tc qdisc show dev " + object + " root", nil
	case setting.NICRing:
		return "ethtool -g " + object, nil
	case setting.NICChannels:
		return "ethtool -l " + object, nil
	case setting.NICCoalesce:
		return "ethtool -c " + object, nil
	case setting.NICFeature:
		return "ethtool -k " + object, nil
	case setting.NICFlag:
		return "ethtool --show-priv-flags " + object, nil
	case setting.NICFlowHash:
		return "ethtool -n " + object + " rx-flow-hash " + a.Rest(), nil
	case setting.ThreadAffinity, setting.DomainLive:
		return Threads(object), nil
	case setting.Domain:
		return "virsh dumpxml --inactive " + object, nil
	case setting.Swap:
		return swapCommand, nil
	case setting.TraceEvents:
		return eventsCommand, nil
	case setting.ThreadCPUs:
		return movableCommand, nil
	case setting.VFAttr:
		return "ip link show dev " + object + " | sed -n '/ vf /p'", nil
	case setting.NetfilterRule:
		tool, _, _ := strings.Cut(a.Rest(), "/")
		if command, known := saved[tool]; known {
			return command, nil
		}
	case setting.RuleSet:
		if command, known := saved[a.Path]; known {
			return command, nil
		}
	case setting.KernelArg, setting.BootKernel:
		return menuCommand, nil
	case setting.File:
		return "[ ! -e /" + a.Path + " ] || cat /" + a.Path, nil
	}
	return "", fmt.Errorf("survey: no other program is known that tells %s", a)
}

// Threads is the command line that lists the threads of a guest's QEMU with their CPUs and their names, without QEMU's
// workers, which come and go.
func Threads(guest string) string {
	return "p=$(cat /run/libvirt/qemu/" + guest + ".pid); " +
		"{ ps -L -o tid=,comm= -p $p; echo; taskset -apc $p 2>/dev/null; } | " +
		`awk '!NF {cpus = 1; next} !cpus && $2 != "worker" {keep[$1]; names = names $0 "\n"} ` +
		`cpus && ($2 + 0) in keep; END {printf "%s", names}'`
}

// fileOf is the file that holds the value of an address.
func fileOf(a setting.Address) string {
	switch a.Kind {
	case setting.KSM:
		return "/sys/kernel/mm/ksm/" + a.Path
	case setting.ModuleParam:
		return "/sys/module/" + a.Object() + "/parameters/" + a.Rest()
	case setting.IRQAffinity:
		return "/proc/irq/" + a.Path[strings.LastIndexByte(a.Path, '/')+1:] + "/smp_affinity_list"
	case setting.IRQCPUs:
		if a.Path == "default" {
			return "/proc/irq/default_smp_affinity"
		}
		return "/proc/irq/" + a.Object() + "/smp_affinity_list"
	}
	return "/sys/" + a.Path
}
