//go:build lab

package place

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/lab/labtest"
	"mpps/internal/measure"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// choices are the knobs by which a placement is brought about.
var choices = map[string]bool{"domain.vcpupin": true, "domain.emulatorpin": true, "vhost.threads": true,
	"nic.irq_affinity": true}

// BenchmarkPlacement measures packets into one guest while another is kept busy, in turns with both as libvirt leaves
// them and as mpps places them, while they run. In emulation all CPUs are a few threads of one machine without caches
// of their own: no difference is an honest answer there, and on its own host the same commands tell.
func BenchmarkPlacement(b *testing.B) {
	s := openScene(b)
	s.Put("secret", secret)
	s.MPPS(0, "plan", "--runtime-only", "--pps", "100k", "-o", "/share/all.json")
	all := s.readPlan("all.json")
	var changes []plan.Change
	for _, c := range all.Changes {
		if choices[c.ID] && c.Address.Kind != setting.Domain { // what a definition says takes effect at the next start
			changes = append(changes, c)
		}
	}
	s.MPPS(0, "--quiet", "snapshot", "-o", "/share/host.json")
	h := s.readHost("host.json")
	var text bytes.Buffer
	must.Do(b, plan.Encode(&text, plan.OfChanges(h, all.Goal, changes)))
	s.Put("placement.json", text.String())

	busy := s.Must("ping -f -q " + second.addr + " >/dev/null 2>&1 & echo $!")
	defer s.Must("kill " + busy)
	for b.Loop() {
		ab := labtest.Result[measure.AB](s, s.MPPSAny([]int{0, 5}, "--json", "bench", "pps", "--foreign", "--plan",
			"/share/placement.json", "--via", "br0", "--agent", first.addr+":7878",
			"--secret-file", "/share/secret", "--duration", "1s", "--blocks", "6", "--keep=false").Stdout)
		b.Logf("%d changes, %d blocks: %s; found %.0f, placed %.0f packets/s (emulated)", len(changes), ab.Blocks,
			ab.Verdict, ab.BeforeRun.PPS, ab.AfterRun.PPS)
		b.ReportMetric(ab.Ratio.Value, "placed/found")
		b.ReportMetric(ab.Ratio.Lo, "low")
		b.ReportMetric(ab.Ratio.Hi, "high")
	}
}

// readPlan reads a plan that the host has written to its share.
func (s *scene) readPlan(name string) *plan.Plan {
	s.Helper()
	f := must.Get(os.Open(filepath.Join(s.Lab.ShareDir(), name)))(s)
	defer f.Close()
	p := must.Get(plan.Decode(f))(s)
	return p
}
