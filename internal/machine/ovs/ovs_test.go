package ovs

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// serveOnce serves one connection to a socket and returns its path.
func serveOnce(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	address := filepath.Join(t.TempDir(), "sock")
	listener := must.Get(net.Listen("unix", address))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		serve(conn)
	}()
	return address
}

// database answers a transaction as ovsdb-server does, after it has sent a request itself; without an answer it hangs.
func database(t *testing.T, answer string) string {
	t.Helper()
	return serveOnce(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte(`{"id":"echo","method":"echo","params":[]}`))
		_, _ = bufio.NewReader(conn).ReadString('\n')
		if answer == "" {
			time.Sleep(2 * patience)
		}
		_, _ = conn.Write([]byte(answer))
	})
}

// recordedAnswer is the answer of ovsdb-server 3.5.0 for a host with OpenStack's bridges, cut to one port each.
const recordedAnswer = `{"id":"mpps","error":null,"result":[
{"rows":[{"ovs_version":"3.5.0","other_config":["map",[["max-idle","30000"]]],"external_ids":["map",[["ovn-remote",
"tcp:192.0.2.1:6642"],["ovn-bridge-mappings","physnet1:br-ex,physnet2:br-dpdk"],["ovn-encap-type","vxlan"],
["ovn-encap-type-x","geneve"],["ovn-encap-ip","192.0.2.7"],["system-id","x"]]]}]},
{"rows":[{"name":"br-int","datapath_type":"","fail_mode":"secure","ports":["set",[["uuid","p2"],["uuid","p1"]]],"external_ids":["map",[["ct-zone-a","1"],
["ct-zone-b","2"],["ovn-nb-cfg","7"]]]},
{"name":"br-dpdk","datapath_type":"netdev","fail_mode":["set",[]],"ports":["set",[]]}]},
{"rows":[{"_uuid":["uuid","p1"],"name":"tap0","interfaces":["uuid","i1"],"bond_mode":["set",[]],"tag":5,
"trunks":["set",[]],"qos":["uuid","q"],"fake_bridge":true},{"_uuid":["uuid","p2"],"name":"gen0","interfaces":["set",[["uuid","i2"]]],
"bond_mode":"balance-slb","tag":["set",[]],"trunks":["set",[1,2,3]],"qos":["set",[]],
"external_ids":["map",[["ovn-localnet-port","provnet"]]]}]},
{"rows":[{"_uuid":["uuid","i1"],"name":"tap0","type":"","ofport":3,"ingress_policing_rate":1000,
"ingress_policing_burst":100,"mtu":1442,"link_state":"up","error":["set",[]],"options":["map",[]],
"external_ids":["map",[["iface-id","9"],["ovn-installed","true"],["vm-uuid","7"]]],
"ingress_policing_kpkts_rate":50,"ingress_policing_kpkts_burst":40},{"_uuid":["uuid","i2"],"name":"gen0","type":"geneve","ofport":["set",[]],
"ingress_policing_rate":0,"ingress_policing_burst":0,"mtu":["set",[]],"link_state":["set",[]],"error":"no route",
"options":["map",[["remote_ip","192.0.2.8"],["psk","secret"]]],"external_ids":["map",[]]}]}]}`

