//go:build lab

package openvswitch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/plan"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSwitch goes the way of a user on a host whose guest is behind Open vSwitch.
func TestSwitch(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.Must("ip netns exec g1 ping -q -c 1 -w 60 " + guestAddr) // the first waits for its address and for the switch
	must.Contain(t, s.ping(200, guestAddr), " 0% packet loss")
	// Nobody has this address: requests for it are flooded into the tunnel, and leave by the NIC. What passes between
	// two counters leaves by the NIC beside them, once the address of the tunnel's other end is known.
	nic, tunnel := s.count(s.nic, "tx_packets"), s.count("vxlan_sys_4789", "tx_packets")
	s.ping(1, "10.7.0.99")
	tunnel = s.count("vxlan_sys_4789", "tx_packets") - tunnel
	left := 0
	for until := time.Now().Add(time.Minute); left < tunnel && time.Now().Before(until); {
		left = s.count(s.nic, "tx_packets") - nic
	}
	must.Hold(t, tunnel != 0 && left >= tunnel, "%d packets entered the tunnel, %d left by the NIC", tunnel, left)
	s.LogTime("packets were sent")
	s.drawn()
	s.counters()
	s.judged()
	s.policed()
	must.Contain(t, s.ping(50, guestAddr), " 0% packet loss")
}

// TestSettings sets keys of the switch on a host without guests.
func TestSettings(t *testing.T) {
	labtest.Long(t)
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.Fresh))}
	s.Must(start)
	s.LogTime("the switch runs")
	s.transaction()
}

// drawn: inspect draws the guest's way through both bridges to the NIC.
func (s *scene) drawn() {
	s.Helper()
	text := s.MPPS(0, "inspect", "--no-color").Stdout
	s.Log(text)
	for _, part := range []string{"vm1", s.tap, "br-int", "br-tun", "vxlan_sys_4789", s.nic} {
		must.Hold(s, strings.Contains(text, part), "inspect does not draw %s", part)
	}
	s.LogTime("inspect")
}

// The lines of ovs-dpctl show with the datapath's counters.
var (
	lookups = regexp.MustCompile(`lookups: hit:(\d+) missed:(\d+) lost:(\d+)`)
	flows   = regexp.MustCompile(`flows: (\d+)`)
	masks   = regexp.MustCompile(`masks: hit:(\d+) total:(\d+)`)
	cache   = regexp.MustCompile(`cache: hit:(\d+)`)
)

// counters: the datapath's counters are those of ovs-dpctl. Both are compared where nothing passed between two looks.
func (s *scene) counters() {
	s.Helper()
	for range 10 {
		before := s.Must("ovs-dpctl show")
		o := labtest.Answer[facts.Host](s.Scene, 0, "inspect").OpenVSwitch
		if s.Must("ovs-dpctl show") != before {
			time.Sleep(time.Second)
			continue
		}
		if o == nil || len(o.Datapaths) != 1 {
			s.Fatalf("datapaths: %+v", o)
		}
		var want []string
		for _, line := range []*regexp.Regexp{lookups, flows, masks, cache} {
			want = append(want, line.FindStringSubmatch(before)[1:]...)
		}
		d := o.Datapaths[0]
		var got []string
		for _, n := range []uint64{d.Hit, d.Missed, d.Lost, d.Flows, d.MaskHit, d.Masks, d.CacheHit} {
			got = append(got, strconv.FormatUint(n, 10))
		}
		must.Hold(s, slices.Equal(got, want) && d.Hit != 0 && d.Ports == strings.Count(before, "\n  port "),
			"hit, missed, lost, flows, mask hit, masks, cache hit are %v, ovs-dpctl has\n%s", got, before)
		s.Logf("%s: %v", d.Name, got)
		s.LogTime("counters")
		return
	}
	s.Error("packets passed between any two looks at the counters")
}

// judged: audit and plan end well.
func (s *scene) judged() {
	s.Helper()
	s.MPPSAny([]int{0, 4}, "audit", "--pps", "100k")
	for _, c := range s.plan("--pps", "100k").Changes {
		if strings.HasPrefix(c.Address.Path, "class/net/br-int/") || strings.HasPrefix(c.Address.Path, "class/net/br-tun/") {
			s.Errorf("a change of a Linux bridge is planned for one of Open vSwitch: %s", c.Address)
		}
	}
	s.LogTime("audit and plan")
}

// row is what the database holds of the switch, without the column that ovs-vswitchd writes every few seconds.
func (s *scene) row() string {
	s.Helper()
	return s.Must("ovs-vsctl list Open_vSwitch | grep -v '^statistics '")
}

// limit is how many flows the switch allows in the datapath.
func (s *scene) limit() (n int) {
	s.Helper()
	text := s.Must(`ovs-appctl upcall/show | sed -n 's/.*(limit \([0-9]*\)).*/\1/p'`)
	if _, err := fmt.Sscan(text, &n); err != nil {
		s.Fatalf("limit %q: %v", text, err)
	}
	return n
}

