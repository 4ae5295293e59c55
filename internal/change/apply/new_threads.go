package apply

import (
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// newThreads reports whether kernel threads differ from what is wanted only by threads that are newer than the last
// check: the kernel starts threads at any time, on the CPUs it was booted with for them, and notifies nobody.
func newThreads(a setting.Address, wanted setting.Reading, seen string, found setting.Reading) bool {
	if a.Kind != setting.ThreadCPUs || seen == "" || found.State != setting.Known {
		return false
	}
	allowed, err := setting.ParseCPUs(wanted.Value)
	if err != nil {
		return false
	}
	known := strings.Split(seen, "\n")
	came := false
	for _, line := range strings.Split(found.Verbatim, "\n") {
		number, rest, _ := strings.Cut(line, " ")
		list, _, _ := strings.Cut(rest, " ")
		cpus, err := setting.ParseCPUs(list)
		if err != nil || len(cpus.Minus(allowed)) == 0 {
			continue
		}
		if slices.ContainsFunc(known, func(l string) bool { return strings.HasPrefix(l, number+" ") }) {
			return false // somebody moved it
		}
		came = true
	}
	return came
}
