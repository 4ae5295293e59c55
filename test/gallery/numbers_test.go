package gallery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/report"
)

// implausible are numbers that no host has: their sums, products and sizes of lists overflow.
var implausible = []json.Number{"-1", "9223372036854775807", "18446744073709551615"}

// TestImplausibleNumbers replaces each kind of number of a snapshot by ones that no host has. Such a file is refused,
// or judged, planned for and shown like any other: a snapshot comes from somebody else.
func TestImplausibleNumbers(t *testing.T) {
	seen := map[string]place{}
	for _, name := range []string{"nfv-isolated", "ceph-shared-nic", "ovs-dpdk"} {
		m := must.Get(host(t, name).Machine())(t)
		var text bytes.Buffer
		must.Do(t, facts.Write(&text, m.Host, "test"))
		decoder := json.NewDecoder(&text)
		decoder.UseNumber()
		var all any
		must.Do(t, decoder.Decode(&all))
		places := maps.Clone(seen)
		numbers(all, "", nil, places)
		for _, way := range slices.Sorted(maps.Keys(places)) {
			if _, known := seen[way]; known {
				continue
			}
			seen[way] = places[way]
			for _, n := range implausible {
				places[way].set(n)
				must.Succeed(t, survives(all), "%s: %s = %s", name, way, n)
			}
			places[way].set(places[way].was)
		}
	}
	must.Hold(t, len(seen) >= 120, "found %d kinds of number", len(seen))
}

// place is a number in a file.
type place struct {
	was json.Number
	set func(json.Number)
}

// numbers collects the first number of each kind, by its way through the file without positions in lists.
func numbers(v any, way string, set func(json.Number), places map[string]place) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			numbers(v[key], way+"."+strings.Trim(key, "0123456789"), func(n json.Number) { v[key] = n }, places)
		}
	case []any:
		for i := range v {
			numbers(v[i], way+"[]", func(n json.Number) { v[i] = n }, places)
		}
	case json.Number:
		if _, known := places[way]; !known {
			places[way] = place{v, set}
		}
	}
}

// survives reads a snapshot and does with it what can be done with one.
func survives(snapshot any) (err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("panic: %v", wrong)
		}
	}()
	text, err := json.Marshal(snapshot)
	if err != nil {
		return err
	}
	h, err := facts.ReadSnapshot(bytes.NewReader(text))
	if err != nil {
		return nil // refused
	}
	took := cpuTimer()
	defer func() {
		if took := took(); err == nil && took > 5*time.Second {
			err = fmt.Errorf("it took %v", took)
		}
	}()
	out := report.NewPrinter(io.Discard, io.Discard, report.Options{})
	for _, flags := range []string{"--pps 1.8M", "--latency 20us"} {
		m := &Machine{Host: h}
		v, err := judge(m, flags)
		if err != nil {
			return err
		}
		if err := out.View(func(t *report.Text) {
			report.Inspect(t, h, true)
			report.Audit(t, v.report, true)
			report.Plan(t, v.plan)
		}); err != nil {
			return err
		}
	}
	return nil
}
