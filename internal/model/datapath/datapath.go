// Package datapath names the stages that a packet passes on a KVM host, in the order in which it passes them from the
// wire to the guest's application. Every other package uses these names: a knob acts at a stage, a finding is shown
// at a stage, a bottleneck is a stage.
package datapath

import "fmt"

// Stage is one station on the way of a packet.
type Stage int

// The stages in path order. Firmware, Kernel and CPU come first because everything after them runs on top of them.
const (
	Firmware  Stage = iota + 1 // what the machine was set up to be before any kernel ran
	Kernel                     // version, boot arguments, mitigations
	CPU                        // clocks, idle states, memory policy
	NIC                        // the physical function: rings, queues, coalescing, offloads, interrupts
	Netfilter                  // hooks that a bridged or routed packet runs through
	Bridge                     // the forwarding database between NIC and tap
	Overlay                    // GRE, VXLAN, GENEVE devices
	Softirq                    // NET_RX: backlog, budget, weight
	KVM                        // the hypervisor module
	Vhost                      // the threads that copy between tap and vring
	Placement                  // which CPU, node and page serves what
	Domain                     // what libvirt's domain XML says
	SRIOV                      // virtual functions
	Realtime                   // housekeeping for wake-up latency
	Guest                      // inside the guest
)

var names = [...]string{
	Firmware: "firmware", Kernel: "kernel", CPU: "cpu", NIC: "nic", Netfilter: "netfilter", Bridge: "bridge",
	Overlay: "overlay", Softirq: "softirq", KVM: "kvm", Vhost: "vhost", Placement: "placement", Domain: "domain",
	SRIOV: "sriov", Realtime: "realtime", Guest: "guest",
}

// Stages lists all stages in path order.
func Stages() []Stage {
	all := make([]Stage, 0, len(names)-1)
	for s := Firmware; s <= Guest; s++ {
		all = append(all, s)
	}
	return all
}

// String is the stage's name as it stands in JSON and in every output.
func (s Stage) String() string {
	if s < Firmware || s > Guest {
		return fmt.Sprintf("stage(%d)", int(s))
	}
	return names[s]
}

// MarshalText writes the stage's name.
func (s Stage) MarshalText() ([]byte, error) {
	if s < Firmware || s > Guest {
		return nil, fmt.Errorf("unknown stage %d", int(s))
	}
	return []byte(names[s]), nil
}

// UnmarshalText reads a stage's name.
func (s *Stage) UnmarshalText(b []byte) error {
	for i := Firmware; i <= Guest; i++ {
		if names[i] == string(b) {
			*s = i
			return nil
		}
	}
	return fmt.Errorf("unknown stage %q", b)
}
