package ovs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
)

// Commands of ovs-vswitchd, all of which only read (ovs-vswitchd(8), RUNTIME MANAGEMENT COMMANDS).
const (
	askQueues = "dpif-netdev/pmd-rxq-show"
	askStats  = "dpif-netdev/pmd-stats-show"
	askPorts  = "dpctl/show" // with -s
	askPools  = "netdev-dpdk/get-mempool-info"
)

// mostText bounds an answer: 5,000 queues of one line each are 0.5 MB.
const mostText = 4 << 20

// errControl is an error that ovs-vswitchd itself answers.
var errControl = errors.New("ovs-vswitchd refuses")

// control is a connection to ovs-vswitchd's control socket (lib/unixctl.c), of a live machine or of a recorded one.
type control struct {
	m       *tree.Tree
	conn    net.Conn // nil: recorded
	decoder *json.Decoder
	id      int
}

// controlSocket returns the control socket of a process, below the root. The program's name is in it, which has a
// variant for DPDK in Debian.
func controlSocket(m *tree.Tree, pid int) string {
	end := "." + strconv.Itoa(pid) + ".ctl"
	for _, name := range m.List(folder) {
		if program, ends := strings.CutSuffix(name, end); ends &&
			(program == daemon || strings.HasPrefix(program, daemon+"-")) {
			return path.Join(folder, name)
		}
	}
	return ""
}

// openControl connects to the control socket of a process. All its answers must come within patience.
func openControl(m *tree.Tree, pid int) (*control, error) {
	c := &control{m: m}
	if !m.Live() {
		return c, nil
	}
	at := controlSocket(m, pid)
	if at == "" {
		return nil, errors.New("ovs-vswitchd has no control socket in /" + folder)
	}
	conn, err := net.DialTimeout("unix", path.Join(m.Path, at), patience)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(trust.Peer(conn), conn.SetDeadline(time.Now().Add(patience))); err != nil {
		return nil, errors.Join(fmt.Errorf("ovs-vswitchd's control socket: %w", err), conn.Close())
	}
	c.conn = conn
	c.decoder = json.NewDecoder(io.LimitReader(conn, mostText))
	return c, nil
}

func (c *control) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// ask returns the text that a command answers. A recorded tree has it in a file of the command's name.
func (c *control) ask(command string, args ...string) (string, error) {
	if c.conn == nil {
		return c.m.Head(path.Join(folder, "ctl", strings.ReplaceAll(command, "/", "_")), mostText)
	}
	c.id++
	request := map[string]any{"method": command, "params": append([]string{}, args...), "id": c.id}
	if err := json.NewEncoder(c.conn).Encode(request); err != nil {
		return "", err
	}
	var message struct {
		ID     int     `json:"id"`
		Error  any     `json:"error"`
		Result *string `json:"result"`
	}
	if err := c.decoder.Decode(&message); err != nil {
		return "", fmt.Errorf("no answer of ovs-vswitchd to %s: %w", command, err)
	}
	switch {
	case message.ID != c.id:
		return "", fmt.Errorf("ovs-vswitchd answers another question than %s", command)
	case message.Error != nil:
		return "", fmt.Errorf("%w: %.200s", errControl, fmt.Sprint(message.Error))
	case message.Result == nil:
		return "", fmt.Errorf("ovs-vswitchd answers nothing to %s", command)
	}
	return *message.Result, nil
}

// Polled asks ovs-vswitchd what its polling threads do.
func Polled(m *tree.Tree, pid int) (s *facts.PolledSwitch, err error) {
	c, err := openControl(m, pid)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	queues, err := c.ask(askQueues)
	if err != nil {
		return nil, err
	}
	stats, err := c.ask(askStats)
	if err != nil {
		return nil, err
	}
	s = &facts.PolledSwitch{}
	if s.PMDs, err = parseQueues(queues); err != nil {
		return nil, err
	}
	if err := parseStats(stats, s.PMDs); err != nil {
		return nil, err
	}
	ports, err := c.ask(askPorts, "-s")
	if err != nil {
		return nil, err
	}
	if s.Ports, err = parsePorts(ports); err != nil {
		return nil, err
	}
	for i := range s.Ports {
		s.Ports[i].Queues = queuesOf(s.Ports[i].Name, s.PMDs)
	}
	pools, err := c.ask(askPools)
	if errors.Is(err, errControl) { // without DPDK, or before 2.6
		return s, nil
	}
	if err == nil {
		s.Pools, err = parsePools(pools)
	}
	return s, err
}

// readPolled asks ovs-vswitchd about its polling threads, if a bridge uses its userspace datapath.
func readPolled(m *tree.Tree, o *facts.OpenVSwitch, h *facts.Host) {
	user := func(b facts.OVSBridge) bool { return b.Datapath == facts.UserDatapath }
	if !slices.ContainsFunc(o.Bridges, user) {
		return
	}
	if o.PID == 0 {
		tree.Note(h, facts.Unseen{What: "polling threads of Open vSwitch", Why: "ovs-vswitchd does not run, or its " +
			"PID file names no process of the system"})
		return
	}
	var err error
	if o.Polled, err = Polled(m, o.PID); err != nil {
		tree.AddUnseen(h, "polling threads of Open vSwitch", err)
	}
}
