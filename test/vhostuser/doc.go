// Package vhostuser plays mpps on a real Open vSwitch with DPDK, whose polling thread carries packets between a veth
// and a guest's vhost-user ring. DPDK's testpmd has the guest's part.
package vhostuser
