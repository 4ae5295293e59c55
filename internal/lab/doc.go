// Package lab is a KVM host in a box: a Debian 13 machine ("L1") under QEMU with KVM, vhost-net, an
// SR-IOV NIC behind an IOMMU, two NUMA nodes and libvirt, in which guests ("L2") run. The machine
// that the lab runs on is "L0". Without hardware virtualisation L1 is emulated (TCG), and its figures
// are those of an emulator: assert on state, counts and large ratios, never on absolute rates.
//
//	Prepare   builds L1's root tree once, in a cache
//	Start     boots a lab and gives a handle; Attach finds one that another process has started
//	Run       runs a command in L1; Shell a script; Put and Get move files through /share
//	Guest     boots a guest in L1 whose init is a static Go program
//	Stop      ends everything by process ID; Reap does it for labs whose owner is gone
package lab
