// Package openvswitch plays mpps on a real Open vSwitch in the emulated KVM host: with the kernel's datapath, a tunnel
// over a NIC and a guest.
package openvswitch
