package monitor

import (
	"io"
	"net"
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
	for name, request := range map[string]string{
		"no HTTP": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "zeros": string(make([]byte, 64<<10)),
		"version 0.9": "GET /\r\n\r\n", "another path": "GET /../metrics HTTP/1.1\r\n\r\n",
		"an encoded path": "GET /%6detrics HTTP/1.1\r\n\r\n", "a method": "CONNECT /metrics HTTP/1.1\r\n\r\n",
		"a long line":         "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\n\r\n",
		"a header without":    "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n",
		"headers without end": "GET /metrics HTTP/1.1\r\n" + strings.Repeat("a: b\r\n", 64<<10),
		"a folded first line": "GET /metrics HTTP/1.1\r\n a: b\r\n\r\n",
	} {
		if answer := ask(request + "\r\n\r\n"); strings.Contains(answer, "secret") {
			t.Errorf("%s: answered %.200q", name, answer)
		}
	}
	if answer := ask("GET /metrics HTTP/1.1\r\n\r\n"); !strings.Contains(answer, "200 OK") ||
		!strings.Contains(answer, "mpps_secret_of_the_host 1") {
		t.Errorf("the next client: %.200q", answer)
	}
}
