package realtime

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// bootLists are the kernel arguments that list CPUs.
var bootLists = []string{"isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"}

// argument is one of bootLists on a command line.
type argument struct {
	given bool
	flags []string // of isolcpus, before the list
	cpus  setting.CPUSet
	err   error // the value is not a list of CPUs
}

func (a argument) hasFlag(flag string) bool { return slices.Contains(a.flags, flag) }

// readArgument parses the value of an argument as the kernel does (lib/bitmap.c, bitmap_parselist;
// kernel/sched/isolation.c, housekeeping_isolcpus_setup; kernel/rcu/tree_nocb.h, rcu_nocb_setup). If an argument is
// given several times, the last one counts. Kernels disagree about several isolcpus: different ones are an error here.
func readArgument(name string, r setting.Reading, t *facts.Topology) argument {
	words := strings.Fields(r.Value)
	if r.State != setting.Known || len(words) == 0 {
		return argument{}
	}
	a := argument{given: true}
	value := words[len(words)-1]
	if name == "isolcpus" {
		slices.Sort(words)
		if words = slices.Compact(words); len(words) > 1 {
			a.err = fmt.Errorf("it stands %d times with different values", len(words))
		}
		parts := strings.Split(value, ",")
		for len(parts) > 0 && slices.Contains([]string{"nohz", "domain", "managed_irq"}, parts[0]) {
			a.flags, parts = append(a.flags, parts[0]), parts[1:]
		}
		if len(a.flags) == 0 {
			a.flags = []string{"domain"}
		}
		value = strings.Join(parts, ",")
	}
	if value == setting.Flag && name == "rcu_nocbs" {
		value = "all"
	}
	cpus, err := kernelList(value, t)
	if a.cpus = cpus; a.err == nil {
		a.err = err
	}
	return a
}

// kernelList parses a list of CPUs as the kernel does: "all", N for the last CPU, and parts of a range (0-31:1/2 is
// every second CPU).
func kernelList(text string, t *facts.Topology) (setting.CPUSet, error) {
	last := 0
	if n := len(t.CPUs); n > 0 {
		last = t.CPUs[n-1].ID
	}
	if text == "all" {
		text = "0-N"
	}
	var all []int
	for _, part := range strings.Split(text, ",") {
		span, stride, parted := strings.Cut(strings.ReplaceAll(part, "N", strconv.Itoa(last)), ":")
		set, err := setting.ParseCPUs(span)
		if err != nil || len(set) == 0 {
			return nil, fmt.Errorf("%q is no list of CPUs", text)
		}
		used, group := 1, 1
		if parted {
			first, second, _ := strings.Cut(stride, "/")
			var errs [2]error
			used, errs[0] = strconv.Atoi(first)
			group, errs[1] = strconv.Atoi(second)
			if errs[0] != nil || errs[1] != nil || group < 1 || used < 1 {
				return nil, fmt.Errorf("%q is no list of CPUs", text)
			}
		}
		for i, cpu := range set {
			if i%group < used {
				all = append(all, cpu)
			}
		}
	}
	return setting.CPUs(all...), nil
}

// bootedArgument returns an argument of the running kernel.
func (v *view) bootedArgument(name string) argument {
	line := setting.ParseCommandLine(v.h.Kernel.CommandLine)
	return readArgument(name, line.Get(name), &v.h.Topology)
}

// nextArgument returns an argument that the boot loader's files give to the next kernel.
func (v *view) nextArgument(name string) (argument, setting.Reading) {
	r := v.h.Readings.At(setting.Of(setting.KernelArg, name))
	return readArgument(name, r, &v.h.Topology), r
}
