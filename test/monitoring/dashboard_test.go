// Package monitoring tests what deploy/prometheus brings: alert rules and a dashboard over the metrics of
// 'mpps verify --watch'.
package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/must"
)

// panel is one of the dashboard: its title, unit, and queries with their legends.
type panel struct {
	title, kind, unit string
	wide              bool
	queries           [][2]string
}

const host = `instance=~"$instance"`

// panels are in the order in which a reader needs them: is it watched, is anything wrong, where are packets lost.
var panels = []panel{
	{"Hosts that are watched", "stat", "none", false, [][2]string{{`count(mpps_build_info{` + host + `})`, "watched"}}},
	{"Watches that stopped within a day", "stat", "none", false, [][2]string{
		{`count(max by (instance) (max_over_time(mpps_build_info{` + host + `}[1d])) unless ` +
			`max by (instance) (mpps_build_info))`, "stopped"}}},
	{"Drifted values", "stat", "none", false, [][2]string{{`sum(mpps_drifted_values{` + host + `})`, "drifted"}}},
	{"Values that wait for a restart", "stat", "none", false, [][2]string{
		{`sum(mpps_values{state="waiting",` + host + `})`, "waiting"}}},
	{"Problems by severity", "timeseries", "none", true, [][2]string{
		{`sum by (severity) (mpps_findings{` + host + `})`, "{{severity}}"}}},
	{"What holds packets back now", "table", "none", true, [][2]string{
		{`mpps_bottleneck_info{` + host + `}`, "{{instance}} {{stage}} {{object}}"}}},
	{"Packets of guests", "timeseries", "pps", true, [][2]string{
		{`topk(10, sum by (instance, guest, direction) (rate(mpps_guest_packets_total{` + host + `}[5m])))`,
			"{{guest}} {{direction}}"}}},
	{"Packets dropped at guests", "timeseries", "pps", true, [][2]string{
		{`topk(10, sum by (instance, guest, place) (rate(mpps_guest_dropped_packets_total{` + host + `}[5m])))`,
			"{{guest}} {{place}}"}}},
	{"Packets lost by NICs", "timeseries", "pps", true, [][2]string{
		{`sum by (instance, device, counter) (rate(mpps_nic_lost_packets_total{` + host + `}[5m]))`,
			"{{instance}} {{device}} {{counter}}"}}},
	{"Packets dropped by softirqs", "timeseries", "pps", true, [][2]string{
		{`rate(mpps_softnet_dropped_packets_total{` + host + `}[5m])`, "{{instance}} backlog full"},
		{`rate(mpps_softnet_squeezed_total{` + host + `}[5m])`, "{{instance}} budget ended"}}},
	{"Realtime: CPUs are quiet", "timeseries", "none", true, [][2]string{
		{`mpps_realtime_ok{` + host + `} and mpps_realtime_cpus > 0`, "{{instance}}"},
		{`sum by (instance, code) (mpps_realtime_findings{` + host + `})`, "{{instance}} {{code}}"}}},
	{"What mpps could not see", "timeseries", "none", true, [][2]string{
		{`mpps_unseen_parts{` + host + `}`, "{{instance}} parts"},
		{`mpps_watch_source_success{` + host + `} == 0`, "{{instance}} {{source}}"}}},
	{"Guests and who runs them", "timeseries", "none", true, [][2]string{
		{`count by (instance, platform) (mpps_guest_info{` + host + `})`, "{{instance}} {{platform}}"}}},
	{"Cost of the watch", "timeseries", "percentunit", true, [][2]string{
		{`rate(mpps_watch_cpu_seconds_total{` + host + `}[5m])`, "{{instance}}"}}},
}

type object = map[string]any

func (p panel) draw(id int, at object) object {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var targets []object
	for i, q := range p.queries {
		t := object{"datasource": source, "expr": q[0], "legendFormat": q[1], "refId": string(rune('A' + i))}
		if p.kind == "table" {
			t["format"], t["instant"] = "table", true
		}
		targets = append(targets, t)
	}
	return object{"id": id, "title": p.title, "type": p.kind, "gridPos": at, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.unit}, "overrides": []object{}}}
}

// dashboard returns the dashboard for Grafana 10 and later.
func dashboard() object {
	var all []object
	x, y := 0, 0
	for i, p := range panels {
		w, h := 6, 4
		if p.wide {
			w, h = 12, 8
		}
		all = append(all, p.draw(i+1, object{"x": x, "y": y, "w": w, "h": h}))
		if x += w; x >= 24 {
			x, y = 0, y+h
		}
	}
	return object{"title": "mpps", "uid": "mpps", "schemaVersion": 39, "version": 1, "editable": true,
		"time": object{"from": "now-6h", "to": "now"}, "refresh": "1m", "tags": []string{"kvm", "mpps"}, "panels": all,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus"},
			{"name": "instance", "type": "query", "multi": true, "includeAll": true, "allValue": ".*",
				"datasource": object{"type": "prometheus", "uid": "${datasource}"}, "refresh": 2,
				"query": "label_values(mpps_build_info, instance)"},
		}}}
}

// TestDashboard makes deploy/prometheus/dashboard.json. MPPS_UPDATE=1 (scripts/dashboard) writes it.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text := must.Get(json.MarshalIndent(dashboard(), "", " "))(t)
	golden.File(t, "../../deploy/prometheus/dashboard.json", string(text)+"\n")
}

var metricName = regexp.MustCompile(`\bmpps_[a-z_]+\b`)

// TestNames: every metric that the dashboard, the rules and the documentation name exists, and the documentation names
// every metric that exists.
func TestNames(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{}
	for _, name := range metricName.FindAllString(metrics(), -1) {
		exists[name] = true
	}
	for _, file := range []string{"../../deploy/prometheus/dashboard.json", "../../deploy/prometheus/mpps.rules.yml",
		"../../docs/monitoring.md"} {
		text := must.Get(os.ReadFile(file))(t)
		for _, name := range metricName.FindAllString(string(text), -1) {
			must.Hold(t, exists[name], "%s: there is no metric %s", file, name)
		}
		if file == "../../docs/monitoring.md" {
			for name := range exists {
				must.Hold(t, regexp.MustCompile("`"+name+"[`{]").Match(text), "%s says nothing of %s", file, name)
			}
		}
	}
}
