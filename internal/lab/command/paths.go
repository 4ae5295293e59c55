package command

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"mpps/internal/lab"
	"mpps/internal/measure"
	"mpps/internal/measure/traffic/agent"
)

// The host of the paths has one guest with a NIC on each of them. A namespace stands for the second host: it has an end
// of a veth pair on each path, so that no NIC's emulation hides what differs.

// underPlan ends the name of a path that is measured under mpps' plan for the guest.
const underPlan = "+plan"

// pathsPlan is the plan on the emulated host.
const pathsPlan = "/share/plan.json"

const pathsGuest = "vm1"

// paths are the ways to the guest. The number of each is in its names and addresses: g5 in the namespace and p5 on the
// host are a pair, t5 is the guest's tap, which has 10.60.5.2.
var paths = []struct {
	name   string
	from   string // in the namespace; empty: the pair's end
	routed bool
}{
	{name: "bridge"}, {name: "ovs"}, {name: "ovs-ct"}, {name: "geneve-ct", from: "gv4"},
	{name: "nat", routed: true}, {name: "nat-flowtable", routed: true}, {name: "macvtap"},
}

var pathModes = &campaign{
	name: "paths", short: "compare ways to a guest: bridge, OVS, Geneve, NAT, macvtap",
	scene: "with a guest that has a NIC on each path",
	long: `
Boots an emulated host whose guest is reached by a Linux bridge, Open vSwitch,
Open vSwitch with connection tracking, the same behind a Geneve tunnel as with
OVN, NAT, NAT with a flowtable, and macvtap. Measures each as found and under
mpps' plan for the guest, in turns, with 'mpps bench modes' (see its help), and
stops the host. The rates are those of an emulator: only their ratios mean
something, and not much.

  mpps-lab paths
  mpps-lab paths --only ovs,nat --repeat 6 -o paths.json
  mpps report paths.json -o paths.html`,
	reference: "bridge", modes: pathsInOrder(), furnish: (*modesScene).furnishPaths,
	notes: []string{
		"one guest with two vCPUs, 256 MiB and a NIC with vhost on each path; packets come from a namespace of the " +
			"lab host by a veth pair for each path, so that no physical NIC is on the way",
		"as found, iptables has 254 rules in FORWARD, bridged frames walk through them, and no thread is placed; " +
			"+plan is the host under 'mpps plan --pps 1M --consent security --runtime-only', applied and rolled back " +
			"for each sample",
		"ovs-ct and geneve-ct commit every flow to a zone, as security groups and OVN's ACLs do; nat masquerades",
	},
}

// pathsInOrder lists each path as found and under the plan.
func pathsInOrder() (all []measure.Mode) {
	for i, p := range paths {
		k := strconv.Itoa(i + 1)
		m := measure.Mode{Name: p.name, Agent: net.JoinHostPort("10.60."+k+".2", agent.Port)}
		m.From = "netns:gen/" + cmp.Or(p.from, "g"+k)
		if p.routed {
			m.Gateway = "10.61." + k + ".254"
		}
		planned := m
		planned.Name, planned.Plan = p.name+underPlan, pathsPlan
		all = append(all, m, planned)
	}
	return all
}

