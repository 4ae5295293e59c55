package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

const (
	giant      = 1 << 30 // bytes of a page
	giantWords = "hugepagesz+hugepages"
	// spare is the number of extra pages on each node with guests, for what a guest needs besides its memory (video
	// memory, ROMs); nodeReserve is what each node keeps for the host, in bytes.
	spare       = 1
	nodeReserve = 2 << 30
)

var bootHugepages = &Knob{
	ID: "boot.hugepages", Title: "1 GiB pages for the guests' memory",
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Where: bootArguments("default_hugepagesz", giantWords),
	Want: func(v *View, a setting.Address) Advice {
		if len(v.Topology.Hugepages) > 0 && !slices.ContainsFunc(v.Topology.Hugepages, sizeOfGiant) {
			sizes := facts.Map(v.pageSizes(), sizeWords)
			return Skips("this processor or kernel has no 1 GiB pages: its sizes are " + strings.Join(sizes, ", "))
		}
		if len(v.Topology.Hugepages) == 0 && v.Architecture() != facts.X86 { // 64 KiB pages have 2 MiB, 512 MiB, 16 GiB
			return Unsure("the sizes of huge pages that this processor and kernel have are not known")
		}
		giants := v.giantPages()
		need := giants.need
		switch {
		case giants.problem != "":
			return Unsure(giants.problem)
		case len(giants.guests) == 0 && len(giants.smaller) > 0:
			return Skips("the definition of " + strings.Join(giants.smaller, ", ") + " names pages of another size")
		case len(giants.guests) == 0 && len(giants.without) > 0:
			return Skips(strings.Join(giants.without, ", ") + ": " + giants.why)
		case len(giants.guests) == 0:
			return Skips("no guest that the goal is for")
		}
		because := fmt.Sprintf("%s with %s", strings.Join(giants.guests, ", "), v.pagesWords(need))
		if len(giants.others) > 0 {
			because = fmt.Sprintf("%s, and %s already defined with such pages, with %s",
				strings.Join(giants.guests, ", "), strings.Join(giants.others, ", "), v.pagesWords(need))
		}
		if a.Path == "default_hugepagesz" {
			if keep := v.defaultPageUsers(); len(keep) > 0 {
				return Skips(fmt.Sprintf("%s of the default size, which is %s: with another default they would not "+
					"start again. A definition may name 1 GiB itself (domain.hugepages)", takesPages(keep),
					sizeWords(v.DefaultHugepage())))
			}
			if v.nextDefault() == giant {
				return v.fineAtBoot(a, "the default is 1 GiB")
			}
			return v.atBoot(a, setting.Exact("1G"),
				because+": libvirt takes pages of the default size where the domain names none").At(Low)
		}
		next := v.Readings.At(a)
		if pools, ok := v.pools(next); ok && v.poolsSuffice(pools, giants) {
			return v.fineAtBoot(a, "enough for "+because)
		}
		if next.State == setting.Absent && v.poolsFilled(need) {
			return v.fineAtBoot(a, "the pools hold enough now, without the command line: see that whoever fills them "+
				"does so after the next boot too")
		}
		if problem := v.spreadProblem(need); problem != "" {
			return Unsure(problem)
		}
		advice := v.atBoot(a, setting.Exact(v.giantArgument(next, need)), because).At(Medium)
		if len(giants.noRoom) > 0 {
			return advice.warn(fmt.Sprintf("there is no room for the pages of %s as well, defined with them and "+
				"not running: they do not start beside these", strings.Join(giants.noRoom, ", ")))
		}
		return advice
	},
}

// spreadProblem says which node would have too little left for the host if the kernel gives every node as many pages as
// the neediest one; "" if all have enough.
func (v *View) spreadProblem(need map[int]int) string {
	if v.perNode() {
		return ""
	}
	most := 0
	for _, pages := range need {
		most = max(most, pages)
	}
	for _, n := range v.Topology.Nodes {
		if n.Memory > 0 && uint64(most)*giant+nodeReserve > n.Memory {
			return fmt.Sprintf("kernels before 5.16 spread pages evenly over all nodes, and node %d has %.1f GiB: %s "+
				"of 1 GiB and 2 GiB for the host do not fit", n.ID, gib(n.Memory), Count(most, "page"))
		}
	}
	return ""
}

