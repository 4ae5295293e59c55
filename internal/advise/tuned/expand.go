package tuned

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

// variables are those that a profile has defined so far.
type variables struct {
	machine Machine
	known   map[string]string
}

// define sets a variable. One that holds what is not known is not known either, and keeps no older value.
func (v *variables) define(name, raw string) {
	if name == "" {
		return
	}
	value, ok := v.expand(raw)
	if !ok {
		delete(v.known, name)
		return
	}
	v.known[name] = value
}

// maxNesting bounds how deep functions stand in each other.
const maxNesting = 16

// expand fills in ${NAME} and ${f:FUNCTION:ARGUMENT…}; ok is false where one of them is not known.
func (v *variables) expand(text string) (value string, ok bool) { return v.fill(text, maxNesting) }

func (v *variables) fill(text string, depth int) (string, bool) {
	if depth == 0 {
		return "", false
	}
	var out strings.Builder
	ok := true
	for i := 0; i < len(text); {
		if !strings.HasPrefix(text[i:], "${") {
			out.WriteByte(text[i])
			i++
			continue
		}
		end := closing(text[i:])
		if end < 0 {
			return "", false
		}
		inner := text[i+2 : i+end]
		i += end + 1
		if written := out.String(); strings.HasSuffix(written, `\`) { // not to be filled in
			out.Reset()
			out.WriteString(strings.TrimRight(written, `\`) + "${" + inner + "}")
			continue
		}
		filled, good := v.one(inner, depth)
		ok = ok && good
		out.WriteString(filled)
	}
	return out.String(), ok
}

// closing is the place of the brace that ends the "${" at the beginning of a text; −1 where there is none.
func closing(text string) int {
	open := 0
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			open++
			i++
		case text[i] == '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// one is the value of what stands between "${" and "}".
func (v *variables) one(inner string, depth int) (string, bool) {
	call, is := strings.CutPrefix(inner, "f:")
	if !is {
		value, known := v.known[inner]
		return value, known
	}
	filled, ok := v.fill(call, depth-1)
	if !ok {
		return "", false
	}
	arguments := splitArguments(filled)
	return v.call(arguments[0], arguments[1:])
}

// splitArguments splits at colons but for those behind a backslash.
func splitArguments(text string) []string {
	parts := strings.Split(strings.ReplaceAll(text, `\:`, "\x00"), ":")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", ":")
	}
	return parts
}

// call is what a function of TuneD answers (tuned/profiles/functions); false for those that are not known here.
func (v *variables) call(name string, arguments []string) (string, bool) {
	all := strings.Trim(strings.Join(arguments, ","), ",")
	cpus, err := setting.ParseCPUs(all)
	switch name {
	case "assertion", "assertion_non_equal", "log":
		return "", true
	case "strip":
		return strings.TrimSpace(strings.Join(arguments, "")), true
	case "check_net_queue_count": // what is no number is asked of nproc
		n, err := strconv.ParseUint(all, 10, 16)
		return strconv.FormatUint(n, 10), err == nil
	case "regex_search_ternary":
		if len(arguments) != 4 {
			return "", false
		}
		re, err := regexp.Compile(arguments[1])
		if err != nil {
			return "", false
		}
		if re.MatchString(arguments[0]) {
			return arguments[2], true
		}
		return arguments[3], true
	case "calc_isolated_cores":
		return v.isolated(all)
	case "hex2cpulist":
		set, err := setting.ParseCPUMask(all)
		return commas(set), err == nil
	case "cpulist_unpack":
		return commas(cpus), err == nil
	case "cpulist_pack":
		return cpus.String(), err == nil
	case "cpulist_online":
		return cpus.And(v.machine.Online).String(), err == nil && len(v.machine.Online) > 0
	case "cpulist_present":
		return cpus.And(v.machine.Present).String(), err == nil && len(v.machine.Present) > 0
	case "cpulist_invert":
		return v.machine.Online.Minus(cpus).String(), err == nil && len(v.machine.Online) > 0
	case "cpulist2hex":
		return cpus.Mask(), err == nil
	case "cpulist2hex_invert":
		return v.machine.Online.Minus(cpus).Mask(), err == nil && len(v.machine.Online) > 0
	}
	return "", false
}

// commas is a set with each CPU for itself.
func commas(set setting.CPUSet) string {
	all := make([]string, len(set))
	for i, cpu := range set {
		all[i] = strconv.Itoa(cpu)
	}
	return strings.Join(all, ",")
}

// isolated are all online CPUs but the first few of each package.
func (v *variables) isolated(reserved string) (string, bool) {
	keep := 1
	if reserved != "" {
		n, err := strconv.Atoi(reserved)
		if err != nil || n < 0 {
			return "", false
		}
		keep = n
	}
	if len(v.machine.Package) == 0 {
		return "", false
	}
	had := map[int]int{}
	var set []int
	online := slices.Clone(v.machine.Online)
	slices.Sort(online)
	for _, cpu := range online {
		p, known := v.machine.Package[cpu]
		if !known {
			continue
		}
		if had[p]++; had[p] > keep {
			set = append(set, cpu)
		}
	}
	return commas(setting.CPUs(set...)), true
}
