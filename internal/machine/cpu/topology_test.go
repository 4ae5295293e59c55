package cpu

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// oracle is lstopo's result for a machine.
type oracle struct {
	counts  facts.Counts
	missing mask // CPUs that are not represented
	nodes   map[int]oracleNode
}

type oracleNode struct {
	cpus   mask   // those represented
	memory string // as lstopo prints it
}

// TestTopologyAgreesWithLstopo reads every recorded machine and compares the result with lstopo's.
func TestTopologyAgreesWithLstopo(t *testing.T) {
	folder := treetest.Corpus(t, "topology")
	archives, err := filepath.Glob(filepath.Join(folder, "*.tar.bz2"))
	must.Need(t, err == nil && len(archives) != 0, "no recorded machines in %s (%v)", folder, err)
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.bz2")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := readOracle(t, filepath.Join(folder, name))
			m := must.Get(tree.Open(treetest.Unpack(t, archive)))(t)
			defer m.Close()
			var h facts.Host
			Topology(t.Context(), m, &h)
			compare(t, &h.Topology, want)
			for _, suspect := range h.Topology.Suspect {
				t.Log("suspect:", suspect)
			}
		})
	}
}

func compare(t *testing.T, got *facts.Topology, want oracle) {
	must.Hold(t, got.Counts == want.counts, "counts: found %+v, lstopo has %+v", got.Counts, want.counts)
	missing := maskOf(got.Offline).or(maskOf(got.DeniedCPUs))
	if !missing.equal(want.missing) {
		t.Errorf("CPUs not represented: found %s, lstopo has %s", missing.set(), want.missing.set())
	}
	seen := 0
	for _, node := range got.Nodes {
		if got.DeniedNodes.Has(node.ID) {
			continue
		}
		seen++
		expected, there := want.nodes[node.ID]
		if !there {
			t.Errorf("node %d is not one of lstopo's", node.ID)
			continue
		}
		if cpus := maskOf(node.CPUs).minus(missing); !cpus.equal(expected.cpus) {
			t.Errorf("node %d: found CPUs %s, lstopo has %s", node.ID, cpus.set(), expected.cpus.set())
		}
		if memory := lstopoSize(node.Memory); memory != expected.memory {
			t.Errorf("node %d: found memory %s, lstopo has %s", node.ID, memory, expected.memory)
		}
	}
	must.Hold(t, seen == len(want.nodes), "found %d nodes, lstopo has %d", seen, len(want.nodes))
	consistent(t, got)
}

// consistent checks what must hold of any topology.
func consistent(t *testing.T, top *facts.Topology) {
	t.Helper()
	must.Hold(t, slices.IsSortedFunc(top.CPUs, func(a, b facts.CPU) int { return a.ID - b.ID }),
		"CPUs are not in the order of their numbers")
	for _, cpu := range top.CPUs {
		must.Hold(t, cpu.Online == top.Online.Has(cpu.ID) && cpu.Online != top.Offline.Has(cpu.ID),
			"CPU %d: online is %v, but the sets say otherwise", cpu.ID, cpu.Online)
		if cpu.Core >= 0 && !cpu.Siblings.Has(cpu.ID) {
			t.Errorf("CPU %d is not among its own siblings %s", cpu.ID, cpu.Siblings)
		}
		for _, sibling := range cpu.Siblings {
			if other, found := top.CPU(sibling); !found || other.Core != cpu.Core {
				t.Errorf("CPUs %d and %d are siblings with different cores", cpu.ID, sibling)
			}
		}
		if cpu.L3 >= 0 && !top.Caches[cpu.L3].CPUs.Has(cpu.ID) {
			t.Errorf("CPU %d is not among the CPUs of its L3 cache", cpu.ID)
		}
	}
	for _, node := range top.Nodes {
		if len(node.Distances) > 0 && len(node.Distances) != len(top.Nodes) {
			t.Errorf("node %d has %d distances to %d nodes", node.ID, len(node.Distances), len(top.Nodes))
		}
	}
}

func readOracle(t *testing.T, base string) oracle {
	t.Helper()
	if text, err := os.ReadFile(base + ".console"); err == nil {
		return parseConsole(t, string(text))
	}
	text := must.Get(os.ReadFile(base + ".xml"))(t)
	return parseXML(t, text)
}