func (v *View) pagesWords(need map[int]int) string {
	var parts []string
	for _, n := range v.Topology.Nodes {
		if need[n.ID] > 0 {
			parts = append(parts, fmt.Sprintf("%s on node %d", Count(need[n.ID], "page"), n.ID))
		}
	}
	return strings.Join(parts, ", ")
}

// perNode reports whether the kernel that boots next accepts a page count per node (since 5.16).
func (v *View) perNode() bool {
	release := v.Kernel.Release
	if next, known := v.Boot.NextEntry(); known && next.Version != "" {
		release = next.Version
	}
	return since(release, 5, 16)
}

// giantArgument returns the value of hugepagesz+hugepages with the needed 1 GiB pages; pages of other sizes stay.
func (v *View) giantArgument(next setting.Reading, need map[int]int) string {
	var words []string
	size := "2M"
	if next.State == setting.Known {
		for _, word := range strings.Fields(next.Value) {
			name, value, _ := setting.Argument(word)
			if setting.ArgumentName(name) == "hugepagesz" {
				size = value
			}
			if bytes, ok := setting.MemParse(size); ok && bytes == giant {
				continue
			}
			words = append(words, word)
		}
	}
	pages := ""
	total, most := 0, 0
	var list []string
	for _, n := range v.Topology.Nodes {
		total, most = total+need[n.ID], max(most, need[n.ID])
		if need[n.ID] > 0 {
			list = append(list, fmt.Sprintf("%d:%d", n.ID, need[n.ID]))
		}
	}
	switch {
	case len(v.Topology.Nodes) == 1:
		pages = strconv.Itoa(total)
	case v.perNode():
		pages = strings.Join(list, ",")
	default: // spread evenly: as many on each as the one that needs most
		pages = strconv.Itoa(most * len(v.Topology.Nodes))
	}
	return strings.Join(append(words, "hugepagesz=1G", "hugepages="+pages), " ")
}

// pools returns how many 1 GiB pages the arguments ask for by node; −1 stands for all nodes together.
func (v *View) pools(r setting.Reading) (map[int]int, bool) {
	if r.State != setting.Known {
		return nil, false
	}
	pools, size := map[int]int{}, ""
	for _, word := range strings.Fields(r.Value) {
		name, value, _ := setting.Argument(word)
		if setting.ArgumentName(name) == "hugepagesz" {
			size = value
			continue
		}
		if size == "" {
			size = v.Readings.At(bootArgument("default_hugepagesz")).Value
		}
		if bytes, ok := setting.MemParse(size); !ok || bytes != giant {
			continue
		}
		for part := range strings.SplitSeq(value, ",") {
			node, pages, split := strings.Cut(part, ":")
			if !split {
				node, pages = "-1", part
			}
			at, err := strconv.Atoi(node)
			n, err2 := strconv.Atoi(pages)
			if err != nil || err2 != nil || n < 0 {
				return nil, false
			}
			pools[at] = n
		}
	}
	return pools, true
}

// poolsSuffice reports whether each node has the pages bound to it, and all nodes together those that may come from
// any.
func (v *View) poolsSuffice(pools map[int]int, g giants) bool {
	all, spread := pools[-1]
	have, need := 0, 0
	for _, n := range v.Topology.Nodes {
		here := pools[n.ID]
		if spread {
			here = all / len(v.Topology.Nodes)
		}
		if here < g.placed[n.ID] {
			return false
		}
		have, need = have+here, need+g.need[n.ID]
	}
	return have >= need
}

// poolsFilled reports whether the nodes have enough pages now.
func (v *View) poolsFilled(need map[int]int) bool {
	for _, n := range v.Topology.Nodes {
		i := slices.IndexFunc(n.Hugepages, sizeOfGiant)
		if need[n.ID] > 0 && (i < 0 || n.Hugepages[i].Total < uint64(need[n.ID])) {
			return false
		}
	}
	return true
}

func sizeOfGiant(p facts.Hugepages) bool { return p.Size == giant }