// transaction: keys are set, take effect in ovs-vswitchd, hold, and are removed by a rollback.
func (s *scene) transaction() {
	s.Helper()
	s.Must("ovs-vsctl set Open_vSwitch . other_config:max-idle=8000")
	before := s.row()
	change := func(key, from, to string) plan.Change {
		c := plan.Change{ID: "ovs.test", Address: setting.Of(setting.OVSDB, key), From: setting.Value(from),
			To: setting.Value(to), Want: setting.Exact(to), Risk: goal.None, Lasts: setting.InOpenVSwitch,
			Stage: datapath.Bridge, Title: "a key of Open vSwitch", Because: "a test wants it"}
		if from == "" {
			c.From = setting.Missing("not there")
		}
		return c
	}
	p := s.plan("--pps", "100k")
	s.put(p, change("max-idle", "8000", "20000"), change("flow-limit", "", "3000"))
	s.MPPS(0, "apply", "/share/ovs.json", "--foreign", "--yes")
	must.Equal(s, s.Must("ovs-vsctl get Open_vSwitch . other_config"), `{flow-limit="3000", max-idle="20000"}`,
		"applied")
	for until := time.Now().Add(time.Minute); s.limit() > 3000; time.Sleep(500 * time.Millisecond) {
		if time.Now().After(until) {
			s.Fatalf("ovs-vswitchd allows %d flows after a minute, expected at most 3000", s.limit())
		}
	}
	s.MPPS(0, "verify")
	s.LogTime("apply and verify")
	// A switch that restarts keeps them: its database is on disk.
	s.Must("/usr/share/openvswitch/scripts/ovs-ctl --no-monitor --no-record-hostname --system-id=lab restart >&2")
	s.MPPS(0, "verify")
	s.LogTime("restart of the switch")
	s.Must("ovs-vsctl --no-wait set Open_vSwitch . other_config:max-idle=9000")
	if r := s.MPPS(4, "verify"); !strings.Contains(r.Stdout, "9000") {
		s.Errorf("changed by somebody else: %s", r.Stdout)
	}
	s.Must("ovs-vsctl --no-wait set Open_vSwitch . other_config:max-idle=20000")
	s.MPPS(0, "rollback")
	must.Equal(s, counted(s.row()), counted(before), "the row was\n%s\nand", before)
	s.put(p, change("hw-offload", "", "true"))
	s.MPPS(1, "apply", "/share/ovs.json", "--foreign", "--yes")
	must.Equal(s, counted(s.row()), counted(before), "refused, but the row was\n%s\nand", before)
	s.LogTime("rollback")
}

// counted is a row without the numbers by which ovs-vsctl waits for ovs-vswitchd: a restart raises them.
func counted(row string) string {
	return regexp.MustCompile(`(?m)^(cur|next)_cfg .*$`).ReplaceAllString(row, "")
}

// policed: a policer on the neighbour's port drops real packets, is in the facts, and is what diagnose names; its
// healthy twin has none of it.
func (s *scene) policed() {
	s.Helper()
	drops := func() int {
		n := 0
		for _, m := range regexp.MustCompile(`\(dropped (\d+),`).FindAllStringSubmatch(
			s.Must("tc -s filter show dev p1 ingress; tc -s filter show dev p1 parent ffff:"), -1) {
			d, _ := strconv.Atoi(m[1])
			n += d
		}
		return n
	}
	for _, rate := range []int{100, 0} {
		s.Must(fmt.Sprintf("ovs-vsctl set interface p1 ingress_policing_rate=%d ingress_policing_burst=%d", rate, rate/10))
		s.Must("ip netns exec g1 ping -q -f -s 1200 -c 300 -w 5 " + guestAddr + " || :")
		o := labtest.Answer[facts.Host](s.Scene, 0, "inspect").OpenVSwitch
		found := -1
		for _, b := range o.Bridges {
			for _, p := range b.Ports {
				if p.Name == "p1" {
					found = p.Interfaces[0].PolicingRate
				}
			}
		}
		if dropped := drops(); found != rate || (dropped > 0) != (rate > 0) {
			s.Errorf("policer of %d kbit/s: mpps reads %d, %d packets were dropped", rate, found, dropped)
		} else {
			s.Logf("policer of %d kbit/s dropped %d packets", rate, dropped)
		}
		s.Must("ip netns exec g1 ping -q -f -s 1200 -w 600 " + guestAddr + " >/dev/null 2>&1 & echo $! >/run/flood")
		d := labtest.Answer[bottleneck.Diagnosis](s.Scene, 0, "diagnose", "--for", "5s")
		s.Must("kill -INT $(cat /run/flood)")
		said := d.Bottleneck != nil && d.Bottleneck.Kind == bottleneck.OVSPolicer
		must.Hold(s, said == (rate > 0), "policer of %d kbit/s: diagnose names %+v", rate, d.Bottleneck)
	}
	s.LogTime("policer")
}
