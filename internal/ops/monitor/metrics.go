package monitor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mpps/internal/measure/traffic/talk"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// metrics publishes the state in a file or by a server.
type metrics struct {
	file   string
	server *metricsServer
}

// openMetrics opens what --metrics names: a file, or a loopback address.
func openMetrics(to string) (*metrics, error) {
	switch address, is, err := localAddress(to); {
	case to == "":
		return &metrics{}, nil
	case err != nil:
		return nil, err
	case is:
		server, err := serveMetrics(address)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("--metrics %s: %w", to, outcome.SocketCause(err)),
				"take another port")
		}
		return &metrics{server: server}, nil
	}
	if info, err := os.Stat(filepath.Dir(to)); err != nil || !info.IsDir() {
		return nil, outcome.Failed(fmt.Errorf("--metrics %s: there is no directory %s", to, filepath.Dir(to)),
			"the directory is what node_exporter is given as --collector.textfile.directory")
	}
	return &metrics{file: to}, nil
}

// publish replaces the state atomically.
func (m *metrics) publish(text string) error {
	if m.server != nil {
		m.server.set(text)
	}
	if m.file == "" {
		return nil
	}
	if err := ops.ReplaceFile(m.file, []byte(text)); err != nil {
		return outcome.Failed(fmt.Errorf("--metrics %s: %w", m.file, err),
			"it must be in a directory that you may write to")
	}
	return nil
}

// close removes the state: it would no longer be true.
func (m *metrics) close() error {
	if m.server != nil {
		return m.server.close()
	}
	if m.file == "" {
		return nil
	}
	if info, err := os.Stat(m.file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if err := os.Remove(m.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// metricsServer answers Prometheus, one request per connection. net/http would add 3.6 MB to a program that is copied
// to hosts.
type metricsServer struct {
	text     atomic.Pointer[[]byte] // shared by all answers: a client that does not read keeps no copy
	listener net.Listener
	lobby    talk.Lobby // a user of the host may open as many connections as he likes
	done     chan error
	answers  sync.WaitGroup
}

// localAddress reports whether --metrics names an address instead of a file, and returns it. Only loopback addresses
// are accepted: a host's faults are not for others to read.
func localAddress(to string) (address string, is bool, err error) {
	if strings.Contains(to, "/") {
		return "", false, nil
	}
	name, port, err := net.SplitHostPort(to)
	if err != nil {
		return "", false, nil // a file
	}
	if name == "" || name == "localhost" {
		name = "127.0.0.1"
	}
	if ip := net.ParseIP(name); ip == nil || !ip.IsLoopback() {
		return "", true, outcome.Usage(fmt.Errorf("--metrics %s: expected a loopback address such as 127.0.0.1:9909",
			to), "node_exporter's textfile collector carries a file to other hosts")
	}
	return net.JoinHostPort(name, port), true, nil
}

func serveMetrics(address string) (*metricsServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &metricsServer{listener: listener, done: make(chan error, 1)}
	m.set("")
	go func() { m.done <- m.serve() }()
	return m, nil
}

func (m *metricsServer) set(text string) {
	b := []byte(text)
	m.text.Store(&b)
}

// serve answers until the listener is closed.
func (m *metricsServer) serve() error {
	for {
		c, err := m.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of descriptors or memory, for example, which passes
			time.Sleep(100 * time.Millisecond)
		default:
			leave := m.lobby.Enter(c, answerLimit)
			m.answers.Go(func() {
				defer leave()
				m.answer(c)
			})
		}
	}
}

const (
	answerLimit  = 5 * time.Second
	requestLimit = 8 << 10 // bytes
)

// answer reads a request and answers it. Errors are ignored: the client may be gone.
func (m *metricsServer) answer(c net.Conn) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(answerLimit)) != nil {
		return
	}
	request := textproto.NewReader(bufio.NewReader(io.LimitReader(c, requestLimit)))
	var headers textproto.MIMEHeader
	line, err := request.ReadLine()
	if err == nil {
		headers, err = request.ReadMIMEHeader()
	}
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	path, _, _ := strings.Cut(target, "?")
	status, text := "200 OK", *m.text.Load()
	switch {
	case err != nil, version != "HTTP/1.0" && version != "HTTP/1.1":
		status, text = "400 Bad Request", []byte("400 bad request\n")
	case path != "/metrics":
		status, text = "404 Not Found", []byte("404 page not found\n")
	case method != "GET" && method != "HEAD":
		status, text = "405 Method Not Allowed\r\nAllow: GET, HEAD", []byte("405 method not allowed\n")
	case !ownHost(headers["Host"], version):
		status, text = "421 Misdirected Request", []byte("421 ask for an address or localhost\n")
	}
	head := fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n", status, len(text))
	if method == "HEAD" {
		text = nil
	}
	_, _ = (&net.Buffers{[]byte(head), text}).WriteTo(c)
}

// ownHost reports whether the host that a request is for can only be one that its client reached by address: a web page
// whose name resolves to 127.0.0.1 makes the browser of a user of this host ask under that name, and read the answer.
// HTTP/1.1 has it exactly once, and HTTP/1.0 once at most (RFC 9112 section 3.2).
func ownHost(hosts []string, version string) bool {
	if len(hosts) != 1 {
		return len(hosts) == 0 && version == "HTTP/1.0"
	}
	name, port, err := net.SplitHostPort(hosts[0])
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(hosts[0], "["), "]"), "0"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	address, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && address.Zone() == ""
}

// close closes the listener and gives pending answers a second.
func (m *metricsServer) close() error {
	err := m.listener.Close()
	if served := <-m.done; !errors.Is(served, net.ErrClosed) {
		err = errors.Join(err, served)
	}
	answered := make(chan struct{})
	go func() {
		m.answers.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-time.After(time.Second):
	}
	return err
}
