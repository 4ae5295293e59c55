package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/golden"
	"mpps/internal/must"
	"mpps/test/catalogue"
	"mpps/test/scenes"
)

// effects are knobs whose values can be set and read back in the lab, but whose effect needs what no emulation has.
var effects = map[string]string{
	"boot.mitigations": "no host is booted with it: emulated processors have nothing to mitigate",
	"boot.iommu":       "no host is booted with it: what it saves shows only with a real IOMMU",
	"boot.idle":        "no host is booted with it: four emulated processors that poll would take the whole machine",
	"boot.aspm":        "no host is booted with it: emulated links have no power states",
	"cpu.governor":     "what a higher clock gives",
	"kvm.ple_gap":      "needs the exits of a real processor",
	"kvm.amd_avic":     "needs a processor with AVIC",
	"pci.link":         "an emulated link always has the width and speed that it claims",
	"rt.fair_server":   "50 ms of each second show only in real time",
	"rt.throttling":    "50 ms of each second show only in real time",
	"sriov.vf.rate":    "emulated cards do not limit rates",
	"sriov.vf.trust":   "emulated cards do not filter by trust",
	"nic.coalesce":     "emulated interrupts cost otherwise than real ones",
	"nic.ring.rx":      "that short rings stay in the cache shows only with real caches",
	"nic.irq_deferral": "emulated interrupts cost otherwise than real ones",
	"domain.hugepages": "emulated memory has no TLB to spare",
}

// more are tests that show more of a knob than that it can be set: that a kernel is booted with the argument which
// stands in the boot menu, that the limits of drivers are kept which no emulated card has.
var more = map[string]string{
	"boot.isolcpus": rebooted, "boot.nohz_full": rebooted, "boot.rcu_nocbs": rebooted, "boot.hugepages": rebooted,
	"boot.quiet": rebooted, "boot.mce": rebooted, "boot.cstate": rebooted, "boot.tsc": rebooted,
	"kernel.default": rebooted,
	"sriov.vf.rate":  "TestVFEncode",
}

const rebooted = "TestRebootWithArguments"

const provenHead = `# How each knob was proven

Sets: on the emulated host TestCatalogue (test/catalogue) plans the value as a user would, finds what the plan says there
through another program than mpps (sysctl, ethtool, ip, nft, iptables, virsh, taskset, chrt, swapon, grep), applies it, finds
it with that program, rolls back, and finds everything as it was. It fails where a knob that sets is neither among its changes
nor among the exceptions (test/catalogue/exceptions.txt), which stand here with what shows them instead.

Judges: cases in internal/advise/audit/testdata/knobs show each verdict on recorded facts.

When: make test plays its tests each time. .ci/run plays those, then TestCatalogue and a quarter of the other long scenes of the emulated
host (make test-turn). Four successive commits play them all where make test leaves 2000 s for that, eight where it leaves 1400 s. What
was not played is named, and comes first when its quarter is played next.

Made from test/catalogue/exceptions.txt, test/scenes/scenes.txt and cmd/mpps/proven_test.go.

| knob | mpps | proven on | by | when | why not there, or what that does not show |
|---|---|---|---|---|---|
`

// TestProven: docs/proven.md says of each knob how it was proven, and each test that it names is there. MPPS_UPDATE=1
// writes the file.
func TestProven(t *testing.T) {
	exceptions := must.Get(catalogue.Exceptions())(t)
	tests := testNames(t)
	var b strings.Builder
	b.WriteString(provenHead)
	count := map[string]int{}
	for _, k := range knob.Catalogue() {
		does, on, by, lack := "judges", "recorded machine", []string{"TestKnobs"}, []string{}
		if !k.Check {
			does, on, by = "sets", "lab kernel", []string{"TestCatalogue"}
		}
		if e, excepted := exceptions[k.ID]; excepted {
			if on, by = e.On, e.By; k.Check {
				t.Errorf("%s is checked and explained only, and stands among the exceptions", k.ID)
			}
			lack = append(lack, e.Reason)
			delete(exceptions, k.ID)
		}
		if effect := effects[k.ID]; effect != "" {
			lack = append(lack, effect)
		}
		if name := more[k.ID]; name != "" {
			by = append(by, name)
		}
		var when []string
		for _, name := range by {
			must.Hold(t, len(tests[name]) != 0, "%s is proven by %s, which there is not", k.ID, name)
			for _, w := range tests[name] {
				if !slices.Contains(when, w) {
					when = append(when, w)
				}
			}
		}
		count[does+" "+on]++
		fmt.Fprintf(&b, "| [%s](knobs/%s.md) | %s | %s | %s | %s | %s |\n", k.ID, k.ID, does, on,
			strings.Join(by, ", "), strings.Join(when, ", "), strings.Join(lack, "; "))
	}
	for id := range exceptions {
		t.Errorf("exceptions.txt: there is no knob %s", id)
	}
	for id := range effects {
		must.Hold(t, knob.Find(id) != nil, "there is no knob %s", id)
	}
	b.WriteString("\n| mpps | proven on | knobs |\n|---|---|---|\n")
	ways := slices.Sorted(maps.Keys(count))
	for _, way := range ways {
		does, on, _ := strings.Cut(way, " ")
		fmt.Fprintf(&b, "| %s | %s | %d |\n", does, on, count[way])
	}
	golden.File(t, "../../docs/proven.md", b.String())
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testNames says of each test of the tree when it is played: of a name that several packages have, for each of them.
func testNames(t *testing.T) map[string][]string {
	t.Helper()
	long := must.Get(scenes.All("../.."))(t)
	found := map[string][]string{}
	must.Do(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range testFunction.FindAllStringSubmatch(string(text), -1) {
			when := "make test"
			if faultsTag.Match(text) {
				when = "make test-faults"
			}
			for _, s := range long {
				switch {
				case s.Test != name[1] || filepath.Join("../..", s.Package) != filepath.Dir(path):
				case s.Turn == scenes.Every:
					when = "every .ci/run"
				default:
					when = fmt.Sprintf("make test-turn TURN=%d", s.Turn)
				}
			}
			found[name[1]] = append(found[name[1]], when)
		}
		return err
	}))
	return found
}

// faultsTag marks the files whose tests make test leaves out.
var faultsTag = regexp.MustCompile(`(?m)^//go:build faults$`)
