package ovs

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// server is ovsdb-server as far as the mechanism uses it: a row with one column, select, wait and mutate.
type server struct {
	t       *testing.T
	address string

	mu       sync.Mutex
	listener net.Listener
	held     map[string]string
	commits  int
	// what goes wrong with the next transaction that writes; each happens once
	before func() // before it is executed
	ends   string // the connection ends "unexecuted" or "executed", or "hangs"
}

func newServer(t *testing.T, held map[string]string) *server {
	s := &server{t: t, address: filepath.Join(t.TempDir(), "db.sock"), held: held}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	listener, err := net.Listen("unix", s.address)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	s.listener = listener
	s.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener.Close()
}

// value returns a key, or "-".
func (s *server) value(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, has := s.held[key]; has {
		return v
	}
	return "-"
}

// set is what somebody else does.
func (s *server) set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[key] = value
}

func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	var request struct {
		ID     any
		Params []json.RawMessage
	}
	if json.NewDecoder(conn).Decode(&request) != nil {
		return
	}
	var operations []operation
	for _, p := range request.Params[1:] {
		var o operation
		if json.Unmarshal(p, &o) != nil {
			return
		}
		operations = append(operations, o)
	}
	writes := operations[0]["op"] == "wait"
	s.mu.Lock()
	before, ends := s.before, s.ends
	if writes {
		s.before, s.ends = nil, ""
	}
	s.mu.Unlock()
	if writes && before != nil {
		before()
	}
	if writes && ends == "unexecuted" {
		return
	}
	result := s.execute(operations)
	if writes && ends == "executed" {
		return
	}
	if writes && ends == "hangs" {
		time.Sleep(patience + time.Second)
	}
	_ = json.NewEncoder(conn).Encode(map[string]any{"id": request.ID, "error": nil, "result": result})
}

func (s *server) execute(operations []operation) []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var result []any
	for _, o := range operations {
		switch o["op"] {
		case "select":
			result = append(result, map[string]any{"rows": []any{map[string]any{
				"_uuid": []any{"uuid", "r"}, "other_config": asMap(s.held)}}})
		case "wait":
			row := o["rows"].([]any)[0].(map[string]any)
			if !reflect.DeepEqual(fromMap(row["other_config"]), s.held) {
				return append(result, map[string]any{"error": timedOut})
			}
			result = append(result, map[string]any{})
		case "mutate":
			for _, m := range o["mutations"].([]any) {
				switch m := m.([]any); m[1] {
				case "delete":
					for _, key := range m[2].([]any)[1].([]any) {
						delete(s.held, key.(string))
					}
				case "insert":
					maps.Copy(s.held, fromMap(m[2]))
				}
			}
			s.commits++
			result = append(result, map[string]any{"count": 1})
		default:
			result = append(result, map[string]any{})
		}
	}
	return result
}

func asMap(held map[string]string) []any {
	pairs := []any{}
	for k, v := range held {
		pairs = append(pairs, []string{k, v})
	}
	return []any{"map", pairs}
}

func fromMap(value any) map[string]string {
	all := map[string]string{}
	for _, pair := range value.([]any)[1].([]any) {
		p := pair.([]any)
		all[p[0].(string)] = p[1].(string)
	}
	return all
}

// mechanism returns the mechanism at a socket, and a reading of max-idle.
func mechanism(t *testing.T, socket string) (*config, func() setting.Reading) {
	t.Helper()
	c := &config{m: treetest.Live(t), socket: socket, installed: func() bool { return true },
		restarts: 400 * time.Millisecond, seen: map[string]setting.Reading{}}
	return c, func() setting.Reading { return c.Read(t.Context(), idle) }
}

var idle = setting.Of(setting.OVSDB, "max-idle")

func TestConfig(t *testing.T) {
	s := newServer(t, map[string]string{"flow-limit": "many", "dpdk-init": "true", "": ""})
	c, read := mechanism(t, s.address)
	found := read()
	must.Need(t, found.State == setting.Absent && !found.NoObject, "a key that is not there: %+v", found)
	if err := c.Write(t.Context(), idle, setting.Value("20000")); err != nil || s.value("max-idle") != "20000" {
		t.Errorf("%v, %s", err, s.value("max-idle"))
	}
	if r := read(); r.Value != "20000" || r.AsFound || r.ReadOnly {
		t.Errorf("%+v", r)
	}
	if err := c.Write(t.Context(), idle, found); err != nil || s.value("max-idle") != "-" {
		t.Errorf("%v, %s", err, s.value("max-idle"))
	}
	// What stands there and is no number comes back as it was.
	limit := setting.Of(setting.OVSDB, "flow-limit")
	was := c.Read(t.Context(), limit)
	must.Hold(t, was.AsFound && was.Value == "many", "%+v", was)
	for _, value := range []setting.Reading{setting.Value("1000"), was} {
		if err := c.Write(t.Context(), limit, value); err != nil || s.value("flow-limit") != value.Value {
			t.Errorf("%v, %s", err, s.value("flow-limit"))
		}
	}
	other := setting.Of(setting.OVSDB, "dpdk-init")
	if r := c.Read(t.Context(), other); !r.ReadOnly || r.Value != "true" {
		t.Errorf("%+v", r)
	}
	commits := s.commits
	for a, value := range map[setting.Address]setting.Reading{other: setting.Value("false"), limit: setting.Value("-1"),
		idle: setting.Value("")} {
		must.Refuse(t, c.Write(t.Context(), a, value), "%s was set to %s", a, value)
	}
	if err := c.Write(t.Context(), idle, setting.CouldNotTell("x")); err == nil || s.commits != commits {
		t.Errorf("written: %v", err)
	}
	must.Hold(t, s.value("dpdk-init") == "true" && s.value("") == "", "other keys were touched: %v", s.held)
}

