//go:build lab

package openvswitch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// start starts the switch. Its bridges are those of OpenStack: br-int for the guests, and br-tun for the tunnel to
// another host, whose outer packets leave by a NIC. A namespace is a neighbour of the guest.
const start = `set -e
modprobe -a openvswitch vxlan veth
[ -e /run/openvswitch/ovs-vswitchd.pid ] || /usr/share/openvswitch/scripts/ovs-ctl --no-monitor \
	--no-record-hostname --system-id=lab start >/run/ovs-ctl.log 2>&1
N=$(basename $(dirname $(grep -l ` + lab.MACigb0 + ` /sys/class/net/*/address)))
ip addr replace 10.99.0.7/24 dev $N
ip link set $N up
ovs-vsctl --may-exist add-br br-int -- --may-exist add-br br-tun \
	-- --may-exist add-port br-int patch-tun -- set interface patch-tun type=patch options:peer=patch-int \
	-- --may-exist add-port br-tun patch-int -- set interface patch-int type=patch options:peer=patch-tun \
	-- --may-exist add-port br-tun vx0 -- set interface vx0 type=vxlan options:remote_ip=10.99.0.1 options:key=7
if [ ! -e /sys/class/net/p1 ]; then
	ip netns add g1
	ip link add p1 type veth peer name e1 netns g1
	ip link set p1 up
	ip -n g1 addr add 10.7.0.1/24 dev e1
	ip -n g1 link set e1 up
fi
ovs-vsctl --may-exist add-port br-int p1 tag=5
[ -e /sys/class/net/br0 ] || ip link add br0 type bridge
ip addr replace 10.7.0.254/24 dev br0
ip link set br0 up
echo $N`

// guestAddr is the guest's, beside the namespace's 10.7.0.1.
const guestAddr = "10.7.0.3"

// scene is a host whose guest has its tap on br-int.
type scene struct {
	*labtest.Scene
	nic, tap string
}

func openScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.Fresh))}
	furnish := func(ctx context.Context) (err error) {
		out, err := s.Lab.Must(ctx, start)
		s.nic = strings.TrimSpace(out)
		return err
	}
	must.Do(t, furnish(t.Context()))
	s.LogTime("the switch runs")
	g := must.Get(s.Lab.StartGuestFresh(t.Context(), lab.GuestSpec{Name: "vm1", Binary: labtest.Init(t), Direct: true,
		NICs: []lab.NIC{{Model: lab.Vhost, Bridge: "br0", Addr: guestAddr + "/24"}}}, furnish))(t)
	t.Cleanup(func() { _ = g.Stop(context.WithoutCancel(t.Context())) })
	s.tap = s.Must(`t=$(basename $(dirname $(dirname $(ls -d /sys/class/net/*/tun_flags | head -1))/x))
ip link set $t nomaster && ip link del br0 && ovs-vsctl add-port br-int $t tag=5 && echo $t`)
	s.LogTime("the guest's tap is on br-int")
	return s
}

// ping sends echo requests to an address from the namespace.
func (s *scene) ping(count int, to string) string {
	s.Helper()
	return s.Must(fmt.Sprintf("ip netns exec g1 ping -q -i 0.01 -W 20 -c %d %s || :", count, to))
}

// count returns a counter of a device.
func (s *scene) count(device, name string) (n int) {
	s.Helper()
	must.Get(fmt.Sscan(s.Must("cat /sys/class/net/"+device+"/statistics/"+name), &n))(s)
	return n
}

// plan has the host make a plan, and returns it.
func (s *scene) plan(goal ...string) *plan.Plan {
	s.Helper()
	s.MPPS(0, append([]string{"plan", "-o", "/share/plan.json"}, goal...)...)
	text := must.Get(os.ReadFile(filepath.Join(s.Lab.ShareDir(), "plan.json")))(s)
	p := must.Get(plan.Decode(bytes.NewReader(text)))(s)
	return p
}

// put writes a plan with other changes for the host to apply.
func (s *scene) put(p *plan.Plan, changes ...plan.Change) {
	s.Helper()
	p.Changes = changes
	p.Seal()
	var text bytes.Buffer
	must.Do(s, plan.Encode(&text, p))
	s.Put("ovs.json", text.String())
}
