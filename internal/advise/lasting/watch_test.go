package lasting

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestWatchIsAskedFor: the service that watches is planned only where it is asked for, with its directories, and not
// where systemd does not run or somebody else's file is in its place.
func TestWatchIsAskedFor(t *testing.T) {
	h := host()
	h.Readings[wantsFolder] = setting.Missing("there is none")
	p := add(t, h, change("ksm:run", "1", "2"))
	must.Hold(t, find(p, "lasting.watch-service") == nil, "it is planned without being asked for")
	digest := p.Digest
	must.Do(t, Watch(p, h))
	unit, service := find(p, "lasting.watch-unit"), find(p, "lasting.watch-service")
	if unit == nil || service == nil || !strings.Contains(unit.To.Value, "ExecStart=/opt/mpps verify --watch "+
		"--metrics /run/mpps-watch/mpps.prom\n") || service.To.Value != "enabled" || p.Digest == digest {
		t.Errorf("unit %+v, service %+v", unit, service)
	}
	if last := p.Changes[len(p.Changes)-1]; last.Address != watchAddress {
		t.Errorf("the last change is %s", last.Address)
	}
	seen := map[setting.Address]bool{}
	for _, c := range p.Changes {
		must.Hold(t, !seen[c.Address], "%s is planned twice", c.Address)
		seen[c.Address] = true
	}
	after(h, p)
	again := &plan.Plan{Schema: plan.Schema}
	if err := Watch(again, h); err != nil || len(again.Changes) != 0 {
		t.Errorf("it is there: %v, %+v", err, again.Changes)
	}
	must.Hold(t, !Needed(watchAddress, []setting.Address{desiredAddress}),
		"the service is kept for a transaction that did not bring it")

	h = host()
	h.Lasting.Systemd = false
	must.Is(t, Watch(&plan.Plan{}, h), ErrNoWatch, "without systemd")
	h = host()
	h.Readings[watchFile] = setting.Value("[Service]\n")
	if err := Watch(&plan.Plan{}, h); !errors.Is(err, ErrNoWatch) ||
		!strings.Contains(err.Error(), "was not written by mpps") {
		t.Errorf("with a file of somebody else: %v", err)
	}
	h = host()
	h.Lasting.Packaged, h.Lasting.Program = true, ""
	p = &plan.Plan{Schema: plan.Schema}
	if err := Watch(p, h); err != nil || find(p, "lasting.watch-unit") != nil ||
		find(p, "lasting.watch-service") == nil {
		t.Errorf("with a package: %v, %+v", err, p.Changes)
	}
}
