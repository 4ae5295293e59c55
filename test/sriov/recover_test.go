//go:build lab

package sriov

import (
	"strings"
	"testing"

	mended "mpps/internal/advise/sriov"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// TestRecover mends a function that was left with vfio-pci, one that no driver took, and a card that is down; a process
// that has a function is named and lives on.
func TestRecover(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.Must("modprobe igbvf; echo 2 > /sys/class/net/" + s.pf + "/device/sriov_numvfs; udevadm settle")
	one := s.pf + "/0"
	pci := s.Must("basename $(readlink /sys/class/net/" + s.pf + "/device/virtfn0)")
	dev := "/sys/bus/pci/devices/" + pci
	bound := func() string {
		return s.Must("d=$(readlink " + dev + "/driver); echo ${d##*/} $(cat " + dev + "/driver_override)")
	}
	found := bound()
	must.Need(t, found == "igbvf (null)", "the function begins with %s", found)
	recovers := func(code int, words ...string) mended.Recovery {
		t.Helper()
		return labtest.Answer[mended.Recovery](s, code, append([]string{"sriov", "recover", one}, words...)...)
	}
	if r := recovers(0); r.Verdict != mended.Well || r.Transaction != "" || len(r.Steps) != 5 {
		t.Errorf("%+v", r)
	}

	s.Must("echo vfio-pci > " + dev + "/driver_override; echo " + pci + " > " + dev + "/driver/unbind; echo " + pci +
		" > /sys/bus/pci/drivers_probe")
	stuck := bound()
	if r := recovers(4, "--dry-run"); r.Verdict != mended.Mendable || !r.Reset || bound() != stuck {
		t.Errorf("looked at: %+v, now %s", r, bound())
	}
	group := s.Must("basename $(readlink " + dev + "/iommu_group)")
	held := s.Must("(exec 7<>/dev/vfio/" + group + "; exec sleep 1000) >/dev/null 2>&1 & echo $!")
	if r := recovers(4); r.Verdict != mended.Taken || bound() != stuck ||
		!strings.Contains(r.Steps[len(r.Steps)-1].Found, "sleep (process "+held+")") {
		t.Errorf("taken: %+v", r)
	}
	if r := s.MPPS(1, "sriov", "reset", one); !strings.Contains(r.Stderr, "sleep (process "+held+") has it open") {
		t.Errorf("reset: %s", r.Stderr)
	}
	s.Must("kill -0 " + held + " && kill " + held)
	r := recovers(0)
	if r.Verdict != mended.Mendable || r.After != mended.Well || r.Transaction == "" || bound() != found ||
		strings.Contains(r.WasReset, "not done") {
		t.Errorf("mended: %+v, now %s", r, bound())
	}
	s.MPPS(0, "rollback")
	if now := bound(); now != stuck {
		t.Errorf("after the rollback %s, before %s", now, stuck)
	}
	s.MPPS(0, "sriov", "recover", one)

	s.Must("echo " + pci + " > " + dev + "/driver/unbind")
	if r := recovers(0); r.After != mended.Well || bound() != found {
		t.Errorf("without a driver: %+v, now %s", r, bound())
	}
	s.Must("ip link set " + s.pf + " down")
	if r := recovers(0); r.After != mended.Well || !strings.Contains(s.Must("ip -br link show "+s.pf), "UP") {
		t.Errorf("down: %+v", r)
	}
	s.Must("for i in 1 2 3 4; do mpps rollback --force || break; done; ip link set " + s.pf + " up")
}
