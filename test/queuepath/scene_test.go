//go:build lab

package queuepath

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/queuepath"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// queues is how many each guest has, and how many the NIC is given: one for each guest's queue.
const (
	guestQueues = 2
	nicQueues   = 4
	beyond      = "52:54:00:0e:00:99" // of a host behind the NIC
)

var guests = []string{"g1", "g2"}

// scene is a host of two nodes with two guests on the bridge of a NIC.
type scene struct {
	*labtest.Scene
	nic   string
	cpus  []int // of the NIC's node
	other []int // of the other one
}

// furniture is the bridge with the NIC. The address behind the NIC is known to the bridge: what it floods it clones.
const furniture = `set -e
[ -e /sys/class/net/br0 ] || ip link add br0 type bridge forward_delay 0 mcast_snooping 0
ip addr replace 10.60.0.254/24 dev br0
ip link set br0 up
N=$(basename $(dirname $(grep -l ` + lab.MACigb0 + ` /sys/class/net/*/address)))
ethtool -L $N combined 4
ip link set $N master br0 up
bridge fdb replace ` + beyond + ` dev $N master static
for i in $(seq 600); do grep -q 1 /sys/class/net/$N/carrier && break; sleep 0.1; done
echo $N`

func openScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.Fresh, labtest.Size(8, 10240)))}
	furnish := func(ctx context.Context) (err error) {
		out, err := s.Lab.Must(ctx, furniture)
		s.nic = strings.TrimSpace(out)
		return err
	}
	must.Do(t, furnish(t.Context()))
	for i, name := range guests {
		start := s.Lab.StartGuest
		if i == 0 { // nothing is lost yet with a fresh host
			start = func(ctx context.Context, spec lab.GuestSpec) (*lab.Guest, error) {
				return s.Lab.StartGuestFresh(ctx, spec, furnish)
			}
		}
		must.Get(start(t.Context(), lab.GuestSpec{
			Name: name, Binary: labtest.Init(t), VCPUs: guestQueues, Agent: true, Modules: []string{"pktgen"},
			NICs: []lab.NIC{{Model: lab.Vhost, Queues: guestQueues, Bridge: "br0", Tap: "tap" + name,
				Addr: fmt.Sprintf("10.60.0.%d/24", i+1)}},
		}))(t)
	}
	node := s.Must("cat /sys/class/net/" + s.nic + "/device/numa_node")
	s.cpus = s.cpusOf(node)
	s.other = s.cpusOf(map[string]string{"0": "1", "1": "0"}[node])
	return s
}

func (s *scene) cpusOf(node string) (all []int) {
	s.Helper()
	for _, word := range strings.Fields(s.Must("for c in /sys/devices/system/node/node" + node +
		"/cpu[0-9]*; do echo ${c##*cpu}; done")) {
		n := must.Get(strconv.Atoi(word))(s)
		all = append(all, n)
	}
	must.Need(s, len(all) >= nicQueues, "node %s has CPUs %v, expected %d", node, all, nicQueues)
	return all
}

// mpps runs the program on the host and requires an exit code.
func (s *scene) mpps(code int, argv ...string) lab.Result {
	s.Helper()
	defer s.took(time.Now(), "mpps "+strings.Join(argv, " "))
	return s.MPPS(code, argv...)
}

// took logs how long something took.
func (s *scene) took(began time.Time, what string) {
	s.Logf("%5.1f s  %s", time.Since(began).Seconds(), what)
}

// path watches every packet for some seconds.
func (s *scene) path(seconds int) *queuepath.Path {
	s.Helper()
	r := s.mpps(0, "--json", "path", "--every-packet", "--for", strconv.Itoa(seconds)+"s")
	return s.decode(r.Stdout)
}

func (s *scene) decode(text string) *queuepath.Path {
	s.Helper()
	var envelope struct {
		Schema string         `json:"schema"`
		Result queuepath.Path `json:"result"`
	}
	if err := json.Unmarshal([]byte(text), &envelope); err != nil || envelope.Schema != "mpps.path/1" {
		s.Fatalf("no answer: %v\n%.400s", err, text)
	}
	return &envelope.Result
}

// send has each queue of the guests send from its own vCPU: count packets, or 0 until stop, and then it returns once
// both guests send; delay is in nanoseconds from packet to packet.
func (s *scene) send(count, delay int) {
	s.Helper()
	defer s.took(time.Now(), "the guests send")
	for _, name := range guests {
		script := `D=/proc/net/pktgen
for q in 0 1; do
	echo rem_device_all > $D/kpktgend_$q; echo add_device eth0@$q > $D/kpktgend_$q
	for o in "count ` + strconv.Itoa(count) + `" "delay ` + strconv.Itoa(delay) + `" "pkt_size 60" "dst_mac ` + beyond +
			`" "dst 10.60.0.9" \
		"udp_src_min $((1000 + 100 * q))" "udp_src_max $((1016 + 100 * q))" "queue_map_min $q" "queue_map_max $q"; do
		echo "$o" > $D/eth0@$q
	done
done
(echo start > $D/pgctrl) >/dev/null 2>&1 &`
		if text, code := labtest.Inside(s, s.Lab, name, script); code != 0 {
			s.Fatalf("pktgen in %s: %s", name, text)
		}
	}
	if count == 0 {
		s.Must(`for g in ` + strings.Join(guests, " ") + `; do
	f=/sys/class/net/tap$g/statistics/rx_packets; n=$(<$f)
	for i in $(seq 1200); do [ $(<$f) -lt $((n + 100)) ] || continue 2; sleep 0.1; done
	echo "$g sent $(($(<$f) - n)) packets in two minutes" >&2; exit 1
done`)
	}
}

// stop ends what send began.
func (s *scene) stop() {
	s.Helper()
	for _, name := range guests {
		if text, code := labtest.Inside(s, s.Lab, name, "echo stop > /proc/net/pktgen/pgctrl"); code != 0 {
			s.Errorf("pktgen in %s: %s", name, text)
		}
	}
}

// vhost pins the workers of the guests' queues, in the order of guests and queues, to CPUs; −1 is all of the NIC's
// node.
func (s *scene) vhost(cpus []int) {
	s.Helper()
	all := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.cpus), " ", ","), "[]")
	words := strings.ReplaceAll(strings.Trim(fmt.Sprint(cpus), "[]"), "-1", all)
	s.Must(`set -- ` + words + `
for g in ` + strings.Join(guests, " ") + `; do
	P=$(cat /run/libvirt/qemu/$g.pid)
	for t in $(ps -T -p $P -o spid=,comm= | awk '$2 ~ /^vhost-/ {print $1}' | sort -n); do [ $# = 0 ] || { taskset -pc $1 $t; shift; }; done
done
[ $# = 0 ] || { echo "$# workers too few"; exit 1; }`)
}

// xps sets which CPUs send by which queue of the NIC.
func (s *scene) xps(sets ...[]int) {
	s.Helper()
	for q := range nicQueues {
		mask := 0
		if q < len(sets) {
			for _, cpu := range sets[q] {
				mask |= 1 << cpu
			}
		}
		s.Must(fmt.Sprintf("echo %x > /sys/class/net/%s/queues/tx-%d/xps_cpus", mask, s.nic, q))
	}
}