func TestInventory(t *testing.T) {
	m := treetest.Recorded(t, treetest.Merged(recordedControl(t, nil), map[string]string{
		socket:                               recordedAnswer,
		folder + "/ovs-vswitchd.pid":         "41\n",
		"proc/41/task/41/comm":               "ovs-vswitchd\n",
		"proc/41/task/41/stat":               treetest.Stat(41, "ovs-vswitchd", 7, 0, 0, 0),
		"proc/41/task/44/stat":               treetest.Stat(44, "handler1", 7, 2, 0, 0),
		"proc/41/task/44/status":             "Name:\tx\nCpus_allowed_list:\t2-3\n",
		"proc/41/task/45/stat":               treetest.Stat(45, "urcu3", 7, 2, 0, 0),
		"sys/module/openvswitch/refcnt":      "1\n",
		"sys/class/net/ovs-system/addr_len":  "6\n",
		"sys/class/net/ovs-system/ifindex":   "5\n",
		"run/openvswitch/unrelated/file.txt": "",
	}))
	h := &facts.Host{}
	Inventory(t.Context(), m, h)
	want := &facts.OpenVSwitch{Version: "3.5.0", Config: map[string]string{"max-idle": "30000"},
		OVN: &facts.OVN{Chassis: "x", Remote: "tcp:192.0.2.1:6642", Bridge: "br-int", EncapType: "geneve",
			EncapIP: "192.0.2.7", Mappings: map[string]string{"physnet1": "br-ex", "physnet2": "br-dpdk"}, Zones: 2},
		OpenStack: true, Datapaths: []facts.KernelDatapath{}, PID: 41, Polled: polledWant,
		Threads: []facts.OVSThread{{TID: 44, Role: "handler", CPU: 2, Affinity: setting.CPUs(2, 3)}},
		Bridges: []facts.OVSBridge{
			{Name: "br-dpdk", Datapath: "netdev", Ports: []facts.OVSPort{}},
			{Name: "br-int", Datapath: "system", FailMode: "secure", Ports: []facts.OVSPort{
				{Name: "gen0", BondMode: "balance-slb", Trunks: 3, Localnet: true, Interfaces: []facts.OVSInterface{
					{Name: "gen0", Type: "geneve", Error: "no route", Options: map[string]string{"remote_ip": "192.0.2.8"}},
				}},
				{Name: "tap0", Tag: 5, QoS: true, Fake: true, Interfaces: []facts.OVSInterface{
					{Name: "tap0", OFPort: 3, PolicingRate: 1000, PolicingBurst: 100, PacketRate: 50, PacketBurst: 40,
						MTU: 1442, LinkState: "up", IfaceID: true, Installed: true},
				}},
			}},
		},
	}
	if d := cmp.Diff(want, h.OpenVSwitch); d != "" || len(h.Unseen) > 0 {
		t.Errorf("%s\nunseen: %+v", d, h.Unseen)
	}
	none := &facts.Host{}
	if Inventory(t.Context(), treetest.Recorded(t, map[string]string{"proc/version": "x"}), none); none.OpenVSwitch != nil {
		t.Error("a host without Open vSwitch has it")
	}
}

// TestDatabase: an answer that is of another version, cut off, too large or never comes is an error within the time.
func TestDatabase(t *testing.T) {
	for name, answer := range map[string]string{
		"hangs":      "",
		"cut off":    `{"id":"mpps","error":null,"result":[{"ro`,
		"no result":  `{"id":"mpps","error":null,"result":7}`,
		"unknown db": `{"id":"mpps","error":{"error":"unknown database"},"result":null}`,
		"version":    `{"id":"mpps","error":null,"result":[{"rows":[]},{"error":"unknown column","details":"qos"},null,null]}`,
		"huge":       `{"id":"mpps","error":null,"result":["` + strings.Repeat("x", mostBytes) + `"]}`,
	} {
		begun := time.Now()
		results, err := ask(database(t, answer), selects())
		if err == nil || time.Since(begun) > patience+20*time.Second {
			t.Errorf("%s: %v, %v after %v", name, results, err, time.Since(begun))
		}
		var refused *Refused
		must.Equal(t, errors.As(err, &refused), name == "version", "%s: %v", name, err)
	}
	must.Is(t, must.Err(ask(filepath.Join(t.TempDir(), "none"), selects())), fs.ErrNotExist, "no database answered")
}

// TestFewerRows: rows of a schema that lacks what is asked for are an error, not zero values.
func TestFewerRows(t *testing.T) {
	for _, result := range []string{`[{"rows":[]}]`, `[{"rows":[]},{"rows":[{"ports":7}]},{"rows":[]},{"rows":[]}]`} {
		m := treetest.Recorded(t, map[string]string{socket: `{"result":` + result + `}`})
		h := &facts.Host{}
		if Inventory(t.Context(), m, h); h.OpenVSwitch != nil || len(h.Unseen) != 1 {
			t.Errorf("%s became %+v, unseen %+v", result, h.OpenVSwitch, h.Unseen)
		}
	}
}

// largeAnswer has so many ports on one bridge.
func largeAnswer(ports int) string {
	var of, rows, interfaces []string
	for i := range ports {
		of = append(of, fmt.Sprintf(`["uuid","p%d"]`, i))
		rows = append(rows, fmt.Sprintf(`{"_uuid":["uuid","p%d"],"name":"tap%d","interfaces":["uuid","i%d"],`+
			`"bond_mode":["set",[]],"tag":%d,"trunks":["set",[]],"qos":["set",[]]}`, i, i, i, i%4096))
		interfaces = append(interfaces, fmt.Sprintf(`{"_uuid":["uuid","i%d"],"name":"tap%d","type":"","ofport":%d,`+
			`"ingress_policing_rate":0,"ingress_policing_burst":0,"mtu":1500,"link_state":"up","error":["set",[]],`+
			`"options":["map",[]],"external_ids":["map",[["attached-mac","fa:16:3e:00:00:01"],["iface-id",`+
			`"00000000-0000-4000-8000-000000000001"],["vm-uuid","00000000-0000-4000-8000-000000000002"]]]}`, i, i, i))
	}
	return `{"id":"mpps","error":null,"result":[{"rows":[]},{"rows":[{"name":"br-int","datapath_type":"system",` +
		`"fail_mode":"secure","ports":["set",[` + strings.Join(of, ",") + `]]}]},{"rows":[` + strings.Join(rows, ",") +
		`]},{"rows":[` + strings.Join(interfaces, ",") + `]}]}`
}

