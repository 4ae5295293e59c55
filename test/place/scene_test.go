//go:build lab

package place

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// The guests that boot, each with two queues on the bridge of the NIC of node 1.
var (
	first  = guest{name: "fw1", mac: "52:54:00:0a:01:02", addr: "10.50.0.2"}
	second = guest{name: "fw2", mac: "52:54:00:0a:02:02", addr: "10.50.0.3"}
)

type guest struct{ name, mac, addr string }

const secret = "secret-of-the-placement"

func (g guest) spec(t testing.TB) lab.GuestSpec {
	return lab.GuestSpec{
		Name: g.name, Binary: labtest.Init(t), VCPUs: 2, MemoryMiB: 256,
		NICs:    []lab.NIC{{Model: lab.Vhost, Queues: 2, Bridge: "br0", MAC: g.mac, Addr: g.addr + "/24"}},
		Modules: []string{"veth"}, Args: []string{"mpps.secret=" + secret}, // for its agent
	}
}

// setup gives the NIC of node 1 a bridge and virtual functions.
const setup = `set -e
[ -e /sys/class/net/br0 ] || ip link add br0 type bridge forward_delay 0
ip addr replace 10.50.0.1/24 dev br0
ip link set br0 up
for n in /sys/class/net/*; do
	case $(<$n/address) in
	` + lab.MACigb0 + `)
		ip link set ${n##*/} master br0 up
		echo 0 > $n/device/sriov_drivers_autoprobe
		[ $(<$n/device/sriov_numvfs) = 2 ] || echo 2 > $n/device/sriov_numvfs ;;
	` + lab.MACigb1 + `|` + lab.MACvirtio + `) ip link set ${n##*/} up ;;
	esac
done
`

// scene is the host while a test uses it: four CPUs and 5 GiB on each of two nodes.
type scene struct {
	*labtest.Scene
	guests map[string]*lab.Guest
}

func openScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.Fresh, labtest.Size(8, 10240))),
		guests: map[string]*lab.Guest{}}
	furnish := func(ctx context.Context) error {
		_, err := s.Lab.Must(ctx, setup)
		return err
	}
	must.Do(t, furnish(t.Context()))
	for i, g := range []guest{first, second} {
		start := s.Lab.StartGuest
		if i == 0 { // nothing is lost yet with a fresh host
			start = func(ctx context.Context, spec lab.GuestSpec) (*lab.Guest, error) {
				return s.Lab.StartGuestFresh(ctx, spec, furnish)
			}
		}
		var err error
		if s.guests[g.name], err = start(t.Context(), g.spec(t)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// in is the scene for a part of the test.
func (s *scene) in(t *testing.T) *scene {
	c := *s
	c.Scene = s.In(t)
	return &c
}

// readHost reads a snapshot that the host has written to its share.
func (s *scene) readHost(name string) *facts.Host {
	s.Helper()
	f := must.Get(os.Open(filepath.Join(s.Lab.ShareDir(), name)))(s)
	defer f.Close()
	h := must.Get(facts.ReadSnapshot(f))(s)
	return h
}

// inventory is what mpps sees of the host.
func (s *scene) inventory() *facts.Host {
	s.Helper()
	h := labtest.Answer[facts.Host](s, 0, "inspect")
	return &h
}
