package monitor

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestMetricsGarbage: what is no request for the metrics gets none of them, and the next client does.
func TestMetricsGarbage(t *testing.T) {
	t.Parallel()
	m := must.Get(serveMetrics("127.0.0.1:0"))(t)
	defer func() { must.Do(t, m.close()) }()
	m.set("mpps_secret_of_the_host 1\n")
	ask := func(request string) string {
		c := must.Get(net.Dial("tcp", m.listener.Addr().String()))(t)
		defer c.Close()
		must.Do(t, c.SetDeadline(time.Now().Add(answerLimit)))
		_, _ = io.WriteString(c, request) // it may be closed before all is written
		answer, _ := io.ReadAll(io.LimitReader(c, 1<<20))
		return string(answer)
	}
	const get, end = "GET /metrics HTTP/1.1\r\n", "\r\n\r\n"
	for name, request := range map[string]string{
		"no HTTP": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "zeros": string(make([]byte, 64<<10)),
		"version 0.9": "GET /\r\n\r\n", "another path": "GET /../metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"an encoded path":     "GET /%6detrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a method":            "CONNECT /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a long line":         "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\n\r\n",
		"a header without":    get + "Host: localhost\r\nno colon\r\n\r\n",
		"headers without end": get + "Host: localhost\r\n" + strings.Repeat("a: b\r\n", 64<<10),
		"a folded first line": get + " a: b\r\nHost: localhost\r\n\r\n",
		// A web page's own name that resolves to 127.0.0.1 makes this server the page's origin.
		"a page's name":         get + "Host: attacker.example:9909" + end,
		"an address in a name":  get + "Host: 127.0.0.1.attacker.example" + end,
		"localhost in a name":   get + "Host: localhost.attacker.example:9909" + end,
		"a name below it":       get + "Host: attacker.localhost" + end,
		"a user's name":         get + "Host: 127.0.0.1@attacker.example" + end,
		"a port's name":         get + "Host: attacker.example:127.0.0.1" + end,
		"an address of IPv6":    get + "Host: [::1].attacker.example" + end,
		"two hosts":             get + "Host: localhost\r\nHost: attacker.example" + end,
		"two in one":            get + "Host: localhost, attacker.example" + end,
		"the other first":       get + "Host: attacker.example\r\nHost: localhost" + end,
		"no host":               get + "\r\n",
		"an empty host":         get + "Host:" + end,
		"a host in the target":  "GET http://attacker.example/metrics HTTP/1.1\r\nHost: localhost" + end,
		"no version":            "GET /metrics\r\n" + end,
		"an unknown version":    "GET /metrics HTTP/9.9\r\nHost: localhost" + end,
		"another protocol":      "GET /metrics RTSP/1.0\r\nHost: localhost" + end,
		"more after it":         "GET /metrics HTTP/1.1 x\r\nHost: localhost" + end,
		"a host in HTTP/1.0":    "GET /metrics HTTP/1.0\r\nHost: attacker.example" + end,
		"control characters":    get + "Host: localhost\x00.attacker.example" + end,
		"a number for a host":   get + "Host: 2130706433" + end,
		"a zone":                get + "Host: [::1%25attacker.example]:9909" + end,
		"a rest after the port": get + "Host: 127.0.0.1:9909/attacker.example" + end,
	} {
		if answer := ask(request + "\r\n\r\n"); strings.Contains(answer, "secret") {
			t.Errorf("%s: answered %.200q", name, answer)
		}
	}
	for _, host := range []string{"localhost", "LocalHost:9909", "127.0.0.1:9909", "[::1]:9909", "127.0.0.2", "[::1]"} {
		if answer := ask(get + "Host: " + host + end); !strings.Contains(answer, "200 OK") ||
			!strings.Contains(answer, "mpps_secret_of_the_host 1") {
			t.Errorf("the next client, of %s: %.200q", host, answer)
		}
	}
}

// TestMetricsUnread: clients that do not read their answers share its text.
func TestMetricsUnread(t *testing.T) {
	m := must.Get(serveMetrics("127.0.0.1:0"))(t)
	defer func() { must.Do(t, m.close()) }()
	m.set(strings.Repeat("mpps_metric 1\n", 8<<20/14))
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	for range 40 {
		c := must.Get(net.Dial("tcp", m.listener.Addr().String()))(t)
		defer c.Close()
		must.Get(io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		must.Get(c.Read(make([]byte, 1)))(t)
	}
	if more := int64(heap()) - int64(before); more > 16<<20 {
		t.Errorf("40 clients hold %d MiB", more>>20)
	}
}
