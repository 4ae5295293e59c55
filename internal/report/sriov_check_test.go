package report

import (
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/sriov"
	"mpps/internal/must"
)

func TestSRIOVCheckDraws(t *testing.T) {
	c := sriov.Check{
		Verdict: "not ready: 1 point is not as virtual functions need it, the worst of severity critical; 1 could " +
			"not be told",
		Counts: map[sriov.State]int{sriov.OK: 1, sriov.NotOK: 1, sriov.Unknown: 1},
		Points: []sriov.Point{
			{ID: "iommu", Title: "the running kernel uses the IOMMU", State: sriov.NotOK, Severity: knob.Critical,
				Found: "no IOMMU group", Why: "vfio needs one", Do: "reboot"},
			{ID: "driver", Object: "ens1f0", Title: "driver and firmware", State: sriov.OK, Found: "igb, firmware 1.2",
				Why: "not drawn", Traps: []string{"at most 7"}},
			{ID: "room", Object: "ens1f0", Title: "address space", State: sriov.Unknown, Found: "unknown",
				Why: "needs root"},
		},
	}
	for _, verbose := range []bool{false, true} {
		drawn := Draw(80, func(t *Text) { SRIOVCheck(t, c, verbose) })
		must.Contain(t, drawn,
			"not ready: 1 point", "\nhost\n  not  the running kernel uses the IOMMU: no IOMMU group\n       vfio "+
				"needs one\n       do: reboot\n",
			"\nens1f0\n  ok   driver and firmware: igb, firmware 1.2\n", "  ?    address space: unknown\n       "+
				"needs root\n", "1 ok, 1 not, 1 could not be determined")
		must.Hold(t, strings.Contains(drawn, "at most 7") == verbose &&
			strings.Contains(drawn, "-v shows") != verbose && !strings.Contains(drawn, "not drawn"),
			"verbose %v:\n%s", verbose, drawn)
	}
}
