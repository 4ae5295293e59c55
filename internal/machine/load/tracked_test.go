package load

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

const trackedHead = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop " +
	"early_drop icmp_error  expect_new expect_create expect_delete search_restart\n"

func TestTracked(t *testing.T) {
	files := map[string]string{
		"proc/thread-self/net/stat/nf_conntrack": trackedHead +
			"000001f4  00000000 00000000 00000000 00000002 00000000 00000000 00000003 00000000 00000008 00000010 " +
			"00000005 00000000  00000000 00000000 00000000 00000000\n" +
			"000001f4  00000000 00000000 00000000 00000002 00000000 00000000 00000003 00000000 00000001 000000f0 " +
			"00000001 00000000  00000000 00000000 00000000 00000000\n",
		"proc/sys/net/netfilter/nf_conntrack_max": "500\n",
	}
	look, err := readTracked(treetest.Recorded(t, files))
	want := trackLook{entries: 500, max: 500, dropped: 256, evicted: 6, failed: 9, chained: 6, hasChains: true}
	must.Hold(t, err == nil && look == want, "found %+v, %v; expected %+v", look, err, want)
	load := trackedBetween("blue", trackLook{dropped: 56, evicted: 6}, look)
	between := []facts.TrackLoad{{Netns: "blue", Entries: 500, Max: 500, Dropped: 197, Clashes: 3, Chained: 6}}
	must.Hold(t, slices.Equal(load, between), "between: %+v, expected %+v", load, between)
	old := strings.NewReplacer("clashres", "searched", "chainlength", "delete_list").Replace(trackedHead)
	if look, err := parseTracked(old + strings.Repeat(" 2", 17)); err != nil || look.chained != 0 || look.failed != 2 {
		t.Errorf("a kernel without chainlength: %+v, %v", look, err)
	}
	// before Linux 5.15 insert_failed has clashes that lose no packet: where the table is full, that drops
	for entries, clashes := range map[uint64]uint64{500: 0, 100: 30} {
		load := trackedBetween("", trackLook{}, trackLook{entries: entries, max: 500, dropped: 200, failed: 30})
		must.Hold(t, len(load) == 1 && load[0].Clashes == clashes && load[0].Dropped == 200-clashes,
			"%d of 500 connections without chainlength: %+v, expected %d clashes", entries, load, clashes)
	}
	if look, err := readTracked(treetest.Recorded(t, map[string]string{"proc/x": ""})); err != nil ||
		trackedBetween("", look, look) != nil {
		t.Errorf("nothing tracks: %+v, %v", look, err)
	}
	for text, want := range map[string]string{"entries found\n": "expected entries, drop", trackedHead +
		"zz\n": "invalid syntax"} {
		must.Say(t, must.Err(parseTracked(text)), want, "%q", text)
	}
}
