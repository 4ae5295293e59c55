package command

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

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
var paths = []path{
	{name: "bridge"}, {name: "ovs"}, {name: "ovs-ct"}, {name: "geneve-ct", from: "gv4"},
	{name: "nat", gateway: "10.61.5.254"}, {name: "nat-flowtable", gateway: "10.61.6.254"},
	{name: "macvtap", nic: lab.NIC{Model: lab.Macvtap, Bridge: "p7"}},
	// The guest has the host's address. Forwarded to it: the test frames' port, the agent's and those it listens on.
	{name: "passt", gateway: "10.60.8.2", nic: lab.NIC{Model: lab.Passt, Bridge: "p8", UDP: "9",
		TCP: "10.60.8.2/" + agent.Port + "," + strings.ReplaceAll(pathsPorts, " ", "-")},
		needs: "command -v passt && qemu-system-x86_64 -netdev help | grep -x passt",
		lacks: "the lab's QEMU has no -netdev passt (since 10.1): 'mpps-lab clean', then MPPS_LAB_MIRROR=URL for a " +
			"mirror with Debian's backports"},
	{name: "vhost-user", nic: lab.NIC{Model: lab.VhostUser, Socket: "/run/vhu9"},
		needs: "[ -x " + pathsDPDK + " ] && grep -w sse4_2 /proc/cpuinfo",
		lacks: "the lab has no Open vSwitch with DPDK, or CPUs without SSE 4.2"},
}

// path is a way to the guest.
type path struct {
	name    string
	from    string  // sending device in the namespace; empty: its end of the veth pair
	gateway string  // next hop of the namespace's frames; empty: the guest
	nic     lab.NIC // without tap and address; no model: vhost
	// needs is a script that fails where the lab cannot have the path; lacks says what is missing then. Empty: none.
	needs, lacks string
}

// pathsPorts are the TCP ports that the guest listens on where a program asks for any.
const pathsPorts = "50000 50099"

// pathsDPDK is the ovs-vswitchd of Debian's openvswitch-switch-dpdk.
const pathsDPDK = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"

var pathModes = &campaign{
	name: "paths", short: "compare ways to a guest: bridge, OVS, NAT, macvtap, passt …",
	scene: "with a guest that has a NIC on each path",
	long: `
Boots an emulated host whose guest is reached by a Linux bridge, Open vSwitch,
Open vSwitch with connection tracking, the same behind a Geneve tunnel as with
OVN, NAT, NAT with a flowtable, macvtap, passt, and vhost-user with a polling
thread of Open vSwitch. Measures each as found and under mpps' plan for the
guest, in turns, with 'mpps bench modes' (see its help), and stops the host. The
rates are those of an emulator: only their ratios mean something, and not much.

  mpps-lab paths
  mpps-lab paths --only ovs,nat --repeat 6 -o paths.json
  mpps report paths.json -o paths.html`,
	reference: "bridge", modes: pathsInOrder(), furnish: (*modesScene).furnishPaths, store: pathsStore,
	notes: []string{
		"one guest with two vCPUs, 256 MiB and a NIC with vhost on each path; packets come from a namespace of the " +
			"lab host by a veth pair for each path, so that no physical NIC is on the way",
		"as found, iptables has 254 rules in FORWARD, bridged frames walk through them, and no thread is placed; " +
			"+plan is the host under 'mpps plan --pps 1M --consent security --runtime-only', applied and rolled back " +
			"for each sample",
		"ovs-ct and geneve-ct commit every flow to a zone, as security groups and OVN's ACLs do; nat masquerades",
		"passt gets frames by sockets of the host, whose address is the guest's, and no vhost; vhost-user is Open " +
			"vSwitch with DPDK: one polling thread, which sleeps when it has nothing to do, and a port on a packet " +
			"socket",
	},
}

// pathsInOrder lists each path as found and under the plan.
func pathsInOrder() (all []measure.Mode) {
	for i, p := range paths {
		k := strconv.Itoa(i + 1)
		m := measure.Mode{Name: p.name, Agent: net.JoinHostPort("10.60."+k+".2", agent.Port)}
		m.From = "netns:gen/" + cmp.Or(p.from, "g"+k)
		m.Gateway = p.gateway
		planned := m
		planned.Name, planned.Plan = p.name+underPlan, pathsPlan
		all = append(all, m, planned)
	}
	return all
}

