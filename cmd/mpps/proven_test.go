package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mpps/internal/facts"
	"mpps/internal/knob"
	"mpps/internal/setting"
)

// proof is how it is known that values of a kind are really read and written.
type proof struct {
	how  string   // lab kernel, kernel in a namespace, recorded machine
	by   []string // names of the tests
	lack string   // what these cannot show, and why
}

// The ways. A lab kernel is that of the emulated host, with real drivers on emulated devices.
const (
	byLab       = "lab kernel"
	byNamespace = "kernel in a namespace"
	byRecord    = "recorded machine"
)

// proofs says so for each kind. A check is judged from recorded facts whatever its kind.
var proofs = map[setting.Kind]proof{
	setting.Sysctl:         {byNamespace, []string{"TestSettingsAreWrittenAndRestored"}, ""},
	setting.Sysfs:          {byNamespace, []string{"TestSettingsAreWrittenAndRestored"}, ""},
	setting.SysfsCPUs:      {byNamespace, []string{"TestSettingsAreWrittenAndRestored"}, ""},
	setting.NICRing:        {byLab, []string{"TestDriverSettingsAreWrittenAndRestored"}, ""},
	setting.NICChannels:    {byLab, []string{"TestDriverSettingsAreWrittenAndRestored"}, ""},
	setting.NICCoalesce:    {byLab, []string{"TestDriverSettingsAreWrittenAndRestored"}, ""},
	setting.NICFeature:     {byLab, []string{"TestDriverSettingsAreWrittenAndRestored"}, ""},
	setting.NICFlowHash:    {byLab, []string{"TestDriverSettingsAreWrittenAndRestored"}, ""},
	setting.IRQAffinity:    {byLab, []string{"TestInterruptIsFoundAfterRenumbering"}, ""},
	setting.ThreadAffinity: {byLab, []string{"TestValuesOfGuestsOfTheLab"}, ""},
	setting.Domain:         {byLab, []string{"TestValuesOfGuestsOfTheLab"}, ""},
	setting.NetfilterRule:  {byNamespace, []string{"TestRuleIsAddedAndRemovedExactly"}, ""},
	setting.RuleSet:        {byNamespace, []string{"TestRuleSets"}, ""},
	setting.Service:        {byRecord, []string{"TestReadingsOfRecordedHost"}, ""},
	setting.KernelArg:      {byRecord, []string{"TestKernelArguments", "TestReadBootLoaders"}, ""},
	setting.ModuleParam:    {byRecord, []string{"TestHousekeepingWrites"}, "most are read at load time only, and loading kvm anew ends all guests"},
	setting.ThreadSched:    {byLab, []string{"TestHousekeepingOfTheLab", "TestThreadPolicy"}, ""},
	setting.KSM:            {byLab, []string{"TestHousekeepingOfTheLab", "TestHousekeepingWrites"}, ""},
	setting.Swap:           {byNamespace, []string{"TestSwapFile"}, ""},
	setting.TraceEvents:    {byLab, []string{"TestHousekeepingOfTheLab", "TestHousekeepingWrites"}, ""},
	setting.IRQCPUs:        {byLab, []string{"TestHousekeepingOfTheLab", "TestHousekeepingWrites"}, ""},
	setting.VFAttr:         {byLab, []string{"TestVirtualFunctionsAreSet", "TestVFEncode"}, "igb only: the limits of ixgbe and i40e are checked against their sources"},
}

// effects are knobs whose values can be set and read back here, but whose effect needs hardware that no emulation has.
var effects = map[string]string{
	"cpu.governor":     "emulated processors have no clock to change",
	"kvm.ple_gap":      "needs the exits of a real processor",
	"kvm.amd_avic":     "needs a processor with AVIC",
	"pci.link":         "an emulated link always has the width and speed that it claims",
	"rt.fair_server":   "50 ms of each second show only in real time",
	"rt.throttling":    "50 ms of each second show only in real time",
	"sriov.vf.rate":    "emulated cards do not limit rates",
	"sriov.vf.trust":   "emulated cards do not filter by trust",
	"nic.coalesce":     "emulated interrupts cost otherwise than real ones",
	"nic.ring.rx":      "that small rings stay in the cache shows only with real caches",
	"nic.ring.tx":      "that small rings stay in the cache shows only with real caches",
	"domain.hugepages": "emulated memory has no TLB to spare",
}