var (
	depthLine   = regexp.MustCompile(`(?m)^ *(?:Special )?depth -?\d+: +(\d+) (\w+)`)
	missingLine = regexp.MustCompile(`(?m)^\d+ processors not represented in topology: (\S+)`)
	objectLine  = regexp.MustCompile(`^( +)(\w+)(?:\([^)]*\))? L#\d+(?: \((?:P#(\d+))?(?: ?local=(\w+))?)?`)
)

func parseConsole(t *testing.T, text string) oracle {
	want := oracle{nodes: map[int]oracleNode{}}
	for _, match := range depthLine.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(match[1])
		if field := want.count(match[2]); field != nil {
			*field = n
		}
	}
	if match := missingLine.FindStringSubmatch(text); match != nil {
		want.missing = hwlocMask(t, match[1])
	}
	want.counts.CPUsOffline = want.missing.count()

	type open struct {
		indent int
		cpus   mask
		nodes  []int
	}
	var stack []*open
	pop := func() {
		last := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, id := range last.nodes {
			node := want.nodes[id]
			node.cpus = last.cpus
			want.nodes[id] = node
		}
		if len(stack) > 0 {
			stack[len(stack)-1].cpus = stack[len(stack)-1].cpus.or(last.cpus)
		}
	}
	stack = append(stack, &open{})
	for line := range strings.Lines(text) {
		match := objectLine.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		indent := len(match[1])
		for stack[len(stack)-1].indent >= indent {
			pop()
		}
		id, _ := strconv.Atoi(match[3])
		switch match[2] {
		case "NUMANode":
			parent := stack[len(stack)-1]
			parent.nodes = append(parent.nodes, id)
			want.nodes[id] = oracleNode{memory: match[4]}
		case "PU":
			stack = append(stack, &open{indent: indent, cpus: mask{}.with(id)})
		default:
			stack = append(stack, &open{indent: indent})
		}
	}
	for len(stack) > 0 {
		pop()
	}
	return want
}

func (o *oracle) count(name string) *int {
	switch name {
	case "Package":
		return &o.counts.Packages
	case "Die":
		return &o.counts.Dies
	case "NUMANode":
		return &o.counts.NUMANodes
	case "L3Cache":
		return &o.counts.L3Caches
	case "Core":
		return &o.counts.Cores
	case "PU":
		return &o.counts.CPUsOnline
	}
	return nil
}

type xmlObject struct {
	Type     string      `xml:"type,attr"`
	ID       int         `xml:"os_index,attr"`
	CPUs     string      `xml:"cpuset,attr"`
	Complete string      `xml:"complete_cpuset,attr"`
	Memory   uint64      `xml:"local_memory,attr"`
	Objects  []xmlObject `xml:"object"`
}

func parseXML(t *testing.T, text []byte) oracle {
	var document struct {
		Objects []xmlObject `xml:"object"`
	}
	if err := xml.Unmarshal(text, &document); err != nil || len(document.Objects) != 1 {
		t.Fatalf("lstopo's XML: %d machines, %v", len(document.Objects), err)
	}
	want := oracle{nodes: map[int]oracleNode{}}
	machine := document.Objects[0]
	want.missing = hwlocMask(t, machine.Complete).minus(hwlocMask(t, machine.CPUs))
	want.counts.CPUsOffline = want.missing.count()
	var walk func(o xmlObject)
	walk = func(o xmlObject) {
		if field := want.count(o.Type); field != nil {
			*field++
		}
		if o.Type == "NUMANode" {
			want.nodes[o.ID] = oracleNode{cpus: hwlocMask(t, o.CPUs), memory: lstopoSize(o.Memory)}
		}
		for _, child := range o.Objects {
			walk(child)
		}
	}
	walk(machine)
	return want
}

// hwlocMask reads hwloc's set format: groups of 32 bits, each with a leading 0x ("0x0000ffff,0xffffffff").
func hwlocMask(t *testing.T, text string) mask {
	t.Helper()
	m, err := parseMask(strings.ReplaceAll(text, "0x", ""))
	must.Need(t, err == nil, "lstopo's set %q: %v", text, err)
	return m
}

// lstopoSize returns a size as lstopo rounds and prints it.
func lstopoSize(bytes uint64) string {
	switch {
	case bytes < 10<<20:
		return fmt.Sprintf("%dKiB", (bytes>>9+1)>>1)
	case bytes < 10<<30:
		return fmt.Sprintf("%dMiB", (bytes>>19+1)>>1)
	}
	return fmt.Sprintf("%dGiB", (bytes>>29+1)>>1)
}

func set(list string) setting.CPUSet {
	s, err := setting.ParseCPUs(list)
	if err != nil {
		panic(err)
	}
	return s
}