// TestForeignChange: a key that somebody else has set since it was read is left alone. Other keys may change.
func TestForeignChange(t *testing.T) {
	s := newServer(t, map[string]string{"max-idle": "10000"})
	c, read := mechanism(t, s.address)
	read()
	s.set("max-idle", "30000") // between the read and the write
	if err := c.Write(t.Context(), idle, setting.Value("20000")); err == nil || errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("a value that was not seen was replaced: %v", err)
	}
	read()
	s.before = func() { s.set("max-idle", "40000") } // after the check, before the transaction
	if err := c.Write(t.Context(), idle, setting.Value("20000")); err == nil || s.value("max-idle") != "40000" {
		t.Errorf("%v, %s", err, s.value("max-idle"))
	}
	read()
	s.before = func() { s.set("vlan-limit", "0") } // as ovn-controller sets it
	if err := c.Write(t.Context(), idle, setting.Value("20000")); err != nil || s.value("max-idle") != "20000" ||
		s.value("vlan-limit") != "0" {
		t.Errorf("%v, %v", err, s.held)
	}
}

// TestDoubt: where the answer does not come, what the next server holds decides; a server that hangs leaves a doubt.
func TestDoubt(t *testing.T) {
	for ends, want := range map[string]struct {
		value           string
		refused, doubts bool
	}{
		"unexecuted": {"10000", true, false}, "executed": {"20000", false, false}, "hangs": {"20000", true, true},
	} {
		s := newServer(t, map[string]string{"max-idle": "10000"})
		c, read := mechanism(t, s.address)
		read()
		s.ends = ends
		err := c.Write(t.Context(), idle, setting.Value("20000"))
		if (err != nil) != want.refused || errors.Is(err, setting.ErrInDoubt) != want.doubts ||
			s.value("max-idle") != want.value {
			t.Errorf("%s: %v, %s", ends, err, s.value("max-idle"))
		}
	}
}

// TestStopped: what a database holds that does not run cannot be determined, so that an undo does not take it for gone.
func TestStopped(t *testing.T) {
	s := newServer(t, map[string]string{})
	c, read := mechanism(t, s.address)
	read()
	s.stop()
	if r := read(); r.State != setting.Unknown || !strings.Contains(r.Why, "does not run") {
		t.Errorf("%+v", r)
	}
	go func() {
		time.Sleep(300 * time.Millisecond)
		os.Remove(s.address)
		s.start()
	}()
	if err := c.Write(t.Context(), idle, setting.Value("20000")); err != nil || s.value("max-idle") != "20000" {
		t.Errorf("a restart was not waited for: %v", err)
	}
	c.installed = func() bool { return false }
	if r := read(); !r.NoObject {
		t.Errorf("%+v", r)
	}
	must.Is(t, c.Write(t.Context(), idle, setting.Value("20000")), errNotInstalled, "c.Write")
	m := treetest.Recorded(t, map[string]string{socket: recordedAnswer})
	mechanisms := Mechanisms(m)
	if r := mechanisms.Read(t.Context(), idle); r.Value != "30000" {
		t.Errorf("%+v", r)
	}
	must.Is(t, mechanisms.Write(t.Context(), idle, setting.Value("20000")), tree.ErrNotLive, "mechanisms.Write")
}

// hooked calls functions around the writes of a mechanism.
type hooked struct {
	setting.Mechanism
	before, after func()
}

func (h *hooked) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if f := h.before; f != nil {
		h.before = nil
		f()
	}
	err := h.Mechanism.Write(ctx, a, to)
	if f := h.after; f != nil {
		h.after = nil
		f()
	}
	return err
}

// transaction is an apply of max-idle=20000 to a mechanism, and the engine that made it.
func transaction(t *testing.T, m setting.Mechanism) (*apply.Engine, apply.Result, error) {
	t.Helper()
	j := must.Get(journal.Open(t.TempDir()))(t)
	t.Cleanup(func() { j.Close() })
	e := &apply.Engine{Mechanisms: setting.Mechanisms{setting.OVSDB: m}, Journal: j, Host: "box", BootID: "boot",
		Version: "test"}
	from := m.Read(t.Context(), idle)
	result, err := e.Run(t.Context(), &plan.Plan{Digest: "d", Goal: goal.Unlimited(), Changes: []plan.Change{{ID: "ovs.x",
		Address: idle, From: from, To: setting.Value("20000"), Want: setting.Exact("20000"), Risk: goal.None,
		Lasts: setting.InOpenVSwitch}}}, apply.Options{})
	return e, result, err
}

// TestRestartInApply: a switch that stops in the middle of an apply, and comes back at once or much later, leaves a
// transaction after which the database is as before, at the latest by a rollback.
func TestRestartInApply(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, at := range []string{"intent", "write"} {
			s := newServer(t, map[string]string{"dpdk-init": "true"})
			c, _ := mechanism(t, s.address)
			h := &hooked{Mechanism: c}
			stop := func() {
				s.stop()
				if !late {
					time.AfterFunc(100*time.Millisecond, s.start)
				}
			}
			if at == "intent" {
				h.before = stop
			} else {
				h.after = stop
			}
			e, result, err := transaction(t, h)
			if late {
				s.start()
			}
			t.Logf("stopped after %s, late %v: %s, %v", at, late, result.State, err)
			if err == nil || late {
				must.Pass(e.Rollback(t.Context(), apply.RollbackOptions{}))(t,
					"stopped after %s, late %v: rollback", at, late)
			}
			must.Hold(t, s.value("max-idle") == "-" && s.value("dpdk-init") == "true",
				"stopped after %s, late %v: %v", at, late, s.held)
		}
	}
}
