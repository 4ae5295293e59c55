//go:build lab

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// The host in the box: a guest with an e1000 on a bridge, rules in the way, accounting in both rule sets.
const (
	guestName = "web1"
	guestMAC  = "52:54:00:0a:00:02"
	guestIP   = "10.50.0.2"
	agentPort = 7878
	secret    = "secret-of-end-to-end"
	bridge    = "br0"
)

const setup = `set -e
modprobe br_netfilter
[ -e /sys/class/net/br0 ] || ip link add br0 type bridge forward_delay 0
ip addr replace 10.50.0.1/24 dev br0
ip link set br0 up
for n in /sys/class/net/*; do
	case $(cat $n/address) in
	` + lab.MACigb0 + `) ip link set ${n##*/} master br0 up ;;
	` + lab.MACigb1 + `|` + lab.MACvirtio + `) ip link set ${n##*/} up ;;
	esac
done
sysctl -qw net.bridge.bridge-nf-call-iptables=1
echo 1 > /sys/class/net/br0/bridge/nf_call_iptables
for i in $(seq 8); do
	iptables-legacy -A FORWARD -s 192.0.2.$i -m comment --comment "a host that is gone" -j RETURN
done
iptables-legacy -t raw -A PREROUTING -i vnet7 -j NFLOG --nflog-group 5
nft -f - <<'RULES'
table ip raw {
	chain PREROUTING {
		type filter hook prerouting priority raw; policy accept;
		iifname "vnet8" log group 6
	}
}
RULES
`

// box is the host in the box while one test uses it.
type box struct {
	*labtest.Scene
	t     *testing.T
	guest *lab.Guest
	names map[string]string // of NICs, by MAC
}

// in is the box for a part of the test.
func (b *box) in(t *testing.T) *box {
	c := *b
	c.Scene, c.t = b.In(t), t
	return &c
}

// openBox boots the host, sets it up and starts its guest with an e1000.
func openBox(t *testing.T) *box {
	t.Helper()
	return openBoxWith(t, lab.NIC{Model: lab.E1000})
}

// openBoxWith gives the guest another NIC.
func openBoxWith(t *testing.T, nic lab.NIC) *box {
	t.Helper()
	b := &box{t: t, Scene: labtest.On(t, labtest.Host(t, labtest.Fresh)), names: map[string]string{}}
	var err error
	if namespace, err = os.Open(b.Lab.Netns()); err != nil {
		t.Fatal(err)
	}
	b.Put("secret", secret)
	furnish := func(ctx context.Context) error {
		_, err := b.Lab.Must(ctx, setup)
		return err
	}
	must.Do(t, furnish(t.Context()))
	nic.Bridge, nic.MAC, nic.Addr = bridge, guestMAC, guestIP+"/24"
	b.guest = must.Get(b.Lab.StartGuestFresh(t.Context(), lab.GuestSpec{
		Name: guestName, Binary: labtest.Init(t), VCPUs: 2, MemoryMiB: 256,
		NICs:    []lab.NIC{nic},
		Modules: []string{"veth"}, // the agent measures its receiver alone behind a veth pair
		Args:    []string{"mpps.secret=" + secret}, Probe: lab.TCPProbe(agentPort),
	}, furnish))(t)
	// A bridge has the address of a port of its.
	for line := range strings.Lines(
		b.Must(`for n in /sys/class/net/*; do [ ! -e $n/device ] || echo $(<$n/address) ${n##*/}; done`)) {
		mac, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		b.names[mac] = name
	}
	return b
}

// snapshot takes a snapshot on the host and reads it here.
func (b *box) snapshot(name string) *facts.Host {
	b.Helper()
	b.MPPS(0, "--quiet", "snapshot", "-o", "/share/"+name)
	f := must.Get(os.Open(filepath.Join(b.Lab.ShareDir(), name)))(b)
	defer f.Close()
	h := must.Get(facts.ReadSnapshot(f))(b)
	return h
}

