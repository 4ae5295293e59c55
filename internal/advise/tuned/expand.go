package tuned

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

// variables are the variables that a profile has defined so far.
type variables struct {
	machine Machine
	values  map[string]string // of those that are known
}

// define sets a variable. If the value cannot be expanded, the variable becomes unknown and loses its old value.
func (v *variables) define(name, raw string) {
	if value, ok := v.expand(raw); !ok {
		delete(v.values, name)
	} else if name != "" {
		v.values[name] = value
	}
}

// maxNesting bounds the nesting of function calls.
const maxNesting = 16

// expand replaces ${NAME} and ${f:FUNCTION:ARGUMENT…}. ok is false if one of them is unknown.
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
		end := closingBrace(text[i:])
		if end < 0 {
			return "", false
		}
		inner := text[i+2 : i+end]
		i += end + 1
		if written := out.String(); strings.HasSuffix(written, `\`) { // escaped
			out.Reset()
			out.WriteString(strings.TrimRight(written, `\`) + "${" + inner + "}")
			continue
		}
		value, known := v.evaluate(inner, depth)
		ok = ok && known
		out.WriteString(value)
	}
	return out.String(), ok
}

// closingBrace returns the index of the brace that closes the "${" at the start of a text, or −1.
func closingBrace(text string) int {
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

// evaluate returns the value of what is between "${" and "}".
func (v *variables) evaluate(inner string, depth int) (string, bool) {
	call, isCall := strings.CutPrefix(inner, "f:")
	if !isCall {
		value, known := v.values[inner]
		return value, known
	}
	filled, ok := v.fill(call, depth-1)
	if !ok {
		return "", false
	}
	arguments := splitArguments(filled)
	return v.call(arguments[0], arguments[1:])
}

// splitArguments splits at colons, except those after a backslash.
func splitArguments(text string) []string {
	parts := strings.Split(strings.ReplaceAll(text, `\:`, "\x00"), ":")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", ":")
	}
	return parts
}

// call returns the result of a function of TuneD (tuned/profiles/functions); false for the ones not implemented here.
func (v *variables) call(name string, arguments []string) (string, bool) {
	all := strings.Trim(strings.Join(arguments, ","), ",")
	cpus, err := setting.ParseCPUs(all)
	switch name {
	case "assertion", "assertion_non_equal", "log":
		return "", true
	case "strip":
		return strings.TrimSpace(strings.Join(arguments, "")), true
	case "check_net_queue_count": // TuneD runs nproc unless it is a number
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
		return v.isolatedCores(all)
	case "hex2cpulist":
		set, err := setting.ParseCPUMask(all)
		return unpack(set), err == nil
	case "cpulist_unpack":
		return unpack(cpus), err == nil
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

// unpack is a set without ranges: "2,3,4".
func unpack(set setting.CPUSet) string {
	all := make([]string, len(set))
	for i, cpu := range set {
		all[i] = strconv.Itoa(cpu)
	}
	return strings.Join(all, ",")
}

// isolatedCores returns all online CPUs except the first ones of each package, as many as reserved says (default 1).
func (v *variables) isolatedCores(reserved string) (string, bool) {
	keep, err := strconv.Atoi(cmp.Or(reserved, "1"))
	if err != nil || keep < 0 || len(v.machine.Package) == 0 {
		return "", false
	}
	seen := map[int]int{} // CPUs by package
	var set []int
	for _, cpu := range slices.Sorted(slices.Values(v.machine.Online)) {
		p, known := v.machine.Package[cpu]
		if !known {
			continue
		}
		if seen[p]++; seen[p] > keep {
			set = append(set, cpu)
		}
	}
	return unpack(setting.CPUs(set...)), true
}
