package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/lab"
	"mpps/internal/measure"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/outcome"
)

// The host of a campaign in the lab. All packets arrive over the same wire, from a NIC in its own namespace that
// represents the second host: at the NIC that is a port of the guests' bridge, at a VF, or natively at that VF's PF,
// with an agent in its namespace.
const (
	modesBridge  = "br0"
	modesSecret  = "secret-of-the-modes"
	modesNetwork = "10.50.0."
	modesFrom    = "netns:gen/gen0"
	modesVFMAC   = "52:54:00:0a:00:0f"
	modesCPUs    = "1-3" // of guests and the native agent: the first one is the generator's
)

// modesSetup creates the bridge, the namespaces and the VF, whose PCI address it prints. The VF's MAC address is set
// before the PF moves into its namespace. The generator's NIC has one queue. With several, QEMU chooses a queue by its
// own RSS, and a frame whose ring is full waits at the queue that it came in by, which nobody may ever use again
// (hw/net/virtio-net.c, virtio_net_receive_rcu): TCP streams to it ended, or a packet took seconds.
var modesSetup = fmt.Sprintf(`set -e
nic() { d=$(dirname $(grep -l $1 /sys/class/net/*/address)); echo ${d##*/}; }
up=$(nic %[1]s); pf=$(nic %[2]s); gen=$(nic %[3]s)
modprobe -a igbvf veth
ip link add %[4]s type bridge forward_delay 0
ip addr add %[5]s1/24 dev %[4]s
ip link set $up master %[4]s up
ip link set %[4]s up
ip link set $pf up
echo 1 > /sys/class/net/$pf/device/sriov_numvfs
ip link set $pf vf 0 mac %[6]s
basename $(readlink /sys/class/net/$pf/device/virtfn0)
into() {
	ip netns add $1
	ip link set $2 netns $1
	ip -n $1 link set $2 name $3
	ip -n $1 link set lo up
	ip -n $1 addr add %[5]s$4/24 dev $3
	ip -n $1 link set $3 up
}
into gen $gen gen0 2
ip netns exec gen ethtool -L gen0 combined 1
into native $pf native0 3
for n in %[4]s $up; do echo 1 > /proc/sys/net/ipv6/conf/$n/disable_ipv6; done
ip netns exec native taskset -c %[8]s setsid mpps agent --listen %[5]s3:%[7]s --secret-file /share/secret </dev/null >/run/native.log 2>&1 &
for i in $(seq 100); do
	! grep -q listening /run/native.log || exit 0
	sleep 0.1
done
cat /run/native.log >&2
exit 1
`, lab.MACigb0, lab.MACigb1, lab.MACvirtio, modesBridge, modesNetwork, modesVFMAC, agent.Port, modesCPUs)

// modesGuests lists the guests by mode and last part of the address. The one with the VF comes first: its driver must
// find a NIC that nobody has used yet.
var modesGuests = []struct {
	mode string
	host int
	nic  lab.NIC
}{
	{"vf", 15, lab.NIC{Model: lab.VF, MAC: modesVFMAC}},
	{"e1000", 11, lab.NIC{Model: lab.E1000, Bridge: modesBridge}},
	{"virtio", 12, lab.NIC{Model: lab.Virtio, Bridge: modesBridge}},
	{"vhost", 13, lab.NIC{Model: lab.Vhost, Bridge: modesBridge}},
	{"vhost-mq", 14, lab.NIC{Model: lab.Vhost, Bridge: modesBridge, Queues: 2}},
}

// modesNotes are what a reader must know about the lab.
var modesNotes = []string{
	"every mode gets its packets over one emulated wire, from a virtio NIC in a namespace of the lab host to its igb " +
		"NICs; native is an agent in the namespace of the NIC that the virtual function belongs to, vhost-mq has two " +
		"queues, and each guest two vCPUs and 256 MiB; the lab host runs with iommu=pt",
	"guests that are not measured are stopped; of the lab host's four CPUs one is the generator's and three the " +
		"guest's or the native agent's; CPU idle is of all four",
}