// TestProven: docs/proven.md says of each knob how it was proven, each test that it names is there, and each kind that a knob
// sets has a proof. MPPS_UPDATE=1 writes the file.
func TestProven(t *testing.T) {
	tests := testNames(t)
	for kind, p := range proofs {
		for _, name := range p.by {
			if !tests[name] {
				t.Errorf("kind %s is proven by %s, which there is not", kind, name)
			}
		}
	}
	h := hostWithEverything()
	var b strings.Builder
	b.WriteString("# How each knob was proven\n\nSet: read, set, read back through another tool than ours, put back, compared. Judged: cases in internal/audit/testdata/knobs show each\n" +
		"verdict on recorded facts. Made from cmd/mpps/proven_test.go.\n\n| knob | mpps | proven on | by | not provable here |\n|---|---|---|---|---|\n")
	for _, k := range knob.Catalogue() {
		how, by, lack := byRecord, []string{"TestKnobs"}, ""
		does := "judges"
		if !k.Check {
			does = "sets"
			kinds := kindsOf(k, h)
			if len(kinds) == 0 {
				t.Errorf("%s has no address on a host with everything: what it sets is not known", k.ID)
				continue
			}
			how, by = "", nil
			for _, kind := range kinds {
				p, ok := proofs[kind]
				if !ok {
					t.Errorf("%s sets values of kind %s, of which nothing says how they are proven", k.ID, kind)
					continue
				}
				if !strings.Contains(how, p.how) {
					how = strings.TrimPrefix(how+", "+p.how, ", ")
				}
				for _, name := range p.by {
					if !slices.Contains(by, name) {
						by = append(by, name)
					}
				}
				lack = p.lack
			}
		}
		if effect := effects[k.ID]; effect != "" {
			lack = strings.TrimPrefix(lack+"; "+effect, "; ")
		}
		fmt.Fprintf(&b, "| [%s](knobs/%s.md) | %s | %s | %s | %s |\n", k.ID, k.ID, does, how, strings.Join(by, ", "), lack)
	}
	sameFile(t, "../../docs/proven.md", b.String(), os.Getenv("MPPS_UPDATE") == "1")
}

// kindsOf are the kinds of values that a knob sets, in the order of its addresses.
func kindsOf(k *knob.Knob, h *facts.Host) []setting.Kind {
	var kinds []setting.Kind
	for _, a := range k.Where(h) {
		if !slices.Contains(kinds, a.Kind) {
			kinds = append(kinds, a.Kind)
		}
	}
	return kinds
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testNames are the names of all tests of the tree.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range testFunction.FindAllStringSubmatch(string(text), -1) {
			found[name[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// hostWithEverything has one of each thing that knobs have addresses of.
func hostWithEverything() *facts.Host {
	h := facts.Synthetic(facts.Size{CPUs: 16, NICs: 1, Queues: 2, Guests: 1})
	h.Virtual = "kvm"
	h.NICs[0].Features = append(h.NICs[0].Features, []facts.Feature{
		{Name: "rx-checksum"}, {Name: "tx-scatter-gather"}, {Name: "tx-tcp-segmentation"}, {Name: "rx-gro"}, {Name: "tx-udp_tnl-segmentation"}, {Name: "tx-nocache-copy"},
	}...)
	h.NICs[0].FlowHash["udp6"] = "sd"
	h.VFs = []facts.VF{{PF: "eth0", PCI: "0000:41:10.0"}}
	h.Netfilter.Rules = append(h.Netfilter.Rules, facts.RuleSet{Tool: "iptables-legacy", Rules: 1})
	h.Guests[0].Definition = strings.Replace(h.Guests[0].Definition, "<cpu ", "<features><hyperv/></features><cpu ", 1)
	h.Housekeeping = &facts.Housekeeping{
		Swap: []facts.SwapArea{{Name: "/dev/sda2"}}, IRQs: []facts.IRQ{{Number: 9, On: "acpi"}},
		Threads: []facts.KernelThread{{Name: "ksoftirqd/0"}, {Name: "rcuc/0"}, {Name: "rcub/0"}},
	}
	return h
}
