package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path"
	"time"
)

// ovsdbSocket is where the database of Open vSwitch listens (ovsdb-server(1)), below the root.
const ovsdbSocket = "run/openvswitch/db.sock"

const (
	ovsdbPatience = 2 * time.Second
	mostOVSDB     = 64 << 20 // bytes of an answer: ten thousand tunnels are a few MiB
)

// ovsdbTunnels are Open vSwitch's types of tunnels with the kinds of the devices that serve them in the kernel's
// datapath (lib/dpif-netlink-rtnl.c, vport_type_to_kind).
var ovsdbTunnels = []struct {
	kind    string
	devices []string
}{
	{"geneve", []string{"geneve"}}, {"vxlan", []string{"vxlan"}}, {"gre", []string{"gretap", "gre"}},
	{"ip6gre", []string{"ip6gre"}}, {"erspan", []string{"erspan", "ip6erspan"}},
}

// askOVSDB returns the ends of Open vSwitch's tunnels by the kind of their device, from table Interface of its database
// (RFC 7047, 5.2.2; ovs-vswitchd.conf.db(5), options:remote_ip). A kind is missing if flows choose some of its ends.
func askOVSDB(root string) (map[string][]ends, error) {
	conn, err := net.DialTimeout("unix", path.Join(root, ovsdbSocket), ovsdbPatience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(ovsdbPatience)); err != nil {
		return nil, err
	}
	const id = "mpps"
	params := []any{"Open_vSwitch"}
	for _, t := range ovsdbTunnels {
		params = append(params, map[string]any{"op": "select", "table": "Interface", "columns": []string{"options"},
			"where": [][]string{{"type", "==", t.kind}}})
	}
	request := map[string]any{"method": "transact", "params": params, "id": id}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(io.LimitReader(conn, mostOVSDB))
	for {
		var message struct {
			ID     any             `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
		}
		if err := decoder.Decode(&message); err != nil {
			return nil, fmt.Errorf("database of Open vSwitch: %w", err)
		}
		if message.ID == id && message.Method == "" { // not a request of its own, such as echo
			return parseOVSDB(message.Result)
		}
	}
}

// parseOVSDB reads the results of the selects, in their order.
func parseOVSDB(text []byte) (map[string][]ends, error) {
	var results []struct {
		Error string `json:"error"`
		Rows  []struct {
			Options json.RawMessage `json:"options"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, fmt.Errorf("database of Open vSwitch: %w", err)
	}
	if len(results) < len(ovsdbTunnels) {
		return nil, errors.New("database of Open vSwitch: fewer results than questions")
	}
	all := map[string][]ends{}
	for i, t := range ovsdbTunnels {
		known := results[i].Error == ""
		var found []ends
		for _, row := range results[i].Rows {
			e, ok := tunnelOptions(row.Options)
			known, found = known && ok, append(found, e)
		}
		for _, device := range t.devices {
			if known {
				all[device] = found
			}
		}
	}
	return all, nil
}

// tunnelOptions reads a map of the database: ["map", [["remote_ip", "192.0.2.1"], …]]. It returns false if the remote
// end is not an address: flows choose it.
func tunnelOptions(text []byte) (e ends, ok bool) {
	var parts [2]json.RawMessage
	var pairs [][2]string
	if json.Unmarshal(text, &parts) != nil || json.Unmarshal(parts[1], &pairs) != nil {
		return e, false
	}
	for _, pair := range pairs {
		address, err := netip.ParseAddr(pair[1])
		switch {
		case err != nil:
		case pair[0] == "remote_ip":
			e.remote = address
		case pair[0] == "local_ip":
			e.local = address
		}
	}
	return e, e.remote.IsValid()
}