var nicModes = &campaign{
	name: "modes", short: "compare NIC modes: e1000, virtio, vhost, VF, native", scene: "with a guest for each mode",
	long: `
Boots an emulated host with one guest per mode, measures them with
'mpps bench modes' (see its help), and stops the host. Hosts and guests that
hang are restarted. The rates are those of an emulator: only their ratios mean
something, and not much.

  mpps-lab modes
  mpps-lab modes --only vhost,vf --repeat 8,20 -I 99,5 -o modes.json
  mpps report modes.json -o modes.html`,
	reference: "native", modes: modesInOrder(), notes: modesNotes, furnish: (*modesScene).furnishModes,
	// As on hosts with VFs. Without it each packet of the emulated NICs is mapped and unmapped, and a virtio NIC whose
	// translations QEMU caches has been seen to read a ring that was gone.
	args: []string{"iommu=pt"},
}

// campaign is what a campaign on an emulated host measures.
type campaign struct {
	name, short, long string
	scene             string // what the host is furnished with
	reference         string // the mode that is 100 %, always measured, also with --only
	modes             []measure.Mode
	notes             []string
	furnish           func(*modesScene, context.Context) error
	store             string   // script that prints what the campaign must leave unchanged; empty: nothing
	args              []string // of the emulated host's kernel
}

// base returns a mode's name without "+plan".
func base(mode string) string { return strings.TrimSuffix(mode, underPlan) }

// wanted returns the reference and the modes that --only names, each with and without the plan, in the table's order.
func (c *campaign) wanted(only []string) ([]string, error) {
	var all []string
	for _, m := range c.modes {
		all = append(all, m.Name)
	}
	if len(only) == 0 {
		return all, nil
	}
	names := map[string]bool{base(c.reference): true}
	for _, name := range only {
		if !slices.Contains(all, name) {
			return nil, outcome.Usage(fmt.Errorf("--only: found %q, expected some of %s", name,
				strings.Join(all, ", ")), "")
		}
		names[base(name)] = true
	}
	return slices.DeleteFunc(all, func(m string) bool { return !names[base(m)] }), nil
}

// modesOf returns the modes with the given names.
func (c *campaign) modesOf(names []string) []measure.Mode {
	return slices.DeleteFunc(slices.Clone(c.modes),
		func(m measure.Mode) bool { return !slices.Contains(names, m.Name) })
}

// modesScene is the lab host of a campaign.
type modesScene struct {
	campaign *campaign
	lab      *lab.Lab
	programs programs
	wanted   []string // modes
	left     []string // modes that were wanted but cannot run here, and why
	stored   string   // output of the campaign's store script before the first measurement
	guests   map[string]*lab.Guest
	step     func(format string, args ...any)
}

// openModesScene boots the lab and furnishes it.
func (a *app) openModesScene(ctx context.Context, c *campaign, wanted []string) (*modesScene, error) {
	p, err := a.programs()
	if err != nil {
		return nil, err
	}
	l, err := lab.Start(ctx, lab.Config{
		Name: c.name + "-" + strconv.Itoa(os.Getpid()), Log: a.steps(), Args: c.args,
	})
	if err != nil {
		return nil, err
	}
	s := &modesScene{campaign: c, lab: l, programs: p, wanted: wanted, step: a.out.Step}
	err = s.furnish(ctx)
	for try := 0; errors.Is(err, lab.ErrFreshLab) && try < 2; try++ {
		s.step("a fresh lab host: %v", err)
		if err = l.Reset(ctx); err == nil {
			err = s.furnish(ctx)
		}
	}
	if err != nil {
		return nil, closeAfter(l, err)
	}
	return s, nil
}

// furnishing is the time limit for starting all guests, on a busy machine.
const furnishing = 8 * time.Minute

// furnish sets up the host and starts the guests. If it hangs, the error is lab.ErrFreshLab.
func (s *modesScene) furnish(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, furnishing)
	defer cancel()
	err := s.furnishIn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: not furnished within %v: %w", lab.ErrFreshLab, furnishing, err)
	}
	return err
}

