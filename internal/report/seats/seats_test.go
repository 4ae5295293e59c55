package seats

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/placement"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/report"
)

// founding is two sockets of ten cores with two threads each, a NIC on node 0 and one guest of nine vCPUs.
func founding() *facts.Host {
	h := &facts.Host{Name: "founding", NICs: []facts.NIC{{Name: "eth0", Node: 0, Up: true, Master: "br0"}},
		Bridges: []facts.Bridge{{Name: "br0", Up: true, Ports: []string{"eth0"}}}}
	for cpu := range 40 {
		core := cpu % 20
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: cpu, Online: cpu != 39, Package: core / 10, Core: core,
			Node: core / 10, L3: core / 10})
	}
	for n, cpus := range []string{"0-9,20-29", "10-19,30-39"} {
		set, _ := setting.ParseCPUs(cpus)
		h.Topology.Nodes = append(h.Topology.Nodes, facts.Node{ID: n, CPUs: set, Memory: 64 << 30,
			Distances: [][]int{{10, 21}, {21, 10}}[n],
			Hugepages: []facts.Hugepages{{Size: 1 << 30, Total: 16, Free: 16}}})
	}
	h.Guests = []facts.Guest{{Name: "router", State: "running", VCPUs: 9, Memory: 16 << 30, Hugepages: true,
		Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "bridge", Source: "br0", Model: "virtio",
			Queues: 9}}}}
	return h
}

// TestPlacePicture draws the founding host at two widths.
func TestPlacePicture(t *testing.T) {
	h := founding()
	p := &Placing{Host: h, Result: placement.Place(placement.From(h, goal.Unlimited()))}
	for _, width := range []int{80, 200} {
		text := report.Draw(width, func(t *report.Text) { Text(t, p) })
		for _, want := range []string{
			"socket 0, node 0 · 10 cores · CPUs 0-9,20-29 · 64 GiB memory, 44 GiB left",
			"     CPU 0  # A A A A A A A  A A\n    CPU 20  # · · · · · · ·  · ·\n",
			"    CPU 10  # a a a a a a a  a a\n    CPU 30  # · · · · · · ·  · ×\n",
			"A router\n", "9 threads on CPUs 11-19: ", "99 9 cores of node 1 (CPUs 11-19): ",
			"540 sibling threads on node 0 (CPUs 21-29): ", "CPUs 0,10,20,30 kept for it", "in huge pages of 1 GiB",
		} {
			must.Hold(t, strings.Contains(flat(text, want), want), "%d columns: no %q in\n%s", width, want, text)
		}
		must.Fit(t, text, width, report.Visible)
	}
}

// flat joins wrapped lines where a sentence is looked for.
func flat(text, want string) string {
	if strings.Contains(want, "\n") {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

// TestPlaceWide: many guests on a large host stay inside the width, and every CPU is drawn once.
func TestPlaceWide(t *testing.T) {
	h := facts.Synthetic(facts.Large)
	p := &Placing{Host: h, Result: placement.Place(placement.From(h, goal.Unlimited()))}
	for _, width := range []int{40, 80, 200} {
		text := report.Draw(width, func(t *report.Text) { Text(t, p) })
		cells := 0
		drawing := true // up to its legend
		for line := range strings.Lines(text) {
			if n := report.Visible(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns at %d: %s", n, width, line)
			}
			drawing = drawing && !strings.HasPrefix(line, "# kept")
			if fields := strings.Fields(line); drawing && len(fields) > 2 && fields[0] == "CPU" {
				cells += len(fields) - 2
			}
		}
		must.Hold(t, cells == len(h.Topology.CPUs),
			"%d columns: %d of %d CPUs are drawn", width, cells, len(h.Topology.CPUs))
	}
}

// TestPlacePage: the page holds every CPU and guest, and a hostile name stays text.
func TestPlacePage(t *testing.T) {
	h := founding()
	h.Guests[0].Name = `</script><b onload="x">`
	p := &Placing{Host: h, Result: placement.Place(placement.From(h, goal.Unlimited()))}
	var page bytes.Buffer
	must.Do(t, HTML(&page, p, "1.0", time.Unix(0, 0)))
	html := page.String()
	must.Hold(t, !strings.Contains(html, "<b onload") && strings.Count(html, "</script>") == 1,
		"a guest's name is markup")
	for cpu := range 40 {
		must.Hold(t, strings.Contains(html, fmt.Sprintf(`title="CPU %d: `, cpu)), "CPU %d is not in the picture", cpu)
	}
	must.Contain(t, html, "Socket 1", "Node 1", "vCPU 0 of &lt;/script", "CPU 39: offline", "99 points")
	must.Lack(t, html, "http://", "https://", " src=", "@import", "url(")
}
