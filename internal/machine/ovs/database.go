// Package ovs reads Open vSwitch: its database over the database's socket, the kernel's datapath over generic netlink,
// and the threads of ovs-vswitchd. It sets values of the database. It reads no flows.
package ovs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
)

// folder has the sockets and PID files of Open vSwitch (ovsdb-server(1), ovs-vswitchd(8)), below the root.
const folder = "run/openvswitch"

// socket is the database's socket. In a recorded tree it is a file with an answer of the database.
const socket = folder + "/db.sock"

// patience is how long all answers of the database may take together.
const patience = 2 * time.Second

// mostBytes bounds an answer: a port takes some 600 bytes, so that ten thousand ports are 6 MB.
const mostBytes = 16 << 20

// maxRows bounds the rows of a table that are read.
const maxRows = 16384

// Present reports whether Open vSwitch's database has a socket on this machine.
func Present(m *tree.Tree) bool { return m.Exists(socket) }

// operation is one operation of a transaction (RFC 7047, 5.2).
type operation map[string]any

// outcome is the result of one operation.
type outcome struct {
	Error   string            `json:"error"`
	Details string            `json:"details"`
	Rows    []json.RawMessage `json:"rows"`
	Count   int               `json:"count"`
}

// errDatabase is an error of the database itself: it answered, and refused.
var errDatabase = errors.New("the database of Open vSwitch refuses")

// transact runs operations as one transaction: all or none (RFC 7047, 4.1.3).
func transact(m *tree.Tree, operations ...operation) ([]outcome, error) {
	if !m.Live() {
		return recorded(m)
	}
	return ask(path.Join(m.Path, socket), operations)
}

// recorded returns the answer that a recorded tree has in place of the socket.
func recorded(m *tree.Tree) ([]outcome, error) {
	text, err := m.Head(socket, mostBytes)
	if err != nil {
		return nil, err
	}
	var message struct{ Result []*outcome }
	if err := json.Unmarshal([]byte(text), &message); err != nil {
		return nil, fmt.Errorf("database of Open vSwitch: %w", err)
	}
	return parseResult(message.Result)
}

// ask sends a transaction to a socket and returns its result.
func ask(address string, operations []operation) ([]outcome, error) {
	conn, err := dial(address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return exchange(conn, operations)
}

// dial connects to the database, if a process of the system listens there.
func dial(address string) (net.Conn, error) {
	conn, err := net.DialTimeout("unix", address, patience)
	if err != nil {
		return nil, err
	}
	if err := trust.Peer(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("database of Open vSwitch: %w", err), conn.Close())
	}
	return conn, nil
}

// errNoAnswer is the error of a transaction that was sent and may have been executed: its result did not come.
var errNoAnswer = errors.New("no answer of Open vSwitch's database")

// exchange sends a transaction over a connection and returns its result.
func exchange(conn net.Conn, operations []operation) ([]outcome, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	const id = "mpps"
	params := []any{"Open_vSwitch"}
	for _, o := range operations {
		params = append(params, o)
	}
	request := map[string]any{"method": "transact", "params": params, "id": id}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return nil, err // part of a request is no request
	}
	decoder := json.NewDecoder(io.LimitReader(conn, mostBytes))
	for {
		var message struct {
			ID     any        `json:"id"`
			Method string     `json:"method"`
			Error  any        `json:"error"`
			Result []*outcome `json:"result"`
		}
		if err := decoder.Decode(&message); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		switch {
		case message.ID != id || message.Method != "": // a request of the server, such as echo
		case message.Error != nil:
			return nil, fmt.Errorf("%w: %.200s", errDatabase, fmt.Sprint(message.Error))
		default:
			return parseResult(message.Result)
		}
	}
}

// parseResult returns the results of operations, in their order. After one that failed the others have none.
func parseResult(results []*outcome) ([]outcome, error) {
	all := make([]outcome, 0, len(results))
	for _, r := range results {
		switch {
		case r == nil:
			all = append(all, outcome{})
		case r.Error != "":
			return nil, &Refused{Reason: r.Error, Details: r.Details}
		default:
			all = append(all, *r)
		}
	}
	return all, nil
}

// Refused is a transaction that the database refused.
type Refused struct {
	Reason  string // of RFC 7047: "timed out" of a wait, "constraint violation" …
	Details string
}

func (r *Refused) Error() string {
	text := fmt.Sprintf("%v: %.200s", errDatabase, r.Reason)
	if r.Details != "" {
		text += fmt.Sprintf(", %.200s", r.Details)
	}
	return text
}

// text is an optional string of the database: a string, or a set that may be empty (RFC 7047, 5.1).
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	return each(b, func(atom json.RawMessage) error { return json.Unmarshal(atom, (*string)(t)) })
}

// integer is an optional integer of the database.
type integer struct {
	value int
	set   bool
	count int // of values, where it is a set
}

func (i *integer) UnmarshalJSON(b []byte) error {
	return each(b, func(atom json.RawMessage) error {
		i.count++
		if i.set {
			return nil
		}
		i.set = true
		return json.Unmarshal(atom, &i.value)
	})
}

// references are UUIDs of rows.
type references []string

func (r *references) UnmarshalJSON(b []byte) error {
	return each(b, func(atom json.RawMessage) error {
		var pair [2]string
		if err := json.Unmarshal(atom, &pair); err != nil {
			return err
		}
		*r = append(*r, pair[1])
		return nil
	})
}

// table is a map of strings.
type table map[string]string

func (t *table) UnmarshalJSON(b []byte) error {
	pairs, err := pairsOf[string](b)
	if err != nil || len(pairs) == 0 {
		return err
	}
	*t = make(table, len(pairs))
	for _, pair := range pairs {
		(*t)[pair[0]] = pair[1]
	}
	return nil
}

// pairsOf returns the pairs of a map (RFC 7047, 5.1).
func pairsOf[T any](b []byte) (pairs [][2]T, err error) {
	if string(b) == `["map",[]]` { // saves parsing for most ports of a large host
		return nil, nil
	}
	var parts [2]json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return nil, err
	}
	err = json.Unmarshal(parts[1], &pairs)
	return pairs, err
}

// counters is a map of counters. Those of 0 are left out, and so are negative ones: a device does not count them.
type counters map[string]uint64

func (c *counters) UnmarshalJSON(b []byte) error {
	pairs, err := pairsOf[any](b)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		name, named := pair[0].(string)
		if n, counted := pair[1].(float64); named && counted && n > 0 {
			if *c == nil {
				*c = counters{}
			}
			(*c)[name] = uint64(n)
		}
	}
	return nil
}

var errSet = errors.New(`expected ["set", […]]`)

// each calls f for the atoms of a value: itself, or the elements of a set.
func each(b []byte, f func(json.RawMessage) error) error {
	switch {
	case string(b) == `["set",[]]`:
		return nil
	case !bytes.HasPrefix(b, []byte(`["set"`)):
		return f(b)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil || len(parts) != 2 {
		return errors.Join(err, errSet)
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(parts[1], &elements); err != nil {
		return err
	}
	for _, e := range elements {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}
