//go:build lab

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
	"mpps/internal/ops/accept"
)

// tunnel puts the guest's bridge behind a VXLAN over one port, whose other end is in a namespace with the port that it
// is cabled to.
const tunnel = `set -e
ip netns add far
ip link add ens1f0 numtxqueues 4 numrxqueues 4 type veth peer name ens1f1 numtxqueues 4 numrxqueues 4 netns far
ip link set ens1f0 up
ip address add 192.0.2.1/24 dev ens1f0
ip link add vxlan0 type vxlan id 5 local 192.0.2.1 remote 192.0.2.2 dstport 4789 dev ens1f0
ip link set vxlan0 master br0 up
ip -n far link set ens1f1 up
ip -n far address add 192.0.2.2/24 dev ens1f1
ip -n far link add vxlan0 type vxlan id 5 local 192.0.2.2 remote 192.0.2.1 dstport 4789
ip -n far address add 10.50.0.3/24 dev vxlan0
ip -n far link set vxlan0 up`

// TestAcceptanceQueues carries out the experiment on queues with a guest: one queue, many, and many that are kept apart
// to the wire, with the three starts of the guest that these need.
func TestAcceptanceQueues(t *testing.T) {
	labtest.Long(t)
	const queues = 2
	b := openBoxWith(t, lab.NIC{Model: lab.Vhost, Queues: queues})
	b.Must(tunnel)
	b.snapshot("first.json")
	resume := []string{"acceptance", "queues", "--resume", "-o", "/share/accepted"}
	b.MPPS(2, "acceptance", "queues", "--short", "-o", "/share/accepted", "--guest", guestName, "--queues",
		fmt.Sprint(queues), "--from", "netns:far/vxlan0", "--agent", fmt.Sprintf("%s:%d", guestIP, agentPort),
		"--secret-file", "/share/secret", "--sink", "af_packet")
	for _, more := range []int{2, 0} { // with one queue, with many
		must.Do(b, b.guest.Restart(b.Context()))
		answer := b.MPPS(more, resume...)
		b.Logf("%s", answer.Stdout)
	}
	r := accepted(b, "queues")
	must.Need(b, r.State == acceptance.Done && len(r.Standing) == 0, "%s: %s; transactions %v", r.State, r.Why,
		r.Standing)
	r.Inputs.Dir = filepath.Join(b.Lab.ShareDir(), strings.TrimPrefix(r.Inputs.Dir, "/share"))
	o := must.Get(accept.Outcomes(r))(b)
	carried, have := acceptance.TapQueues(o.Paths["met"])
	must.Hold(b, carried == queues && have == queues, "%d of %d queues carried packets", carried, have)
	for _, f := range r.Figures {
		must.Hold(b, f.Measured != nil && f.Measured.Value > 0, "%s: %+v", f.ID, f.Measured)
	}
	must.Do(b, b.guest.Restart(b.Context())) // the rollback's
	b.MPPS(3, "status", "--detailed-exit-code")
	b.unchanged("first.json")
}
