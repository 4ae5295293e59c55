//go:build lab

package sriov

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// told is a virtual function as another program than mpps sees it: ip -j link show.
type told struct {
	VF        int    `json:"vf"`
	MAC       string `json:"address"`
	VLANs     []vlan `json:"vlan_list"`
	Rate      rate   `json:"rate"`
	SpoofChk  bool   `json:"spoofchk"`
	Trust     bool   `json:"trust"`
	LinkState string `json:"link_state"`
}

type vlan struct {
	VLAN int `json:"vlan"`
	QoS  int `json:"qos"`
}

type rate struct {
	Max int `json:"max_tx"`
	Min int `json:"min_tx"`
}

// vfs are the functions as ip sees them, and its text.
func (s *scene) vfs() ([]told, string) {
	s.Helper()
	text := s.Must("ip -j link show " + s.pf)
	var links []struct {
		VFs []json.RawMessage `json:"vfinfo_list"`
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil || len(links) != 1 {
		s.Fatalf("%v: %s", err, text)
	}
	var all []told
	raw := ""
	for _, one := range links[0].VFs {
		var v told
		if err := json.Unmarshal(one, &v); err != nil {
			s.Fatalf("%v: %s", err, one)
		}
		all, raw = append(all, v), raw+string(one)+"\n"
	}
	return all, raw
}

// brief is a function in one line.
func (v told) brief() string {
	tag := vlan{}
	if len(v.VLANs) > 0 {
		tag = v.VLANs[0]
	}
	onOff := map[bool]string{true: "on", false: "off"}
	return fmt.Sprintf("mac %s vlan %d qos %d rate %d spoofchk %s trust %s", v.MAC, tag.VLAN, tag.QoS, v.Rate.Max,
		onOff[v.SpoofChk], onOff[v.Trust])
}

// becomes waits until a function is as wanted.
func (s *scene) becomes(number int, want string, within time.Duration) {
	s.Helper()
	began := time.Now()
	for {
		all, _ := s.vfs()
		if got := all[number].brief(); strings.Contains(got, want) {
			s.Logf("%5.1f s until function %d has %s", time.Since(began).Seconds(), number, want)
			return
		} else if time.Since(began) > within {
			s.Fatalf("function %d has %s, expected %s within %v\n%s", number, got, want, within,
				s.Must("journalctl -q -o cat -u mpps-restore | tail -20"))
		}
		time.Sleep(200 * time.Millisecond)
	}
}

const untouched = "vlan 0 qos 0 rate 0 spoofchk on trust off"

// TestSet sets every attribute of a function, has others refused, takes everything back, and resets functions.
func TestSet(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.makes(3)
	_, before := s.vfs()
	one := s.pf + "/1"
	pci := s.Must("basename $(readlink /sys/class/net/" + s.pf + "/device/virtfn1)")

	s.MPPS(0, "sriov", "set", one, "mac", "52:54:00:0e:00:01", "vlan", "100", "qos", "3", "rate", "500", "spoofchk",
		"off", "trust", "on")
	all, _ := s.vfs()
	must.Equal(t, all[1].brief(), "mac 52:54:00:0e:00:01 vlan 100 qos 3 rate 500 spoofchk off trust on", "set")
	if others := all[0].brief() + all[2].brief(); strings.Count(others, untouched) != 2 {
		t.Errorf("others were touched: %s", others)
	}
	s.MPPS(0, "sriov", "set", s.pf, "vf", "1", "rate", "200", "vlan", "0")
	s.MPPS(0, "sriov", "set", pci, "qos", "0", "spoofchk", "on")
	all, set := s.vfs()
	must.Equal(t, all[1].brief(), "mac 52:54:00:0e:00:01 vlan 0 qos 0 rate 200 spoofchk on trust on", "set again")
	must.Equal(t, strings.Count(s.Must("cat /var/lib/mpps/desired.json"), s.pf+"/1/max_tx_rate"), 1,
		"times the rate is kept")

	// What igb does not take, and what nobody should, is refused and changes nothing.
	for _, c := range []struct {
		words, because string
		code           int
	}{
		{"state enable", "cannot set link_state", 1},
		{"min-rate 10", "guarantees no rate", 1},
		{"rate 1001", "1 to 1000", 1},
		{"mac 01:00:5e:00:00:01", "address of a group", 64},
		{"mac 00:00:00:00:00:00", "no address", 1},
		{"mac 52:54:00:00:02:00", "is the address of NIC " + s.pf, 1},
		{"vlan 4095", "0 to 4094", 64},
		{"vlan 7 rate 5000", "1 to 1000", 1},
		{"rx-rate 100", "cannot be limited", 64},
		{"colour red", "no attribute", 64},
	} {
		r := s.MPPS(c.code, append([]string{"sriov", "set", one}, strings.Fields(c.words)...)...)
		if !strings.Contains(r.Stderr, c.because) || !strings.Contains(r.Stderr, "hint:") && c.code == 1 &&
			!strings.Contains(c.words, "vlan") {
			t.Errorf("%s: %s", c.words, r.Stderr)
		}
	}
	if _, now := s.vfs(); now != set {
		t.Errorf("after the refusals:\n%sbefore:\n%s", now, set)
	}
	s.MPPS(0, "sriov", "set", one, "trust", "off", "--dry-run")
	if _, now := s.vfs(); now != set {
		t.Error("a dry run changed something")
	}

	// Made again by hand, functions get what mpps keeps of them.
	s.Must("echo 0 > /sys/class/net/" + s.pf + "/device/sriov_numvfs; echo 3 > /sys/class/net/" + s.pf +
		"/device/sriov_numvfs")
	s.becomes(1, "mac 52:54:00:0e:00:01 vlan 0 qos 0 rate 200 spoofchk on trust on", time.Minute)

	s.MPPS(0, "sriov", "reset", one)
	all, _ = s.vfs()
	if !strings.Contains(all[1].brief(), untouched) || all[1].MAC == "52:54:00:0e:00:01" {
		t.Errorf("reset: %s", all[1].brief())
	}
	must.Lack(t, s.Must("cat /var/lib/mpps/desired.json 2>/dev/null || true"), s.pf+"/1/")
	s.MPPS(0, "rollback")
	s.becomes(1, "mac 52:54:00:0e:00:01 vlan 0 qos 0 rate 200 spoofchk on trust on", time.Minute)
	for range 3 {
		s.MPPS(0, "rollback")
	}
	// Their drivers on the host have chosen addresses since; all else is as it was.
	all, now := s.vfs()
	for _, v := range all {
		before, now = strings.ReplaceAll(before, v.MAC, "its own"), strings.ReplaceAll(now, v.MAC, "its own")
	}
	must.Hold(t, strings.Contains(all[1].brief(), untouched), "after the rollbacks:\n%sbefore:\n%s", now, before)
	s.MPPS(3, "status", "--detailed-exit-code")
}

// TestLeft: what a guest had set for its function is there for the next guest where nobody looks after it, and is not
// where mpps does.
func TestLeft(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.makes(2)
	function := s.Must("basename $(readlink /sys/class/net/" + s.pf + "/device/virtfn0)")
	for name, words := range map[string]string{"a": ",vlan=7,mac=52:54:00:0e:00:0a", "b": ",mac=52:54:00:0e:00:0b"} {
		s.MPPS(0, "domain", "render", "--name", name, "--vcpus", "1", "--memory", "128MiB", "--nic", "vf="+
			function+words, "-o", "/run/"+name+".xml")
		s.Must("virsh -q define /run/" + name + ".xml")
	}
	start := func(name string) { s.Must("virsh -q start --paused " + name) }
	end := func(name string) { s.Must("virsh -q destroy " + name) }

	start("a")
	s.Must("ip link set " + s.pf + " vf 0 max_tx_rate 100; ip link set " + s.pf + " vf 0 trust on; ip link set " +
		s.pf + " vf 0 spoofchk off")
	end("a")
	start("b")
	all, _ := s.vfs()
	if got := all[0].brief(); !strings.HasSuffix(got, "rate 100 spoofchk off trust on") {
		t.Errorf("without mpps the next guest has %s: nothing is left to be proven", got)
	}
	end("b")
	s.Must("ip link set " + s.pf + " vf 0 max_tx_rate 0; ip link set " + s.pf + " vf 0 trust off; ip link set " + s.pf +
		" vf 0 spoofchk on")

	start("a")
	s.MPPS(0, "sriov", "set", s.pf+"/0", "rate", "100", "trust", "on")
	s.Must("ip link set " + s.pf + " vf 0 spoofchk off") // and something that nobody keeps
	for _, refused := range [][]string{{"set", s.pf + "/0", "vlan", "8"},
		{"set", s.pf + "/0", "mac", "52:54:00:0e:00:0c"}, {"reset", s.pf + "/0"}, {"reset", "--guest", "a"}} {
		if r := s.MPPS(1, append([]string{"sriov"}, refused...)...); !strings.Contains(r.Stderr, "guest a") ||
			!strings.Contains(r.Stderr, "hint:") {
			t.Errorf("%v: %s", refused, r.Stderr)
		}
	}
	all, _ = s.vfs()
	must.Equal(t, all[0].brief(), "mac 52:54:00:0e:00:0a vlan 7 qos 0 rate 100 spoofchk off trust on", "a runs with")
	end("a")
	s.becomes(0, "vlan 0 qos 0 rate 100 spoofchk on trust on", time.Minute) // what is kept for a waits for it
	start("b")
	s.becomes(0, "mac 52:54:00:0e:00:0b vlan 0 qos 0 rate 0 spoofchk on trust off", time.Minute)
	time.Sleep(3 * time.Second) // and stays so
	s.becomes(0, "mac 52:54:00:0e:00:0b vlan 0 qos 0 rate 0 spoofchk on trust off", 0)
	end("b")
	s.becomes(0, "rate 100 spoofchk on trust on", time.Minute)
	start("a")
	s.becomes(0, "mac 52:54:00:0e:00:0a vlan 7 qos 0 rate 100 spoofchk on trust on", time.Minute)
	end("a")
	s.Must("virsh -q undefine a")
	s.becomes(0, untouched, time.Minute)
	start("b")
	s.becomes(0, "mac 52:54:00:0e:00:0b "+untouched, time.Minute)
	end("b")
	s.MPPS(0, "sriov", "reset", "--guest", "b", "--attributes-only")
	s.Must("virsh -q undefine b")
	s.Must("for i in 1 2 3; do mpps rollback --force || break; done")
}