// pathsSetup furnishes the host but for the guest, whose taps are in bridges at first. GRO at the host's end of a pair
// has it take XDP frames. Frames of a measurement go to 198.19.0.0/16: routers have it by the way they came.
var pathsSetup = `set -e
modprobe -a openvswitch geneve veth macvtap br_netfilter nft_flow_offload
sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
	net.ipv4.conf.default.rp_filter=0
for i in $(seq 254); do echo "-A FORWARD -s 192.0.2.$i -j RETURN"; done | { echo '*filter'; cat; echo COMMIT; } |
	iptables-legacy-restore -n
ip netns add gen
ip -n gen link set lo up
for k in $(seq ` + strconv.Itoa(len(paths)) + `); do
	ip link add p$k type veth peer name g$k netns gen
	ethtool -K p$k gro on
	ip link set p$k up
	ip -n gen link set g$k up
done
for k in 1 2 3 7; do ip -n gen addr add 10.60.$k.1/24 dev g$k; done
for k in 4 5 6; do
	ip -n gen addr add 10.61.$k.1/24 dev g$k
	ip addr add 10.61.$k.254/24 dev p$k
done
for k in 1 2 3 4 5 6; do
	ip link add lb$k type bridge forward_delay 0
	ip link set lb$k up
done
ip link set p1 master lb1
for k in 5 6; do
	ip addr add 10.60.$k.254/24 dev lb$k
	ip -n gen route add 10.60.$k.0/24 via 10.61.$k.254
	ip rule add iif p$k lookup 10$k
	ip route add 198.19.0.0/16 via 10.60.$k.2 table 10$k
done
ip route add 198.18.0.0/16 via 10.61.6.1
nft -f - <<N
table ip paths {
	flowtable ft { hook ingress priority 0; devices = { p6, lb6 }; }
	chain forward { type filter hook forward priority 0; iifname "p6" meta l4proto { tcp, udp } flow add @ft; }
	chain post { type nat hook postrouting priority srcnat; oifname { "lb5", "lb6" } masquerade; }
}
N
/usr/share/openvswitch/scripts/ovs-ctl --no-monitor --no-record-hostname --system-id=lab start >/run/ovs-ctl.log 2>&1
for k in 2 3 4; do ovs-vsctl add-br ob$k; done
for k in 2 3; do ovs-vsctl add-port ob$k p$k; done
ovs-vsctl add-port ob4 gnv4 -- set interface gnv4 type=geneve options:remote_ip=10.61.4.1 options:key=4
ip -n gen link add gv4 type geneve id 4 remote 10.61.4.254
ip -n gen addr add 10.60.4.1/24 dev gv4
ip -n gen link set gv4 up
for k in 3 4; do
	ovs-ofctl add-flows ob$k - <<F
table=0,priority=10,ip,ct_state=-trk,actions=ct(table=1,zone=$k)
table=1,priority=10,ip,ct_state=+trk+new,actions=ct(commit,zone=$k),NORMAL
table=1,priority=10,ip,ct_state=+trk+est,actions=NORMAL
F
done
`

// pathsTaps moves the guest's taps from their bridges to Open vSwitch.
const pathsTaps = `set -e
for k in 2 3 4; do
	ip link set t$k nomaster
	ip link del lb$k
	ovs-vsctl add-port ob$k t$k
done
`

// furnishPaths starts the guest, and makes the plan for it.
func (s *modesScene) furnishPaths(ctx context.Context) error {
	if _, err := s.lab.Must(ctx, pathsSetup); err != nil {
		return fmt.Errorf("set up the lab host: %w", err)
	}
	spec := lab.GuestSpec{Name: pathsGuest, Binary: s.programs.init, Direct: true,
		Args:    []string{"mpps.secret=" + modesSecret},
		Modules: []string{"veth"}, // the agent measures its receiver alone behind a veth pair
		Probe:   lab.TCPProbeFrom("gen", 7878),
	}
	for i := range paths {
		k := strconv.Itoa(i + 1)
		nic := lab.NIC{Model: lab.Vhost, Bridge: "lb" + k, Tap: "t" + k, Addr: "10.60." + k + ".2/24"}
		if paths[i].name == "macvtap" {
			nic.Model, nic.Bridge = lab.Macvtap, "p"+k
		}
		spec.NICs = append(spec.NICs, nic)
	}
	if _, err := s.lab.StartGuest(ctx, spec); err != nil {
		return err
	}
	s.step("guest %s is up", pathsGuest)
	if _, err := s.lab.Must(ctx, pathsTaps); err != nil {
		return fmt.Errorf("move the guest's taps: %w", err)
	}
	if !slices.ContainsFunc(s.wanted, func(m string) bool { return base(m) != m }) {
		return nil
	}
	_, err := s.lab.Must(ctx, "mpps plan -q --pps 1M --guest "+pathsGuest+" --consent security --runtime-only -o "+
		pathsPlan)
	return err
}
