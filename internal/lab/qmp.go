package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// qmp runs one QMP command (docs/interop/qmp-spec.rst) on a new connection, within 5 s.
func qmp(ctx context.Context, socket, command string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m, err := dialMonitor(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer m.close()
	return m.do(command, nil)
}

// monitor is a connection to QEMU's monitor. It ends with the context it was created with.
type monitor struct {
	conn net.Conn
	r    *bufio.Reader
	stop func() bool
}

// dialMonitor connects, reads the greeting and leaves negotiation mode.
func dialMonitor(ctx context.Context, socket string) (*monitor, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	m := &monitor{conn: conn, r: bufio.NewReader(conn), stop: context.AfterFunc(ctx, func() { conn.Close() })}
	if _, err = m.r.ReadBytes('\n'); err == nil { // the greeting
		_, err = m.do("qmp_capabilities", nil)
	}
	if err != nil {
		m.close()
		return nil, fmt.Errorf("qmp: %w", err)
	}
	return m, nil
}

func (m *monitor) close() {
	m.stop()
	m.conn.Close()
}

// do runs a command; arguments is a struct or map, or nil.
func (m *monitor) do(command string, arguments any) (json.RawMessage, error) {
	err := json.NewEncoder(m.conn).Encode(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, arguments})
	var ret json.RawMessage
	if err == nil {
		ret, err = qmpReturn(m.r)
	}
	if err != nil {
		return nil, fmt.Errorf("qmp %s: %w", command, err)
	}
	return ret, nil
}

// qmpReturn reads up to the next answer and skips events.
func qmpReturn(r *bufio.Reader) (json.RawMessage, error) {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var m struct {
			Return json.RawMessage
			Error  *struct{ Class, Desc string }
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %s", m.Error.Class, m.Error.Desc)
		}
		if m.Return != nil {
			return m.Return, nil
		}
	}
}

// qmpHello is the input of QEMU's second monitor. It makes QEMU write its events to eventsLog, whether a client is
// connected or not.
const qmpHello = `{"execute":"qmp_capabilities"}` + "\n"

// eventsLog is the output of that monitor.
const eventsLog = "events.log"

// Reason returns why L1's QEMU ended (ShutdownCause of qapi/run-state.json: guest-shutdown, guest-reset (also after a
// panic), host-qmp-quit, host-signal ...); "watchdog" if a CPU had stopped (see /lab/heart), "frozen" if QEMU itself
// stood still (see watch), "running" if it runs, "killed" if it ended without a SHUTDOWN event.
func (l *Lab) Reason() string {
	for range 50 { // the pipes close a moment before the process ends
		if !l.running() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if l.running() {
		return "running"
	}
	b, err := os.ReadFile(filepath.Join(l.dir, eventsLog))
	if err != nil {
		return "killed"
	}
	return shutdownReason(b)
}

// watchdogBit is the Reason of a QEMU that its watchdog ended.
const watchdogBit = "watchdog"

// event is a line of eventsLog.
type event struct {
	Event string
	Data  struct{ Reason string }
}

// findEvents returns the events of one name; it skips an incomplete last line.
func findEvents(log []byte, name string) []event {
	var out []event
	for line := range bytes.Lines(log) {
		var e event
		if json.Unmarshal(line, &e) == nil && e.Event == name {
			out = append(out, e)
		}
	}
	return out
}

func hasEvent(log []byte, name string) bool { return len(findEvents(log, name)) > 0 }

func shutdownReason(log []byte) string {
	if hasEvent(log, "WATCHDOG") {
		return watchdogBit
	}
	if hasEvent(log, frozenEvent) {
		return frozen
	}
	e := findEvents(log, "SHUTDOWN")
	if len(e) == 0 {
		return "killed"
	}
	return e[len(e)-1].Data.Reason
}
