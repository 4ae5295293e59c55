package link

import (
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestSoftnetColumnsOfKernels(t *testing.T) {
	for _, c := range []struct {
		kernel, text string
		want         facts.Softnet
	}{
		{"2.6.32", "0000000a 00000002 00000003 00000000 00000000 00000000 00000000 00000000 00000004",
			facts.Softnet{Processed: 10, Dropped: 2, Squeezed: 3}},
		{"3.10", "0000000a 00000002 00000003 00000000 00000000 00000000 00000000 00000000 00000000 00000005 00000006",
			facts.Softnet{Processed: 10, Dropped: 2, Squeezed: 3, RPS: 5, FlowLimit: 6}},
		{"5.10", "0000000a 0 0 0 0 0 0 0 0 5 6 00000007 00000003",
			facts.Softnet{CPU: 3, Processed: 10, RPS: 5, FlowLimit: 6, BacklogLen: 7}},
		{"6.12", "0000000a 0 0 0 0 0 0 0 0 5 6 00000007 00000003 00000007 00000000",
			facts.Softnet{CPU: 3, Processed: 10, RPS: 5, FlowLimit: 6, BacklogLen: 7}},
	} {
		rows, err := ParseSoftnet(c.text + "\n")
		must.Hold(t, err == nil && len(rows) == 1 && rows[0] == c.want,
			"%s: %+v (%v), want %+v", c.kernel, rows, err, c.want)
	}
	for _, bad := range []string{"1 2", "xyz 1 2 3"} {
		if rows, err := ParseSoftnet(bad); err == nil {
			t.Errorf("%q: expected an error, found %+v", bad, rows)
		}
	}
}

func TestRounds(t *testing.T) {
	rows := []facts.Softnet{{CPU: 0}, {CPU: 3}, {CPU: 7}}
	AddRounds(rows, "                    CPU0       CPU2       CPU3\n      NET_TX:          1          2          3\n"+
		"      NET_RX:         40         50         60\n")
	must.Hold(t, rows[0].Rounds == 40 && rows[1].Rounds == 60 && rows[2].Rounds == 0, "found %+v", rows)
	AddRounds(rows, "")
}

func TestSoftnetOfRecordedHost(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(treetest.Corpus(t, "hosts"), "softnet_stat", "softnet_stat1")))(t)
	rows := must.Get(ParseSoftnet(string(text)))(t)
	if want := (facts.Softnet{Processed: 0x1ba0fbc3, Squeezed: 0x1b3}); len(rows) != 8 || rows[0] != want ||
		rows[7].CPU != 7 {
		t.Errorf("%d rows, the first %+v; want 8, %+v", len(rows), rows[0], want)
	}
}

func FuzzSoftnet(f *testing.F) {
	f.Add("0000000a 0 0 0 0 0 0 0 0 5 6 00000007 00000003\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = ParseSoftnet(text) })
}