// pathsSetup sets up all of the host except the guest, whose taps are in bridges at first. GRO on the host's end of a
// veth pair lets it receive XDP frames. Frames of a measurement go to 198.19.0.0/16: routers route it by the device a
// frame came in on, and for passt the host has 198.19.0.1 itself.
var pathsSetup = `set -e
modprobe -a openvswitch geneve veth macvtap br_netfilter nft_flow_offload
sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
	net.ipv4.conf.default.rp_filter=0 net.ipv4.ip_unprivileged_port_start=9
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
for k in 1 2 3 7 8 9; do ip -n gen addr add 10.60.$k.1/24 dev g$k; done
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
	ip rule add pref 1 iif p$k lookup 10$k
	ip route add 198.19.0.0/16 via 10.60.$k.2 table 10$k
done
ip route add 198.18.0.0/16 via 10.61.6.1
ip addr add 10.60.8.2/24 dev p8
ip addr add 198.19.0.1/32 dev p8
ip rule add pref 2 lookup local
ip rule del pref 0
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

// pathsPolled has Open vSwitch poll the pair's end and the guest's vrings from the last CPU. That thread sleeps for up
// to half a millisecond when it finds nothing: it would take an emulated CPU from every other path. A packet socket
// needs finished checksums and frames that GRO has not merged.
const pathsPolled = `set -e
ip netns exec gen ethtool -K g9 tx off
ip link set p9 gro_max_size 1500
ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true other_config:dpdk-lcore-mask=0x1 \
	other_config:pmd-cpu-mask=0x8 other_config:pmd-sleep-max=500 \
	other_config:dpdk-extra="--legacy-mem --no-huge --no-pci -m 256"
ovs-vsctl add-br ob9 -- set bridge ob9 datapath_type=netdev -- \
	add-port ob9 p9 -- set interface p9 type=dpdk options:dpdk-devargs=eth_af_packet0,iface=p9 -- \
	add-port ob9 vhu9 -- set interface vhu9 type=dpdkvhostuserclient options:vhost-server-path=/run/vhu9
[ "$(ovs-vsctl get interface p9 error)" = "[]" ]
`

// pathsStore prints what a plan may write: Open vSwitch's database without its counters, netfilter's rules, sysctls.
const pathsStore = `set -e
for t in Open_vSwitch Bridge Port Interface; do ovs-vsctl --columns=_uuid,other_config,external_ids list $t; done
ovs-vsctl --columns=name,options list Interface
nft -s list ruleset
iptables-legacy-save | sed 's/^#.*//; s/\[.*//'
sysctl -a 2>/dev/null | grep -E '^net\.(bridge|core|ipv4\.(conf|neigh|ip_forward)|netfilter\.nf_conntrack_(max|buckets))'
`

// pathsTaps moves the guest's taps from their bridges to Open vSwitch.
const pathsTaps = `set -e
for k in 2 3 4; do
	ip link set t$k nomaster
	ip link del lb$k
	ovs-vsctl add-port ob$k t$k
done
`

// pathsPolling has ovs-ctl start the switch with DPDK, as Debian's administrators do.
const pathsPolling = "update-alternatives --set ovs-vswitchd " + pathsDPDK + "\n"

// furnishPaths starts the guest, and makes the plan for it.
func (s *modesScene) furnishPaths(ctx context.Context) error {
	if err := s.leaveOut(ctx); err != nil {
		return err
	}
	setup := pathsSetup
	if slices.Contains(s.wanted, "vhost-user") {
		setup = pathsPolling + setup + pathsPolled
	}
	if _, err := s.lab.Must(ctx, setup); err != nil {
		return fmt.Errorf("set up the lab host: %w", err)
	}
	spec := lab.GuestSpec{Name: pathsGuest, Binary: s.programs.init, Direct: true,
		Args:    []string{"mpps.secret=" + modesSecret, `sysctl.net.ipv4.ip_local_port_range="` + pathsPorts + `"`},
		Modules: []string{"veth"}, // the agent measures its receiver alone behind a veth pair
		Probe:   lab.TCPProbeFrom("gen", 7878),
	}
	for i, p := range paths {
		if p.needs != "" && !slices.Contains(s.wanted, p.name) {
			continue
		}
		k := strconv.Itoa(i + 1)
		nic := p.nic
		if nic.Model == "" {
			nic = lab.NIC{Model: lab.Vhost, Bridge: "lb" + k}
		}
		nic.Tap, nic.Addr = "t"+k, "10.60."+k+".2/24"
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

// leaveOut drops the paths that this lab host cannot have, and says so.
func (s *modesScene) leaveOut(ctx context.Context) error {
	s.left = nil
	for _, p := range paths {
		if p.needs == "" || !slices.Contains(s.wanted, p.name) {
			continue
		}
		r, err := s.lab.Shell(ctx, p.needs)
		if err != nil {
			return err
		}
		if r.Code != 0 {
			s.wanted = slices.DeleteFunc(s.wanted, func(m string) bool { return base(m) == p.name })
			s.left = append(s.left, p.name+" is left out: "+p.lacks)
			s.step("%s", s.left[len(s.left)-1])
		}
	}
	return nil
}
