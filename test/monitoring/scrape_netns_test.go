//go:build netns

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestScraped: a real Prometheus has the metrics of a watch that it scrapes and of one whose file node_exporter
// carries, and its alerts fire after SIGTERM and after SIGKILL.
func TestScraped(t *testing.T) {
	must.Need(t, os.Getenv("MPPS_BIN") != "", "MPPS_BIN names no mpps: run 'make test-netns'")
	dir := t.TempDir()
	file := filepath.Join(dir, "textfile", "mpps.prom")
	for _, sub := range []string{"textfile", "data"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	watched, exporter, prometheus := free(t), free(t), free(t)
	writeRules(t, filepath.Join(dir, "rules.yml"))
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
- {job_name: http, static_configs: [{targets: ['%s']}]}
- {job_name: file, static_configs: [{targets: ['%s']}]}
`, watched, exporter)
	must.Do(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))

	watch := func(metrics string) *exec.Cmd {
		return start(t, os.Getenv("MPPS_BIN"), "verify", "--watch", "--every", "1s", "--cost", "50",
			"--metrics", metrics)
	}
	byHTTP, byFile := watch(watched), watch(file)
	start(t, "prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
		"--collector.textfile.directory="+filepath.Dir(file), "--web.listen-address="+exporter)
	start(t, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+
		filepath.Join(dir, "data"), "--web.listen-address="+prometheus)
	server := api(prometheus)

	server.until(t, "both watches are scraped", func() bool { return len(server.instances(t, "mpps_build_info")) == 2 })
	for _, metric := range []string{"mpps_applied_values", "mpps_watch_looks_total", "mpps_watch_source_success"} {
		server.until(t, metric, func() bool { return len(server.instances(t, metric)) == 2 })
	}
	firing := server.firing(t)
	must.Hold(t, !slices.Contains(firing, "MppsWatchStopped") && !slices.Contains(firing, "MppsWatchStale"),
		"while both watches run there is %v", firing)

	end(t, byHTTP, syscall.SIGTERM)
	server.until(t, "the watch that was scraped has stopped", func() bool {
		return slices.Contains(server.firing(t), "MppsWatchStopped "+watched)
	})
	end(t, byFile, syscall.SIGKILL)
	server.until(t, "the killed watch's file is old", func() bool {
		return slices.Contains(server.firing(t), "MppsWatchStale "+exporter)
	})
	byFile = watch(file)
	server.until(t, "the file is new again", func() bool {
		return !slices.Contains(server.firing(t), "MppsWatchStale "+exporter)
	})
	end(t, byFile, syscall.SIGTERM)
	server.until(t, "the watch with a file has stopped", func() bool {
		return slices.Contains(server.firing(t), "MppsWatchStopped "+exporter)
	})
}

// writeRules writes the shipped alerts with waits of seconds in place of minutes.
func writeRules(t *testing.T, file string) {
	t.Helper()
	text := must.Get(os.ReadFile("../../deploy/prometheus/mpps.rules.yml"))(t)
	rules := regexp.MustCompile(`(?m)^( +for:) .*$`).ReplaceAllString(string(text), "$1 1s")
	soon := strings.Replace(rules, "> 300 + mpps_watch_pause_seconds", "> 5 + mpps_watch_pause_seconds", 1)
	must.Need(t, soon != rules, "the alert of an old file is not what this test knows")
	must.Do(t, os.WriteFile(file, []byte(soon), 0o644))
}

// free returns a loopback address on which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// start starts a program that ends with the test.
func start(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = nil, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (it comes with 'make deps-test')", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, said.String()[max(0, said.Len()-2000):])
		}
	})
	return cmd
}

// end ends a watch by a signal and waits for it.
func end(t *testing.T, cmd *exec.Cmd, signal os.Signal) {
	t.Helper()
	must.Do(t, cmd.Process.Signal(signal))
	_ = cmd.Wait()
}

// api is the address of a Prometheus.
type api string

// until waits until something holds, for a minute.
func (a api) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for from := time.Now(); time.Since(from) < time.Minute; time.Sleep(300 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: not within a minute; alerts: %v", what, a.firing(t))
}

// instances returns where a metric's series come from; none while the server starts.
func (a api) instances(t *testing.T, metric string) []string {
	t.Helper()
	return a.labels(t, "count by (instance) ("+metric+")", "")
}

// firing returns the names of firing alerts, each alone and with its instance.
func (a api) firing(t *testing.T) []string {
	t.Helper()
	return a.labels(t, `ALERTS{alertstate="firing"}`, "alertname")
}

// labels returns the instances of a query's series, or NAME and "NAME INSTANCE" where name is a label.
func (a api) labels(t *testing.T, query, name string) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(a)+"/api/v1/query?query="+
		url.QueryEscape(query), nil))(t)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var found struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if answer.StatusCode != http.StatusOK || json.NewDecoder(answer.Body).Decode(&found) != nil {
		return nil
	}
	for _, series := range found.Data.Result {
		if name == "" {
			all = append(all, series.Metric["instance"])
		} else {
			all = append(all, series.Metric[name], series.Metric[name]+" "+series.Metric["instance"])
		}
	}
	return all
}
