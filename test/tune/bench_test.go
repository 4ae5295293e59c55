//go:build lab

package tune

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/tune"
	"mpps/internal/must"
)

// side is one way to tune the host: how it is entered and left.
type side struct{ name, enter, leave string }

// tuned starts TuneD with its own profile, without a bus, and ends it, upon which it puts back what it set.
func tuned(profile string) side {
	return side{"TuneD " + profile, `tuned --no-dbus --no-socket -P /run/tuned-side.pid -l /run/tuned-side.log -p ` +
		profile + ` </dev/null >/dev/null 2>&1 &
for i in $(seq 300); do ! grep -q 'static tuning from profile .* applied' /run/tuned-side.log 2>/dev/null || exit 0; sleep 0.1; done
cat /run/tuned-side.log; exit 1`,
		`p=$(cat /run/tuned-side.pid); kill $p; while [ -d /proc/$p ]; do sleep 0.1; done; rm -f /run/tuned-side.log`}
}

// applied are plans that mpps applies one behind the other, and takes back.
func applied(name, plans string) side {
	return side{name, "for p in " + plans + "; do mpps apply --foreign --yes -q --confirm 0 $p; done", "for p in " + plans +
		"; do mpps rollback -q; done"}
}

// rounds is how often each side is measured.
const rounds = 6

// BenchmarkAgainst measures packets into one guest on the same host as found, with two of TuneD's profiles, with
// everything that mpps plan has for the goal at once, and with what mpps tune keeps: in rounds, in each of which every
// side is entered, measured and left once, in an order by lot.
func BenchmarkAgainst(b *testing.B) {
	on := furnish(b)
	r, err := on.Lab.Shell(b.Context(), "mpps tune "+goals+" --budget 15m --runtime-only --propose --seed 1 "+
		"-o /share/tune.json --plan-output /share/kept.json")
	if err != nil || r.Code != 0 && r.Code != 2 {
		b.Fatalf("%v: exit %d: %s", err, r.Code, r.Stderr)
	}
	text := must.Get(os.ReadFile(filepath.Join(on.Lab.ShareDir(), "tune.json")))(b)
	var result tune.Result
	must.Do(b, json.Unmarshal(text, &result))
	b.Logf("the loop kept %v", result.Kept)
	for _, a := range result.Attempts {
		b.Logf("%s: %s: %s", a.Title, a.Outcome, a.Why)
	}
	on.Must("mpps plan -q --pps 1M --guest web1 --consent security --runtime-only -o /share/static.json")
	sides := []side{
		{"as found", "true", "true"}, tuned("network-throughput"), tuned("virtual-host"),
		applied("everything planned at once", "/share/static.json"),
		applied("what the loop keeps", "/share/kept.json $(ls /share/kept.?.json 2>/dev/null)"),
	}
	rates := map[string][]float64{}
	order := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		for range rounds {
			for _, i := range order.Perm(len(sides)) {
				s := sides[i]
				on.Must(s.enter)
				out := on.Must(`mpps --json bench pps --via br0 --agent 10.50.0.2:7878 --secret-file /share/secret --sink af_packet --duration 1s --repeat 3 --keep=false || [ $? = 5 ]`)
				on.Must(s.leave)
				var run struct{ Result struct{ PPS float64 } }
				if err := json.Unmarshal([]byte(out), &run); err != nil || run.Result.PPS == 0 {
					b.Fatalf("%v: %.300s", err, out)
				}
				rates[s.name] = append(rates[s.name], run.Result.PPS)
			}
		}
	}
	var table strings.Builder
	found := rates["as found"]
	for _, s := range sides {
		ratios := make([]float64, len(found))
		for i, rate := range rates[s.name] {
			ratios[i] = rate / found[i]
		}
		slices.Sort(ratios)
		at := slices.Sorted(slices.Values(rates[s.name]))
		fmt.Fprintf(&table, "%-28s %7.0f packets/s, %.2f times as found [%.2f–%.2f]\n", s.name, at[len(at)/2],
			ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
		b.ReportMetric(ratios[len(ratios)/2], strings.ReplaceAll(s.name, " ", "-")+"/found")
	}
	b.Logf("%d rounds, emulated:\n%s", len(found), table.String())
	// Never worse than the others, as far as rounds of an emulated host can tell.
	kept := rates["what the loop keeps"]
	for _, s := range sides[:len(sides)-1] {
		ahead := make([]float64, len(kept))
		for i := range kept {
			ahead[i] = kept[i] / rates[s.name][i]
		}
		slices.Sort(ahead)
		b.Logf("the loop against %s: %.2f [%.2f–%.2f]", s.name, ahead[len(ahead)/2], ahead[0], ahead[len(ahead)-1])
		if ahead[len(ahead)-1] < 1 {
			b.Errorf("what the loop keeps is slower than %s in every round", s.name)
		}
	}
}
