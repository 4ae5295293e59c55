package ovs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// selects returns the tables that are read, with their columns (ovs-vswitchd.conf.db(5)) and further columns of
// interfaces. Those named here are in every version since 2.3: a column that the schema lacks makes the whole
// transaction fail.
func selects(ofInterfaces ...string) []operation {
	all := []operation{
		selectOf("Open_vSwitch", "ovs_version", "other_config", "external_ids"),
		selectOf("Bridge", "name", "datapath_type", "fail_mode", "ports", "external_ids"),
		selectOf("Port", "_uuid", "name", "interfaces", "bond_mode", "tag", "trunks", "qos", "fake_bridge",
			"external_ids"),
		selectOf("Interface", append(ofInterfaces, "_uuid", "name", "type", "ofport", "ingress_policing_rate",
			"ingress_policing_burst", "mtu", "link_state", "error", "options", "external_ids")...),
	}
	for _, kind := range facts.PolledPorts {
		o := selectOf("Interface", "_uuid", "options", "other_config", "status", "statistics")
		o["where"] = []any{[]any{"type", "==", kind}}
		all = append(all, o)
	}
	return all
}

// packetPolicers are columns of interfaces that the schema has since version 8.3.0 (Open vSwitch 2.16).
var packetPolicers = []string{"ingress_policing_kpkts_rate", "ingress_policing_kpkts_burst"}

// readTables asks for all tables, without the newer columns of a database that refuses them.
func readTables(m *tree.Tree) ([]outcome, error) {
	results, err := transact(m, selects(packetPolicers...)...)
	var refused *Refused
	if errors.As(err, &refused) {
		return transact(m, selects()...)
	}
	return results, err
}

func selectOf(table string, columns ...string) operation {
	return operation{"op": "select", "table": table, "where": []any{}, "columns": columns}
}

type rootRow struct {
	UUID        references `json:"_uuid"` // read where a value is set
	Version     text       `json:"ovs_version"`
	Config      table      `json:"other_config"`
	ExternalIDs table      `json:"external_ids"`
}

type bridgeRow struct {
	Name     text       `json:"name"`
	Datapath text       `json:"datapath_type"`
	FailMode text       `json:"fail_mode"`
	Ports    references `json:"ports"`
	IDs      table      `json:"external_ids"`
}

type portRow struct {
	UUID       references `json:"_uuid"`
	Name       text       `json:"name"`
	Interfaces references `json:"interfaces"`
	BondMode   text       `json:"bond_mode"`
	Tag        integer    `json:"tag"`
	Trunks     integer    `json:"trunks"`
	QoS        references `json:"qos"`
	Fake       bool       `json:"fake_bridge"`
	IDs        table      `json:"external_ids"`
}

type interfaceRow struct {
	UUID        references `json:"_uuid"`
	Name        text       `json:"name"`
	Type        text       `json:"type"`
	OFPort      integer    `json:"ofport"`
	Rate        integer    `json:"ingress_policing_rate"`
	Burst       integer    `json:"ingress_policing_burst"`
	PacketRate  integer    `json:"ingress_policing_kpkts_rate"`
	PacketBurst integer    `json:"ingress_policing_kpkts_burst"`
	MTU         integer    `json:"mtu"`
	LinkState   text       `json:"link_state"`
	Error       text       `json:"error"`
	Options     table      `json:"options"`
	IDs         table      `json:"external_ids"`
}

// polledRow has further columns of an interface that ovs-vswitchd polls.
type polledRow struct {
	UUID       references `json:"_uuid"`
	Options    table      `json:"options"`
	Config     table      `json:"other_config"`
	Status     table      `json:"status"`
	Statistics counters   `json:"statistics"`
}

