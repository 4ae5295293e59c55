# The network of L0: a namespace without uplink, a bridge, a tap for each NIC of L1.
# Run inside it.
set -e
for f in all default; do
	[ ! -e /proc/sys/net/ipv6/conf/$f/disable_ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/$f/disable_ipv6
done
ip link set lo up
ip link add br0 type bridge
ip addr add 10.99.0.1/24 dev br0
ip tuntap add p0 mode tap
ip tuntap add p1 mode tap
ip tuntap add v0 mode tap multi_queue
for t in p0 p1 v0; do ip link set $t master br0 up; done
ip link set br0 up
