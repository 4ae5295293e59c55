package monitor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestMetricsListener asks a listener as Prometheus does, and finds nobody there when it is closed.
func TestMetricsListener(t *testing.T) {
	t.Parallel()
	s, err := serveMetrics("127.0.0.1:0")
	if err == nil {
		t.Cleanup(func() { s.listener.Close() })
	} else {
		t.Fatal(err)
	}
	s.set("mpps_realtime_ok 1\n")
	ask := func(path string) (int, string, error) {
		r, err := http.Get("http://" + s.listener.Addr().String() + path)
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return r.StatusCode, string(text), err
	}
	for path, want := range map[string]string{"/metrics": "200 mpps_realtime_ok 1\n", "/": "404 404 page not found\n"} {
		code, text, err := ask(path)
		if got := fmt.Sprintf("%d %s", code, text); err != nil || got != want {
			t.Errorf("%s: found %q (%v), expected %q", path, got, err, want)
		}
	}
	for request, want := range map[string]string{
		"GET /metrics?x=1 HTTP/1.0\r\n\r\n":                               "HTTP/1.1 200 OK",
		"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n":                       "HTTP/1.1 405 Method Not Allowed",
		"nonsense\r\n\r\n":                                                "HTTP/1.1 400 Bad Request",
		"GET /metrics HTTP/1.1\r\nno header\r\n\r\n":                      "HTTP/1.1 400 Bad Request",
		"GET /" + strings.Repeat("a", requestLimit) + " HTTP/1.1\r\n\r\n": "HTTP/1.1 400 Bad Request",
	} {
		if got := raw(t, s.listener.Addr().String(), request); !strings.HasPrefix(got, want+"\r\n") {
			t.Errorf("%.40q: found %q, expected %q", request, got, want)
		}
	}
	head := raw(t, s.listener.Addr().String(), "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	must.Hold(t, strings.HasSuffix(head, "\r\n\r\n") && strings.Contains(head, "Content-Length: 19\r\n"),
		"HEAD: found %q", head)
	must.Try(t, s.close())
	if _, _, err := ask("/metrics"); err == nil {
		t.Error("it answers though it is closed")
	}
}

// TestMetricsFlood: whoever opens thousands of connections and says nothing takes no more than a bound of the watch's
// descriptors, and keeps nobody from the metrics.
func TestMetricsFlood(t *testing.T) {
	s := must.Get(serveMetrics("127.0.0.1:0"))(t)
	address := s.listener.Addr().String()
	before := len(must.Get(os.ReadDir("/proc/self/fd"))(t))
	const flood = 400
	for range flood {
		c := must.Get(net.Dial("tcp", address))(t)
		defer c.Close()
	}
	got := raw(t, address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	must.Hold(t, strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n"), "found %q", got)
	if got := len(must.Get(os.ReadDir("/proc/self/fd"))(t)) - before - flood; got > 200 {
		t.Errorf("the server holds %d connections", got)
	}
	must.Do(t, s.close())
}

// raw sends a request as it is and returns the answer.
func raw(t *testing.T, address, request string) string {
	t.Helper()
	c := must.Get(net.Dial("tcp", address))(t)
	defer c.Close()
	must.Get(io.WriteString(c, request))(t)
	answer, err := io.ReadAll(c)
	must.Need(t, len(answer) != 0, "no answer: %v", err)
	return string(answer)
}

func TestLocalAddress(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"127.0.0.1:9909": "127.0.0.1:9909", ":9909": "127.0.0.1:9909", "localhost:1": "127.0.0.1:1",
		"[::1]:9909": "[::1]:9909", "mpps.prom": "", "/run/a:1": "", "0.0.0.0:9909": "refused",
		"host:9909": "refused", "[::]:1": "refused",
	} {
		got, is, err := localAddress(to)
		if err != nil {
			got = "refused"
		}
		must.Hold(t, got == want && is == (want != ""), "%s: found %q, an address: %v, expected %q", to, got, is, want)
	}
}

// TestMetricsFile: a reader sees whole texts, and nothing is left behind; what is no file is not removed.
func TestMetricsFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "mpps.prom")
	m := must.Get(openMetrics(name))(t)
	for _, text := range []string{"a 1\n", "a 2\n"} {
		must.Do(t, m.publish(text))
		if found, err := os.ReadFile(name); err != nil || string(found) != text {
			t.Errorf("found %q, %v", found, err)
		}
	}
	must.Try(t, m.close())
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	none := &metrics{file: os.DevNull}
	must.Try(t, errors.Join(none.publish("a 1\n"), none.close()))
	must.Get(os.Stat(os.DevNull))(t)
}