// addPolled adds polledRow's columns to the interfaces. Answers recorded by earlier versions lack them.
func addPolled(results []outcome, at int, interfaces map[string]facts.OVSInterface) (cut int, err error) {
	for n := at; n < min(len(results), at+len(facts.PolledPorts)); n++ {
		rows, left, err := rowsOf[polledRow](results, n)
		if err != nil {
			return cut, err
		}
		cut += left
		for _, r := range rows {
			i, known := interfaces[id(r.UUID)]
			if !known {
				continue
			}
			i.Options, i.Config = chosen(r.Options, polledOptions), chosen(r.Config, []string{"pmd-rxq-affinity"})
			i.Status, i.Statistics = chosen(r.Status, statuses), chosen(r.Statistics, statistics)
			interfaces[id(r.UUID)] = i
		}
	}
	return cut, nil
}

// rowsOf decodes at most maxRows rows of a result; cut is the number of others.
func rowsOf[T any](results []outcome, at int) (rows []T, cut int, err error) {
	if at >= len(results) {
		return nil, 0, errors.New("database of Open vSwitch: fewer results than questions")
	}
	all := results[at].Rows
	cut = max(len(all)-maxRows, 0)
	rows = make([]T, len(all)-cut)
	for i := range rows {
		if err := json.Unmarshal(all[i], &rows[i]); err != nil {
			return nil, 0, fmt.Errorf("database of Open vSwitch: %w", err)
		}
	}
	return rows, cut, nil
}

// readDatabase reads bridges, ports and settings in one transaction. It also returns the number of rows left out.
func readDatabase(m *tree.Tree) (*facts.OpenVSwitch, int, error) {
	results, err := readTables(m)
	if err != nil {
		return nil, 0, err
	}
	roots, _, err1 := rowsOf[rootRow](results, 0)
	bridges, cut2, err2 := rowsOf[bridgeRow](results, 1)
	ports, cut3, err3 := rowsOf[portRow](results, 2)
	interfaces, cut4, err4 := rowsOf[interfaceRow](results, 3)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, 0, err
	}
	o := &facts.OpenVSwitch{Config: map[string]string{}, Bridges: []facts.OVSBridge{}}
	if len(roots) > 0 {
		o.Version, o.OVN = string(roots[0].Version), chassis(roots[0].ExternalIDs, bridges)
		for key, value := range roots[0].Config {
			o.Config[key] = value
		}
	}
	byUUID := interfacesByUUID(interfaces, o)
	cut5, err := addPolled(results, 4, byUUID)
	if err != nil {
		return nil, 0, err
	}
	portsByUUID := map[string]facts.OVSPort{}
	for _, p := range ports {
		portsByUUID[id(p.UUID)] = p.fact(byUUID)
	}
	for _, b := range bridges {
		o.Bridges = append(o.Bridges, b.fact(portsByUUID))
	}
	slices.SortFunc(o.Bridges, func(a, b facts.OVSBridge) int { return strings.Compare(a.Name, b.Name) })
	return o, cut2 + cut3 + cut4 + cut5, nil
}

func id(r references) string {
	if len(r) == 0 {
		return ""
	}
	return r[0]
}

// chassis returns ovn-controller's configuration (ovn-controller(8)); nil without an OVN database. A key with the name
// of the chassis as its suffix overrides the one without (OVN's lib/ovn-util.c, get_chassis_external_id_value).
func chassis(ids table, bridges []bridgeRow) *facts.OVN {
	name := ids["system-id"]
	value := func(key string) string {
		if own, has := ids[key+"-"+name]; has {
			return own
		}
		return ids[key]
	}
	if value("ovn-remote") == "" {
		return nil
	}
	o := &facts.OVN{Chassis: name, Remote: value("ovn-remote"), Bridge: cmp.Or(value("ovn-bridge"), "br-int"),
		EncapType: value("ovn-encap-type"), EncapIP: value("ovn-encap-ip"),
		Mappings: mappings(value("ovn-bridge-mappings"))}
	for _, b := range bridges {
		for key := range b.IDs {
			if string(b.Name) == o.Bridge && strings.HasPrefix(key, "ct-zone-") {
				o.Zones++
			}
		}
	}
	return o
}

// mappings parses "physnet1:br-eth0,physnet2:br-eth1"; nil if there is none.
func mappings(text string) map[string]string {
	var all map[string]string
	for pair := range strings.SplitSeq(text, ",") {
		if network, bridge, found := strings.Cut(strings.TrimSpace(pair), ":"); found {
			if all == nil {
				all = map[string]string{}
			}
			all[network] = bridge
		}
	}
	return all
}

