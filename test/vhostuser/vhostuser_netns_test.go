//go:build netns

package vhostuser

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/machine/ovs"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// busyHost is the share of the time that the polling thread waits for its CPU from which on the machine has other work,
// and that is the bottleneck, whatever else was planted.
const busyHost = 0.1

// TestPackets sends packets through a real polling thread to a guest that takes them, does not take them, sends more
// than the thread can carry, and beside a program on the thread's CPU.
func TestPackets(t *testing.T) {
	s, child := open(t)
	if !child {
		return
	}
	s.connect()
	s.tell("start")
	h := s.host()
	paths := reach.Of(h).Paths
	want := "[{vhu0 vhost-user 0} {br0 pmd 0} {p0 dpdk 0}]" // all in the host's namespace
	must.Need(t, len(paths) == 1 && paths[0].Judged() && fmt.Sprint(paths[0].Hops) == want,
		"path %+v, expected %s", paths, want)
	if pmd := h.OpenVSwitch.Polled.PMD(pmdCPU); pmd == nil || len(pmd.Queues) != 2 {
		t.Errorf("polling threads: %+v", h.OpenVSwitch.Polled.PMDs)
	}
	must.Hold(t, len(h.OpenVSwitch.Polled.Pools) != 0, "no pool of buffers was read: %+v", h.Unseen)
	for _, c := range []struct {
		name     string
		rate     int
		commands []string
		hog      bool
		want     bottleneck.Kind // empty: none
	}{
		{"healthy", 1000, nil, false, ""},
		{"the guest does not empty its ring", 4000, []string{"stop"}, false, bottleneck.VhostUserRing},
		{"another program on the CPU", 1000, []string{"start"}, true, bottleneck.PMDShared},
		{"the guest sends all it can", 0, []string{"stop", "set fwd txonly", "start"}, false, bottleneck.PMDFull},
	} {
		s.tell(c.commands...)
		var hog *exec.Cmd
		if c.hog {
			hog = exec.Command("taskset", "-c", fmt.Sprint(pmdCPU), "sh", "-c", "while :; do :; done")
			s.run(hog)
		}
		stop := s.send(c.rate)
		s.diagnose(h) // until flows and rings are as they stay
		l, d, waited := s.diagnose(h)
		stop()
		if hog != nil {
			_ = hog.Process.Kill()
		}
		got := bottleneck.Kind("")
		if d.Bottleneck != nil {
			got = d.Bottleneck.Kind
		}
		t.Logf("%s: %q, %s; PMD busy for %.2f, waited %.2f, ports %+v", c.name, got, d.Why,
			l.Polled.PMD(pmdCPU).Busy(), waited, l.Polled.Ports)
		switch {
		case got == c.want:
		case got == bottleneck.PMDShared && waited >= busyHost:
			t.Logf("%s: others have the CPU of the polling thread", c.name)
		case c.want == bottleneck.PMDFull && l.Polled.PMD(pmdCPU).Busy() < 0.92:
			t.Logf("%s: the guest sends too little to fill the thread", c.name)
		default:
			t.Errorf("%s: expected %q, got %q: %s", c.name, c.want, got, d.Why)
		}
		if c.want == bottleneck.VhostUserRing && (d.Bottleneck == nil || portDrops(l) == 0) {
			t.Errorf("the port dropped nothing: %+v", l.Polled.Ports)
		}
	}
}

func portDrops(l *facts.Load) uint64 {
	for _, p := range l.Polled.Ports {
		if p.Name == "vhu0" {
			return p.TxDropped
		}
	}
	return 0
}

// TestMask moves the polling thread through the database, and back: every byte of the row is as before.
func TestMask(t *testing.T) {
	s, child := open(t)
	if !child {
		return
	}
	row := func() string { return s.vsctl("--columns=other_config", "list", "Open_vSwitch") }
	s.await("the polling thread", func() bool { return s.host().OpenVSwitch.Polled.PMD(pmdCPU) != nil })
	before := row()
	at := setting.Of(setting.OVSDB, "pmd-cpu-mask")
	m := ovs.Mechanisms(s.m)[setting.OVSDB]
	was := m.Read(t.Context(), at)
	must.Do(t, m.Write(t.Context(), at, setting.Value(setting.OVSMask(setting.CPUs(0)))))
	s.await("the polling thread on CPU 0", func() bool {
		cpus := s.host().OpenVSwitch.Polled.PMDCPUs()
		return cpus.Equal(setting.CPUs(0))
	})
	must.Equal(t, m.Read(t.Context(), at).String(), "0x1", "read back")
	must.Do(t, m.Write(t.Context(), at, was))
	s.await("the polling thread on its CPU", func() bool {
		return s.host().OpenVSwitch.Polled.PMDCPUs().Equal(setting.CPUs(pmdCPU))
	})
	must.Equal(t, row(), before, "the row was")
	if err := m.Write(t.Context(), at, setting.Value("0x0")); err == nil || !strings.Contains(row(), before) {
		t.Error("a mask without CPUs was written")
	}
}
