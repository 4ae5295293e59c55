//go:build lab

package queuepath

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"mpps/internal/advise/queuepath"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// TestTunnelDevices runs cmd/mpps' TestSteerManyFlows on the emulated host, whose kernel has all tunnels: flows are
// judged by what is inside them, so that 2,000 healthy ones are found healthy and the one that moves is found.
func TestTunnelDevices(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t)
	program := filepath.Join(l.ShareDir(), "steer.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "netns", "-o", program, "mpps/cmd/mpps")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := labtest.On(t, l)
	s.Must("cp /share/steer.test /tmp; modprobe -a vxlan geneve ip_gre ip6_gre fou bridge tun veth")
	for _, kind := range []string{"vxlan", "vxlan-port", "geneve", "gretap", "ip6gretap", "gretap-key", "gretap-fou",
		"gretap-gue"} {
		t.Run(kind, func(t *testing.T) {
			out := s.In(t).Must("cd /tmp && MPPS_TEST_EMULATED=1 ./steer.test -test.run " +
				"'^TestSteerManyFlows$/^" + kind + "$' -test.v")
			must.Contain(t, out, "--- PASS: TestSteerManyFlows/"+kind+" ")
			t.Log(out)
		})
	}
}

// TestWatchingLoads: the kernel of the emulated host takes the watching programs, each with every packet and in
// windows: its verifier knows less than that of a newer kernel.
func TestWatchingLoads(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t)
	s := labtest.On(t, l)
	for _, argv := range [][]string{{"path", "--for", "1s"}, {"path", "--for", "1s", "--every-packet"}} {
		p := labtest.Answer[queuepath.Path](s, 0, argv...)
		unseen := slices.DeleteFunc(p.Unseen, func(u queuepath.Unseen) bool { // emulated CPUs spin
			return u.What == "the first of the CPUs that wait for a transmit queue's lock"
		})
		if p.Watched <= 0 || len(unseen) > 0 {
			t.Errorf("%v: watched for %v s of %v, unseen: %+v", argv, p.Watched, p.Seconds, unseen)
		}
	}
}