// options that say where a patch port or tunnel leads, and how large its packets get.
var options = []string{"peer", "remote_ip", "local_ip", "dst_port", "key", "in_key", "out_key", "seq", "df_default",
	"csum"}

// polledOptions are options of ports that ovs-vswitchd polls.
var polledOptions = []string{"dpdk-devargs", "vhost-server-path", "n_rxq", "n_rxq_desc", "n_txq_desc", "tx-retries-max"}

// statuses are the keys read from the column status of such ports (lib/netdev-dpdk.c, netdev_dpdk_get_status and
// netdev_dpdk_vhost_user_get_status).
var statuses = []string{"status", "socket", "mode", "numa", "numa_id", "driver_name", "bus_info", "num_of_vrings",
	"vring_0_size", "vring_1_size", "link_speed", "n_rxq"}

// statistics are the counters that show why packets are dropped (lib/netdev-dpdk.c,
// netdev_dpdk_get_sw_custom_stats; DPDK's rte_eth_basic_stats_get).
var statistics = []string{"ovs_tx_failure_drops", "ovs_tx_retries", "ovs_tx_mtu_exceeded_drops", "ovs_tx_qos_drops",
	"ovs_rx_qos_drops", "rx_missed_errors", "rx_mbuf_allocation_errors"}

// chosen returns the keys that a map has of those named; nil if it has none.
func chosen[V any](from map[string]V, names []string) (found map[string]V) {
	for _, name := range names {
		if value, has := from[name]; has {
			if found == nil {
				found = map[string]V{}
			}
			found[name] = value
		}
	}
	return found
}

func interfacesByUUID(rows []interfaceRow, o *facts.OpenVSwitch) map[string]facts.OVSInterface {
	all := map[string]facts.OVSInterface{}
	for _, r := range rows {
		i := facts.OVSInterface{Name: string(r.Name), Type: string(r.Type), OFPort: r.OFPort.value,
			PolicingRate: r.Rate.value, PolicingBurst: r.Burst.value, PacketRate: r.PacketRate.value,
			PacketBurst: r.PacketBurst.value, MTU: r.MTU.value, LinkState: string(r.LinkState), Error: string(r.Error),
			IfaceID: r.IDs["iface-id"] != "", Installed: r.IDs["ovn-installed"] == "true",
			Options: chosen(r.Options, options)}
		o.OpenStack = o.OpenStack || r.IDs["vm-uuid"] != ""
		all[id(r.UUID)] = i
	}
	return all
}

// take returns the rows of references and removes them from the map: the schema lets many references name one row, and
// an answer of 16 MiB could expand to 10^10 interfaces.
func take[T any](from map[string]T, uuids references) []T {
	rows := []T{}
	for _, uuid := range uuids {
		if row, known := from[uuid]; known {
			rows = append(rows, row)
			delete(from, uuid)
		}
	}
	return rows
}

func (r portRow) fact(interfaces map[string]facts.OVSInterface) facts.OVSPort {
	p := facts.OVSPort{Name: string(r.Name), BondMode: string(r.BondMode), Tag: r.Tag.value, Trunks: r.Trunks.count,
		QoS: len(r.QoS) > 0, Fake: r.Fake, Localnet: r.IDs["ovn-localnet-port"] != "",
		Interfaces: take(interfaces, r.Interfaces)}
	slices.SortFunc(p.Interfaces, func(a, b facts.OVSInterface) int { return strings.Compare(a.Name, b.Name) })
	return p
}

func (r bridgeRow) fact(ports map[string]facts.OVSPort) facts.OVSBridge {
	b := facts.OVSBridge{Name: string(r.Name), Datapath: cmp.Or(string(r.Datapath), "system"),
		FailMode: string(r.FailMode), Ports: take(ports, r.Ports)}
	slices.SortFunc(b.Ports, func(a, b facts.OVSPort) int { return strings.Compare(a.Name, b.Name) })
	return b
}
