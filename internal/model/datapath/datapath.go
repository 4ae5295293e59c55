// Package datapath names the stages of the packet path on a KVM host, in order from the wire to the guest's
// application. Every other package uses these names: a knob acts at a stage, a finding is shown at a stage, a
// bottleneck is a stage.
package datapath

import (
	"fmt"
	"slices"
)

// Stage is a stage of the packet path.
type Stage int

// The stages in path order. Firmware, Kernel and CPU come first because all others depend on them.
const (
	Firmware  Stage = iota + 1 // the machine's firmware setup
	Kernel                     // version, boot arguments, mitigations
	CPU                        // clocks, idle states, memory policy
	NIC                        // the physical function: rings, queues, coalescing, offloads, interrupts
	Netfilter                  // hooks that bridged and routed packets pass
	Routing                    // the host's network layer: routes, neighbours, source checks
	Bridge                     // the forwarding database between NIC and tap
	Overlay                    // GRE, VXLAN, GENEVE devices
	Softirq                    // NET_RX: backlog, budget, weight
	KVM                        // the hypervisor module
	Vhost                      // threads that copy between tap and vring
	Placement                  // assignment of CPUs, nodes and pages
	Domain                     // libvirt domain XML
	SRIOV                      // virtual functions
	Realtime                   // housekeeping for wake-up latency
	Guest                      // inside the guest
)

var names = [...]string{
	Firmware: "firmware", Kernel: "kernel", CPU: "cpu", NIC: "nic", Netfilter: "netfilter", Routing: "routing",
	Bridge: "bridge", Overlay: "overlay", Softirq: "softirq", KVM: "kvm", Vhost: "vhost", Placement: "placement",
	Domain: "domain", SRIOV: "sriov", Realtime: "realtime", Guest: "guest",
}

// String returns the stage's name, as in JSON and in every output.
func (s Stage) String() string {
	if s < Firmware || s > Guest {
		return fmt.Sprintf("stage(%d)", int(s))
	}
	return names[s]
}

func (s Stage) MarshalText() ([]byte, error) {
	if s < Firmware || s > Guest {
		return nil, fmt.Errorf("unknown stage %d", int(s))
	}
	return []byte(names[s]), nil
}

func (s *Stage) UnmarshalText(b []byte) error {
	i := slices.Index(names[:], string(b))
	if i < int(Firmware) {
		return fmt.Errorf("unknown stage %q", b)
	}
	*s = Stage(i)
	return nil
}
