// Package e2e runs the built program on a whole KVM host, the emulated one of package lab, over its real kernel,
// drivers and guests, and asks other programs (ethtool, ip, virsh, taskset, iptables, nft, sysctl) whether what mpps
// says and does is so. It holds tests only, with build tag lab. They assert states, counts and large ratios; times and
// rates of an emulated host prove nothing.
package e2e