// TestManyPorts: 5,000 ports take at most 0.5 s of CPU time; how many were left out beyond the limit is reported.
func TestManyPorts(t *testing.T) {
	m := treetest.Recorded(t, map[string]string{socket: largeAnswer(5000)})
	before := treetest.CPUTime(t)
	h := &facts.Host{}
	Inventory(t.Context(), m, h)
	used := treetest.CPUTime(t) - before
	must.Hold(t, h.OpenVSwitch != nil && len(h.OpenVSwitch.Bridges[0].Ports) == 5000 && used <= 500*time.Millisecond,
		"expected 5000 ports in 0.5 s, took %v; unseen %+v", used, h.Unseen)
	t.Logf("5000 ports: %v", used)
	h = &facts.Host{}
	Inventory(t.Context(), treetest.Recorded(t, map[string]string{socket: largeAnswer(maxRows + 7)}), h)
	if len(h.Unseen) != 1 || !strings.HasPrefix(h.Unseen[0].What, "14 ") { // 7 ports and 7 interfaces
		t.Errorf("unseen: %+v", h.Unseen)
	}
}

func TestParseDatapath(t *testing.T) {
	ae := netlink.NewAttributeEncoder()
	numbers := func(all ...uint64) (b []byte) {
		for _, n := range all {
			b = binary.NativeEndian.AppendUint64(b, n)
		}
		return b
	}
	ae.String(datapathName, "ovs-system")
	ae.Bytes(datapathStats, numbers(1000, 20, 3, 17))
	ae.Bytes(datapathMegaflows, numbers(5000, 12, 900, 0))
	ae.Uint32(datapathFeatures, perCPUUpcalls|1)
	attributes := must.Get(ae.Encode())(t)
	d, err := parseDatapath(append(binary.NativeEndian.AppendUint32(nil, 5), attributes...))
	want := facts.KernelDatapath{Name: "ovs-system", Index: 5, Hit: 1000, Missed: 20, Lost: 3, Flows: 17, MaskHit: 5000,
		Masks: 12, CacheHit: 900, PerCPU: true}
	if diff := cmp.Diff(want, d); diff != "" || err != nil {
		t.Error(diff, err)
	}
	must.Fail(parseDatapath([]byte{1, 2}))(t, "half a header was read")
	ae = netlink.NewAttributeEncoder()
	ae.String(vportName, "tap0")
	ae.Nested(vportUpcalls, func(in *netlink.AttributeEncoder) error {
		in.Bytes(upcallsDone, numbers(9))
		in.Bytes(upcallsLost, numbers(4))
		return nil
	})
	if attributes, err = ae.Encode(); err != nil {
		t.Fatal(err)
	}
	if u := parsePort(append(make([]byte, headerSize), attributes...)); u != (facts.OVSUpcalls{Port: "tap0", Done: 9, Lost: 4}) {
		t.Errorf("%+v", u)
	}
}

// TestSum: every counter that the kind of path declares has a value, that of all datapaths together.
func TestSum(t *testing.T) {
	one := facts.KernelDatapath{Hit: 1, Missed: 2, Lost: 3, MaskHit: 4, CacheHit: 5, Flows: 6, Masks: 7}
	counters := sum([]facts.KernelDatapath{one, one})
	declared := 0
	for _, c := range reach.About(reach.OpenVSwitch).Counters {
		if c.File != reach.Datapaths {
			continue
		}
		declared++
		if n := counters[c.Name]; n == 0 || n%2 != 0 || c.Key() != "openvswitch."+c.Name {
			t.Errorf("%s: %d", c.Key(), n)
		}
	}
	must.Hold(t, declared == len(counters) && sum(nil) == nil,
		"%d counters are declared, and %v counted", declared, counters)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(recordedAnswer))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = parseDatapath(data)
		parsePort(data)
		var message struct{ Result []*outcome }
		if json.Unmarshal(data, &message) != nil {
			return
		}
		if results, err := parseResult(message.Result); err == nil {
			_, _, _ = rowsOf[interfaceRow](results, 0)
			_, _, _ = rowsOf[portRow](results, 0)
		}
	})
}
