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

// qmp runs one command of QEMU's monitor protocol (docs/interop/qmp-spec.rst) on a connection of its
// own: negotiation, the command, its answer.
func qmp(ctx context.Context, socket, command string) (json.RawMessage, error) {
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	r := bufio.NewReader(conn)
	if _, err := r.ReadBytes('\n'); err != nil { // the greeting
		return nil, fmt.Errorf("qmp: %w", err)
	}
	var ret json.RawMessage
	for _, c := range []string{"qmp_capabilities", command} {
		if _, err := fmt.Fprintf(conn, `{"execute":%q}`+"\n", c); err != nil {
			return nil, fmt.Errorf("qmp %s: %w", c, err)
		}
		if ret, err = qmpReturn(r); err != nil {
			return nil, fmt.Errorf("qmp %s: %w", c, err)
		}
	}
	return ret, nil
}

// qmpReturn reads on to the next answer, past events.
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

// qmpHello is what QEMU reads on its second monitor, whose output is a file: from then on it writes
// its events there, whether a client is connected or not.
const qmpHello = `{"execute":"qmp_capabilities"}` + "\n"

// Reason is why L1's QEMU ended (ShutdownCause of qapi/run-state.json: guest-shutdown, guest-reset
// which is also what a panic shows as, host-qmp-quit, host-signal ...); "running" while it runs and
// "killed" if it ended without a word.
func (l *Lab) Reason() string {
	for range 50 { // the pipes close a moment before the process is gone
		if !l.running() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if l.running() {
		return "running"
	}
	b, err := os.ReadFile(filepath.Join(l.dir, "events.log"))
	if err != nil {
		return "killed"
	}
	return shutdownReason(b)
}

// event is one line of the monitor whose output is a file.
type event struct {
	Event string
	Data  struct{ Reason string }
}

// findEvents gives the events of one name; a line that is not complete yet is passed over.
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
	e := findEvents(log, "SHUTDOWN")
	if len(e) == 0 {
		return "killed"
	}
	return e[len(e)-1].Data.Reason
}
