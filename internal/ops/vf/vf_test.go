package vf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/advise/sriov"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// snapshot is a host with a card of two functions, one of which a guest has.
func snapshot(t *testing.T) string {
	t.Helper()
	h := &facts.Host{Name: "box", Readings: facts.Readings{}, NICs: []facts.NIC{
		{Name: "eth0", Driver: "igb", Up: true, Carrier: "up", Speed: 1000, Node: -1,
			SRIOV: &facts.SRIOV{Total: 7, Enabled: 2}},
	}}
	for i, pci := range []string{"0000:01:10.0", "0000:01:10.1"} {
		h.VFs = append(h.VFs, facts.VF{PF: "eth0", Index: i, PCI: pci, Group: 20 + i, MAC: facts.NoMAC,
			SpoofCheck: true})
	}
	h.Guests = []facts.Guest{{Name: "vm1", Managed: true, State: "running", Definition: "<domain/>",
		Hostdevs: []string{"0000:01:10.1"}}}
	name := filepath.Join(t.TempDir(), "host.json")
	f := must.Get(os.Create(name))(t)
	must.Do(t, errors.Join(facts.Write(f, h, "test"), f.Close()))
	return name
}

// TestOfSnapshot: functions of a snapshot are listed, checked and shown from their guest's side.
func TestOfSnapshot(t *testing.T) {
	t.Parallel()
	env, file := &ops.Env{Root: "/nowhere", Out: ops.Deaf{}}, snapshot(t)
	h, l, err := List(t.Context(), env, file, sriov.Which{Free: true})
	must.Do(t, err)
	must.Hold(t, h.Name == "box" && len(l.VFs) == 1 && l.VFs[0].PCI == "0000:01:10.0", "free on %s: %+v", h.Name, l.VFs)
	if _, _, err := Check(t.Context(), env, file, "eth0"); err != nil {
		t.Error(err)
	}
	_, _, err = Check(t.Context(), env, file, "eth9")
	if code, _ := outcome.Of(err); err == nil || code != outcome.CodeFailed {
		t.Errorf("eth9: %v", err)
	}
	if _, side, err := Guest(t.Context(), env, file, "vm1"); err != nil || len(side.Functions) != 1 {
		t.Errorf("vm1: %+v, %v", side, err)
	}
}

// TestRefused: nothing is tried on a host that has no functions.
func TestRefused(t *testing.T) {
	t.Parallel()
	env := &ops.Env{Root: t.TempDir(), Out: ops.Deaf{}}
	for what, verb := range map[string]func() (*change.Outcome, error){
		"create": func() (*change.Outcome, error) {
			return Create(t.Context(), env, sriov.CreateRequest{PF: "eth0", Count: 2}, change.Options{})
		},
		"destroy": func() (*change.Outcome, error) {
			return Destroy(t.Context(), env, "eth0", false, change.Options{})
		},
		"set": func() (*change.Outcome, error) {
			return Set(t.Context(), env, strings.Fields("eth0/1 vlan 7"), change.Options{})
		},
		"reset": func() (*change.Outcome, error) {
			return Reset(t.Context(), env, ResetOptions{Free: "eth0"}, change.Options{})
		},
		"assign": func() (*change.Outcome, error) {
			_, d, err := Assign(t.Context(), env, sriov.Request{Guest: "vm1", Form: facts.ByInterface}, change.Options{},
				0)
			return d, err
		},
		"release": func() (*change.Outcome, error) {
			_, d, err := Release(t.Context(), env, sriov.Return{Guest: "vm1"}, change.Options{}, 0)
			return d, err
		},
	} {
		if d, err := verb(); err == nil || d != nil {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
	}
	if _, r, err := Recover(t.Context(), env, []string{"eth0/1"}, true); err == nil || r != nil {
		t.Errorf("recover: %+v, %v", r, err)
	}
}
