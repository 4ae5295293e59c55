package survey

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

// At is the reading at an address as the other program has it, in mpps's canonical form. The error says that nobody was
// asked, or that the answer is not one.
func (s *Survey) At(a setting.Address) (setting.Reading, error) {
	value, found, err := s.value(a)
	switch {
	case err != nil:
		return setting.Reading{}, fmt.Errorf("%s: %w", a, err)
	case !found:
		return setting.Missing("not in what other programs print"), nil
	}
	return setting.Value(value), nil
}

var chosen = regexp.MustCompile(`\[(.*?)\]`)

func (s *Survey) value(a setting.Address) (value string, found bool, err error) {
	text, err := s.answer(a)
	if err != nil {
		return "", false, err
	}
	object, rest := a.Object(), a.Rest()
	switch a.Kind {
	case setting.Sysctl:
		value, found = behind(text, a.Path+" = ")
	case setting.Sysfs:
		return s.sysfs(a, text)
	case setting.ModuleParam, setting.KSM, setting.IRQAffinity:
		value, found = behind(text, fileOf(a)+":")
	case setting.SysfsCPUs, setting.IRQCPUs:
		if value, found = behind(text, fileOf(a)+":"); found && !strings.HasSuffix(fileOf(a), "_list") {
			value, err = cpus(value)
		}
	case setting.NICChannels:
		value, found = behind(current(text), map[string]string{"combined": "Combined:", "rx": "RX:", "tx": "TX:"}[rest])
	case setting.RootQdisc: // "qdisc fq_codel 8001: root refcnt 2 …"; 0: is the kernel's own choice
		if words := strings.Fields(text); len(words) > 2 && words[0] == "qdisc" {
			kind, handle := words[1], words[2]
			value, found = kind+" "+handle, true
			if kind == setting.NoQueue {
				value = kind
			} else if handle == "0:" {
				value = "default " + kind
			}
		}
	case setting.NICRing:
		value, found = behind(current(text), map[string]string{"rx": "RX:", "tx": "TX:"}[rest])
	case setting.NICCoalesce:
		value, found = coalesce(text, rest)
	case setting.NICFeature:
		value, found = behind(text, nameOf(rest)+":")
		value = strings.TrimSuffix(value, " [fixed]")
	case setting.NICFlag:
		value, found = behind(text, rest)
		value = strings.TrimSpace(strings.TrimPrefix(value, ":"))
	case setting.NICFlowHash:
		value, found = flowHash(text)
	case setting.ThreadAffinity:
		value, found = thread(text, rest)
	case setting.DomainLive:
		element, number, numbered := strings.Cut(rest, "/")
		if role := strings.TrimSuffix(element, "pin"); numbered {
			value, found = thread(text, role+"/"+number)
		} else {
			value, found = thread(text, role)
		}
	case setting.ThreadSched:
		value, found = policy(text, a.Path)
	case setting.ThreadCPUs:
		var all setting.CPUSet
		for list := range strings.FieldsSeq(text) {
			one, wrong := setting.ParseCPUs(list)
			all, err = all.Or(one), errors.Join(err, wrong)
		}
		value, found = all.String(), len(all) > 0
	case setting.Swap:
		value, found = swap(text, "/"+a.Path), true
	case setting.TraceEvents:
		value, found = strings.Join(slices.Sorted(slices.Values(strings.Fields(text))), " "), true
		if value == "" {
			value = "none"
		}
	case setting.VFAttr:
		number, attribute, _ := strings.Cut(rest, "/")
		value, found = function(text, number, attribute)
	case setting.NetfilterRule:
		return rule(text, object, rest)
	case setting.RuleSet:
		value, found = text, strings.Contains("\n"+text, "\n-A ") || strings.HasPrefix(text, "table ")
	case setting.KernelArg:
		value, found = argument(text, a.Path)
	case setting.BootKernel:
		value, found = defaultKernel(text)
	case setting.File:
		value, found = text+"\n", text != ""
	case setting.Domain:
		return definition(text, rest)
	default:
		err = fmt.Errorf("a value of kind %s is in no other program's answer", a.Kind)
	}
	return value, found, err
}

