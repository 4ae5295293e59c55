package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// metrics is where the state is published.
type metrics struct {
	file   string
	server *metricsServer
}

// showMetrics opens what --metrics names: a file, or an address of this host.
func showMetrics(to string) (*metrics, error) {
	switch address, is, err := localAddress(to); {
	case to == "":
		return &metrics{}, nil
	case err != nil:
		return nil, err
	case is:
		server, err := serveMetrics(address)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("--metrics %s: %w", to, err), "take another port")
		}
		return &metrics{server: server}, nil
	}
	if info, err := os.Stat(filepath.Dir(to)); err != nil || !info.IsDir() {
		return nil, outcome.Failed(fmt.Errorf("--metrics %s: there is no directory %s", to, filepath.Dir(to)),
			"the directory is what node_exporter is given as --collector.textfile.directory")
	}
	return &metrics{file: to}, nil
}

// publish writes a state. A reader sees all of it, or the one before.
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

// metricsServer answers Prometheus.
type metricsServer struct {
	address string
	text    atomic.Pointer[string]
	server  *http.Server
	done    chan error
}

// localAddress reports whether --metrics names an address instead of a file. Only loopback addresses are accepted:
// what is wrong with a host is nobody else's business.
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
		return "", true, outcome.Usage(fmt.Errorf("--metrics %s: expected a loopback address such as 127.0.0.1:9909", to),
			"node_exporter's textfile collector carries a file to other hosts")
	}
	return net.JoinHostPort(name, port), true, nil
}

func serveMetrics(address string) (*metricsServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &metricsServer{address: listener.Addr().String(), done: make(chan error, 1)}
	m.set("")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(out, *m.text.Load()) // who asked may be gone
	})
	m.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 8 << 10,
	}
	go func() { m.done <- m.server.Serve(listener) }()
	return m, nil
}

func (m *metricsServer) set(text string) { m.text.Store(&text) }

func (m *metricsServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := m.server.Shutdown(ctx)
	if served := <-m.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