// unchanged takes a second snapshot and lets mpps compare it with the first.
func (b *box) unchanged(first string) {
	b.Helper()
	b.snapshot("now.json")
	r := must.Get(b.Lab.Run(b.Context(), "mpps", "snapshot", "diff", "/share/"+first, "/share/now.json"))(b)
	must.Hold(b, r.Code == 0, "snapshot diff: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
}

// part is something done on the box that leaves it as it was found.
type part struct {
	name string
	do   func(*box)
}

// play does the parts one after the other and compares the host with what it was before the first.
func (b *box) play(parts ...part) {
	b.Helper()
	b.snapshot("first.json")
	for _, part := range parts {
		start := time.Now()
		b.t.Run(part.name, func(t *testing.T) {
			b := b.in(t)
			t.Cleanup(func() {
				if t.Failed() { // the next part is to find the host in order all the same
					_, _ = b.Lab.Shell(context.Background(), "for i in 1 2 3; do mpps rollback --force; done")
				}
			})
			part.do(b)
			b.MPPS(3, "status", "--detailed-exit-code") // nothing of mpps stands on the host
		})
		b.t.Logf("%4.1f s  %s", time.Since(start).Seconds(), part.name)
	}
	b.unchanged("first.json")
}

// TestHost looks at one host with one guest, and has it judged.
func TestHost(t *testing.T) {
	openBox(t).play(
		part{"inspect agrees with other tools", testInspect},
		part{"inspect is cheap", testInspectCost},
		part{"a snapshot is judged alike elsewhere", testAuditElsewhere},
	)
}

// TestTunedGuest has the guest tuned and measured, and put back. It is played beside the rest of this package.
func TestTunedGuest(t *testing.T) {
	openBox(t).play(part{"an emulated NIC becomes vhost and back", testGuest})
}

const vhostQueues = 2

// TestVhostGuest measures a guest that is on vhost from its start, and moves vhost's threads.
func TestVhostGuest(t *testing.T) {
	labtest.Long(t)
	b := openBoxWith(t, lab.NIC{Model: lab.Vhost, Queues: vhostQueues})
	b.Must("virsh emulatorpin " + guestName + " 0-1 --live")
	b.play(part{"vhost threads", testVhostThreads}, part{"packets into the guest", testBench})
}

// TestApplyEnds has applies refused, killed and interrupted, a plan that is stale, libvirt in a container, and a guest
// that is gone.
func TestApplyEnds(t *testing.T) {
	labtest.Long(t)
	b := openBox(t)
	b.play(
		part{"a refused write", testRefused},
		part{"an apply that does not end well", testEnds},
		part{"a stale plan", testStale},
		part{"libvirt in a container is asked", testContained},
	)
	t.Run("a guest that is gone", func(t *testing.T) { testGone(b.in(t)) })
}

// testGone removes the guest behind mpps's back: a rollback has nothing to put back there, and does the rest.
func testGone(b *box) {
	h := b.snapshot("gone.json")
	somaxconn := b.Must("sysctl -n net.core.somaxconn")
	changes := []change{
		{"sysctl:net.core.somaxconn", "5000"}, {"domain:" + guestName + "/emulatorpin", "1"},
		{"thread-affinity:" + guestName + "/vcpu/0", "1"},
	}
	b.putPlan("gone-plan.json", byHand(b, h, b.survey(addressesOf(b, changes)...), changes...))
	b.MPPS(0, "apply", "--yes", "--foreign", "/share/gone-plan.json")
	must.Do(b, b.guest.Stop(b.Context()))
	b.MPPS(0, "rollback")
	b.MPPS(3, "status", "--detailed-exit-code")
	must.Equal(b, b.Must("sysctl -n net.core.somaxconn"), somaxconn, "net.core.somaxconn")
}

// namespace is the network namespace of TestHost's lab, held open.
var namespace *os.File

// TestNothingIsLeft comes after TestHost, whose lab has ended: this machine holds no trace of it.
func TestNothingIsLeft(t *testing.T) {
	mine := fmt.Sprintf("test-%d-", os.Getpid())
	labs, err := lab.List()
	must.Try(t, err)
	for _, l := range labs {
		must.Hold(t, !strings.HasPrefix(l.Name, mine), "lab %s is still there", l.Name)
	}
	for what, pattern := range map[string]string{
		"run folder": "/run/mpps-lab/" + mine + "*",
		"data":       filepath.Join(lab.Dir(), "labs", mine+"*"),
	} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("%s: %v %v", what, left, err)
		}
	}
	if namespace == nil {
		t.Fatal("TestHost did not come to its lab")
	}
	for _, pid := range labtest.InNamespace(t, namespace) {
		t.Errorf("process %s is in the network namespace of the lab", pid)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must.Try(t, err)
	for line := range strings.Lines(string(mounts)) {
		must.Lack(t, line, mine)
	}
	for _, p := range processes(t) {
		if p.pid != os.Getpid() && strings.Contains(p.commandLine, mine) {
			t.Errorf("process %d: %s", p.pid, p.commandLine)
		}
	}
}

type process struct {
	pid         int
	commandLine string
}

// processes are those of this machine.
func processes(t *testing.T) []process {
	t.Helper()
	dirs := must.Get(filepath.Glob("/proc/[0-9]*"))(t)
	var all []process
	for _, dir := range dirs {
		text, err := os.ReadFile(dir + "/cmdline")
		if errors.Is(err, os.ErrNotExist) || len(text) == 0 {
			continue // has ended, or a kernel thread
		}
		var p process
		must.Get(fmt.Sscan(filepath.Base(dir), &p.pid))(t)
		p.commandLine = strings.ReplaceAll(string(text), "\x00", " ")
		all = append(all, p)
	}
	must.Need(t, len(all) >= 2, "%d processes: this finds none", len(all))
	return all
}