// answer is the text in which the value of an address stands.
func (s *Survey) answer(a setting.Address) (string, error) {
	command, err := question(a)
	if err != nil {
		return "", err
	}
	switch {
	case command != "":
		if text, asked := s.text[command]; asked {
			return text, nil
		}
		return "", fmt.Errorf("nobody was asked %q", command)
	case a.Kind == setting.Sysctl:
		command = sysctlCommand
	case a.Kind == setting.ThreadSched:
		command = threadCommand
	default:
		command = "grep -H "
	}
	var all strings.Builder
	for _, c := range s.Commands() {
		if strings.HasPrefix(c, command) {
			all.WriteString(s.text[c] + "\n")
		}
	}
	if all.Len() == 0 {
		return "", fmt.Errorf("nobody was asked %q", command)
	}
	return all.String(), nil
}

// sysfs is the value of a file that ip tells too, or of the file.
func (s *Survey) sysfs(a setting.Address, text string) (string, bool, error) {
	elements := strings.Split(a.Path, "/")
	name := elements[len(elements)-1]
	if strings.HasPrefix(a.Path, "class/net/") && (name == "tx_queue_len" || elements[len(elements)-2] == "bridge") {
		word := map[string]string{"tx_queue_len": "qlen", "multicast_snooping": "mcast_snooping"}[name]
		if word == "" {
			word = name
		}
		match := regexp.MustCompile(`(?m)^\d+: ` + regexp.QuoteMeta(elements[2]) + `(?:@\S+)?: .* ` + word +
			` (\d+)`).FindStringSubmatch(text)
		if match == nil {
			return "", false, nil
		}
		return match[1], true, nil
	}
	value, found := behind(text, fileOf(a)+":")
	if match := chosen.FindStringSubmatch(value); match != nil {
		value = match[1]
	}
	return value, found, nil
}

// current is the second half of what ethtool -l and -g print; the first are the maxima.
func current(text string) string {
	_, half, _ := strings.Cut(text, "Current hardware settings:")
	return half
}

// coalesce reads ethtool -c, which has both switches in one line.
func coalesce(text, field string) (string, bool) {
	if field != "adaptive-rx" && field != "adaptive-tx" {
		return behind(text, field+":")
	}
	both, found := behind(text, "Adaptive RX:") // "off  TX: off"
	words := strings.Fields(both)
	if !found || len(words) != 3 {
		return both, false
	}
	return map[string]string{"adaptive-rx": words[0], "adaptive-tx": words[2]}[field], true
}

// names are the features that ethtool -k calls otherwise than the kernel (ethtool's off_flag_def).
var names = map[string]string{
	"rx-checksum": "rx-checksumming", "rx-gro": "generic-receive-offload", "rx-lro": "large-receive-offload",
	"rx-hashing": "receive-hashing", "rx-ntuple-filter": "ntuple-filters", "rx-vlan-hw-parse": "rx-vlan-offload",
	"tx-vlan-hw-insert": "tx-vlan-offload", "tx-generic-segmentation": "generic-segmentation-offload",
}

func nameOf(feature string) string {
	if old, renamed := names[feature]; renamed {
		return old
	}
	return feature
}

// cpus turns a mask of hexadecimal words into a list.
func cpus(mask string) (string, error) {
	bits, err := strconv.ParseUint(strings.ReplaceAll(mask, ",", ""), 16, 64)
	if err != nil {
		return "", fmt.Errorf("CPU mask: %w", err)
	}
	var set setting.CPUSet
	for cpu := range 64 {
		if bits>>cpu&1 == 1 {
			set = append(set, cpu)
		}
	}
	return set.String(), nil
}

// flowHash turns the sentences of ethtool -n into the letters of ethtool -N.
func flowHash(text string) (string, bool) {
	letters := ""
	for _, f := range []struct{ says, letter string }{
		{"L2DA", "m"}, {"VLAN tag", "v"}, {"L3 proto", "t"}, {"IP SA", "s"}, {"IP DA", "d"}, {"L4 bytes 0 & 1", "f"},
		{"L4 bytes 2 & 3", "n"},
	} {
		if strings.Contains(text, f.says) {
			letters += f.letter
		}
	}
	return letters, letters != ""
}