func (s *modesScene) furnishIn(ctx context.Context) error {
	if err := s.lab.Install(ctx, s.programs.host); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.lab.ShareDir(), "secret"), []byte(modesSecret), 0o600); err != nil {
		return err
	}
	s.guests = map[string]*lab.Guest{}
	if err := s.campaign.furnish(s, ctx); err != nil || s.campaign.store == "" {
		return err
	}
	var err error
	s.stored, err = s.lab.Must(ctx, s.campaign.store)
	return err
}

// unchanged returns an error unless the campaign's store is as it was furnished.
func (s *modesScene) unchanged(ctx context.Context) error {
	if s.campaign.store == "" {
		return nil
	}
	now, err := s.lab.Must(ctx, s.campaign.store)
	if err == nil && now != s.stored {
		err = fmt.Errorf("the plan's rollback left the emulated host changed:\n%s", changedLines(s.stored, now))
	}
	return err
}

// changedLines lists the lines that only one of two texts has, the first one's with a minus.
func changedLines(before, after string) string {
	var changed []string
	only := func(mark, of, other string) {
		for line := range strings.SplitSeq(of, "\n") {
			if !slices.Contains(strings.Split(other, "\n"), line) {
				changed = append(changed, mark+line)
			}
		}
	}
	only("- ", before, after)
	only("+ ", after, before)
	return strings.Join(changed, "\n")
}

// furnishModes starts the guest of each mode.
func (s *modesScene) furnishModes(ctx context.Context) error {
	out, err := s.lab.Must(ctx, modesSetup)
	if err != nil {
		return fmt.Errorf("set up the lab host: %w", err)
	}
	function := strings.TrimSpace(out)
	for _, g := range modesGuests {
		if !slices.Contains(s.wanted, g.mode) {
			continue
		}
		spec := lab.GuestSpec{
			Name: g.mode, Binary: s.programs.init, Direct: true, CPUs: modesCPUs, NICs: []lab.NIC{g.nic},
			Args:    []string{"mpps.secret=" + modesSecret},
			Modules: []string{"veth"}, // the agent measures its receiver alone behind a veth pair
			Probe:   lab.TCPProbeFrom("gen", 7878),
		}
		spec.NICs[0].Addr = modesNetwork + strconv.Itoa(g.host) + "/24"
		if g.nic.Model == lab.VF {
			spec.NICs[0].VF = function
		}
		guest, err := s.lab.StartGuest(ctx, spec)
		if err != nil {
			return err
		}
		s.guests[g.mode] = guest
		s.step("guest %s is up", g.mode)
		if err := guest.Freeze(ctx); err != nil {
			return err
		}
	}
	return nil
}

// modesInOrder lists the modes in the order of the table, with the addresses of their agents.
func modesInOrder() []measure.Mode {
	all := []measure.Mode{{Name: "native", Agent: net.JoinHostPort(modesNetwork+"3", agent.Port), From: modesFrom}}
	guests := slices.Clone(modesGuests)
	for _, g := range append(guests[1:], guests[0]) {
		all = append(all, measure.Mode{Name: g.mode, From: modesFrom,
			Agent:  net.JoinHostPort(modesNetwork+strconv.Itoa(g.host), agent.Port),
			Frozen: lab.GuestSpec{Name: g.mode}.PIDFile()})
	}
	return all
}

// mend restarts what is gone: the whole host, or guests that were given up.
func (s *modesScene) mend(ctx context.Context, c *measure.ModesCampaign, failure error) error {
	gone := func(name string) bool { return c != nil && c.GivenUp(name) }
	if errors.Is(failure, errStalled) || errors.Is(failure, lab.ErrGone) ||
		slices.ContainsFunc(s.wanted, func(name string) bool { return s.guests[name] == nil && gone(name) }) {
		s.step("a fresh lab host")
		if err := s.lab.Reset(ctx); err != nil {
			return err
		}
		return s.furnish(ctx)
	}
	for _, name := range s.wanted {
		if g := s.guests[name]; g != nil && gone(name) {
			s.step("guest %s does not answer any more and is started again", name)
			if err := g.Restart(ctx); err != nil {
				return err
			}
			if err := g.Freeze(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
