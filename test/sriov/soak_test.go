//go:build lab

package sriov

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// usualRounds are those of make test, one for each form and one more, whose journal is compared with the first; make
// soak-sriov has 50 (MPPS_SOAK), and makes the functions again in each.
const usualRounds = 4

// TestSoak goes round after round through a function's life: made, given to a guest, the guest started and stopped,
// taken back, removed. Nothing may be left of a round: no definition, no reservation, no value to be put back, no unit,
// no function that is bound to vfio-pci, no setting on one; and no round writes more into the journal than the first of
// its form. Guests are started paused, which is all that libvirt and VFIO do for a start.
func TestSoak(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	rounds := usualRounds
	if text := os.Getenv("MPPS_SOAK"); text != "" {
		n, err := strconv.Atoi(text)
		must.Need(t, err == nil && n >= 1, "MPPS_SOAK: expected a number of rounds, found %q", text)
		rounds = n
	}
	soak := rounds > usualRounds
	forms := []string{facts.ByInterface, facts.ByHostdev, facts.ByNetwork}
	before := s.idle("soaked")
	guests := s.Must("virsh -q list --all --name")
	if !soak {
		s.MPPS(0, "sriov", "create", s.pf, "-n", "2", "--persist", "none")
	}
	written := map[string]int{}
	began := time.Now()
	for round := range rounds {
		form := forms[round%len(forms)]
		size := s.journals()
		if soak {
			s.MPPS(0, "sriov", "create", s.pf, "-n", "2")
		}
		argv := []string{"sriov", "assign", "soaked", "--pf", s.pf, "--as", form, "--vlan",
			strconv.Itoa(round%4000 + 1)}
		if form != facts.ByNetwork {
			argv = append(argv, "--rate", "100")
		}
		g := labtest.Answer[given](s, 0, argv...)
		s.Must("virsh -q start --paused soaked")
		if _, text := s.vfs(); !strings.Contains(text, g.MAC) {
			t.Fatalf("round %d (%s): no function has %s\n%s", round, form, g.MAC, text)
		}
		s.Must("virsh -q destroy soaked")
		s.MPPS(0, "sriov", "release", "soaked")
		if form == facts.ByNetwork {
			s.Must("virsh -q net-destroy " + g.Network + "; virsh -q net-undefine " + g.Network)
		}
		all, text := s.vfs()
		for _, f := range all {
			if !strings.Contains(f.brief(), untouched) || f.MAC == g.MAC {
				t.Errorf("round %d (%s): a function has %s\n%s", round, form, f.brief(), text)
			}
		}
		if soak {
			s.MPPS(0, "sriov", "destroy", s.pf)
			must.Equal(t, s.functions(), "0 0 0 0", "round %d: functions", round)
		}
		if got := s.definition("soaked"); got != before {
			t.Fatalf("round %d (%s): the definition is\n%s\nand was\n%s", round, form, got, before)
		}
		if left := s.left() + s.Must(traces) + s.Must("virsh -q net-list --all --name"); left != "" {
			t.Fatalf("round %d (%s): left: %s", round, form, left)
		}
		must.Equal(t, s.Must("virsh -q list --all --name"), guests, "round %d: guests", round)
		grew := s.journals() - size
		if first, known := written[form]; !known {
			written[form] = grew
		} else if grew > first+first/4 {
			t.Errorf("round %d (%s): %d bytes of journals, in the first one %d", round, form, grew, first)
		}
		t.Logf("round %d (%s): %.1f s, %d bytes of journals", round, form, time.Since(began).Seconds()/float64(round+1),
			grew)
	}
	s.Must("virsh -q undefine soaked")
	if !soak {
		s.MPPS(0, "sriov", "destroy", s.pf)
	}
	must.Equal(t, s.Must("find /var/lib/mpps /run/mpps -name '*draft*' -o -name '*.tmp'"), "", "half written")
}

// journals is the size of all journals in bytes.
func (s *scene) journals() int {
	s.Helper()
	n := must.Get(strconv.Atoi(s.Must("cat /var/lib/mpps/journal/* 2>/dev/null | wc -c")))(s)
	return n
}
