//go:build netns

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// TestAgentSendsOnEveryQueue: an agent behind a NIC of four queues sends by one worker for each, on a CPU of its own,
// so that several queues of the host's end carry packets; with --cpus 0 one does, and the step of acceptance says so.
func TestAgentSendsOnEveryQueue(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	h := newHostAndGuest(t)
	h.ip("-n", h.host, "link", "del", "tap0")
	h.ip("-n", h.host, "link", "add", "tap0", "numtxqueues", "4", "numrxqueues", "4", "type", "veth", "peer", "name",
		"eth0", "numtxqueues", "4", "numrxqueues", "4", "netns", h.guest)
	h.ip("-n", h.host, "link", "set", "tap0", "master", "br0", "up")
	h.ip("-n", h.guest, "address", "add", "10.50.0.2/24", "dev", "eth0")
	h.ip("-n", h.guest, "link", "set", "eth0", "up")
	step := &acceptance.Step{ID: "met", Gives: acceptance.Watched, Queues: 2}
	// A veth records no queue for live frames: see TestWorkersTakeQueues of package traffic.
	for cpus, several := range map[string]bool{"": true, "0": false} {
		argv := h.benchmark("pps", "--via", "br0", "--reverse", "--generator", "af_packet", "--repeat", "1000")
		argv[slices.Index(argv, "200ms")] = "1s"
		if cpus != "" {
			argv = append(argv, "--cpus", cpus)
		}
		load := exec.Command(argv[0], argv[1:]...)
		var said bytes.Buffer
		load.Stderr = &said
		must.Do(t, load.Start())
		o := h.watch(t, step)
		_ = load.Process.Signal(os.Interrupt)
		_ = load.Wait() // it was interrupted
		carried, have := acceptance.TapQueues(o.Paths[step.ID])
		t.Logf("--cpus %q: %d of %d queues", cpus, carried, have)
		var short *acceptance.QueueError
		err := o.CheckQueues(step)
		if several && (err != nil || carried < 2 || have != 4) {
			t.Errorf("%d of %d queues, %v: %s", carried, have, err, said.String())
		}
		if !several && (!errors.As(err, &short) || short.Carried != 1) {
			t.Errorf("on CPU %s: %d of %d queues, %v", cpus, carried, have, err)
		}
	}
}

// watch watches the host's queues until the load has come.
func (h *hostAndGuest) watch(t *testing.T, step *acceptance.Step) *acceptance.Outcomes {
	t.Helper()
	o := &acceptance.Outcomes{}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		code, stdout, stderr := program(t, "ip", "netns", "exec", h.host, "mpps", "--json", "path", "--for", "1s")
		if code != outcome.CodeOK {
			t.Fatalf("path: exit %d: %s", code, stderr)
		}
		must.Do(t, o.Add(step.ID, step.Gives, []byte(stdout)))
		var packets uint64
		for _, r := range o.Paths[step.ID].Rows {
			if r.First() && r.Origin.Device == "tap0" {
				packets += r.Packets
			}
		}
		if packets > 1000 {
			break
		}
	}
	return o
}
