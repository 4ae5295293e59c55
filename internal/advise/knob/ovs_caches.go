package knob

import (
	"fmt"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// Keys of the caches that a polling thread asks before it walks the tables of flows (lib/dpif-netdev.c,
// dfc_processing): of exact matches, for 8192 flows, and of signatures, for a million.
const keyEMC, keySMC = "emc-insert-inv-prob", "smc-enable"

var ovsCaches = func() *Knob {
	k := pmdKnob(Knob{ID: "ovs.caches", Title: "Flows are found in the caches of Open vSwitch's polling threads",
		Risk: goal.None}, setting.Of(setting.OVSDB, keyEMC), nil)
	k.Stage = datapath.Bridge
	k.Where = onPaths(reach.VhostUser, fixed(setting.Of(setting.OVSDB, keyEMC), setting.Of(setting.OVSDB, keySMC)))
	k.Want = func(v *View, a setting.Address) Advice {
		switch advice, needed := v.noInterval(); {
		case !v.sharesVrings():
			return Skips(noVrings)
		case needed:
			return advice
		case v.Interval.Polled == nil:
			return Unsure("Open vSwitch did not tell twice what its threads counted")
		}
		return v.caches(a)
	}
	return k
}()

// lookups is what polling threads looked up, without packets that a NIC or a match by port alone spared them.
type lookups struct {
	all, emc, smc, tables uint64  // tables: walked in vain before a flow was found in one, and that one
	subtables             float64 // for each of these, on average
	busiest               float64 // share of its cycles that the busiest thread spent on packets
}

func lookupsOf(s *facts.PolledSwitch) (l lookups) {
	walked := 0.0
	for p := range facts.Each(s.PMDs) {
		l.all += p.EMC + p.SMC + p.Megaflow + p.Upcalls + p.Lost
		l.emc, l.smc, l.tables = l.emc+p.EMC, l.smc+p.SMC, l.tables+p.Megaflow
		walked += float64(p.Megaflow) * float64(p.Lookups) / 100
		l.busiest = max(l.busiest, p.Busy())
	}
	l.subtables = walked / float64(max(l.tables, 1))
	return l
}

// Shares of lookups. Below fewHits the cache of exact matches costs every packet a look that finds nothing; from
// mostTables on flows are found in the tables more often than anywhere else.
const fewHits, mostTables = 0.1, 0.5

// severalTables is the mean of tables walked from which on the cache of signatures spares more than it costs: it asks
// for one comparison of the whole key, as one table does (Documentation/topics/dpdk/bridge.rst, "SMC cache").
const severalTables = 2.0

// caches judges the two caches by what they found. Only a thread that has not much time left gains by it.
func (v *View) caches(a setting.Address) Advice {
	l := lookupsOf(v.Interval.Polled)
	if l.all < fewPackets {
		return Unsure("hardly a packet passed the polling threads while mpps watched")
	}
	share := func(n uint64) float64 { return float64(n) / float64(l.all) }
	said := fmt.Sprintf("of %d lookups %s %.0f %% were found in the cache of exact matches, %.0f %% in that of "+
		"signatures and %.0f %% in %.1f tables on average", l.all, v.overInterval(), 100*share(l.emc),
		100*share(l.smc), 100*share(l.tables), l.subtables)
	walks := share(l.tables) >= mostTables && l.subtables >= severalTables
	severity := Low
	if l.busiest*100 >= pmdFree {
		severity = Medium
	}
	if a.Path == keySMC {
		if walks && v.Readings.At(a).Value != "true" {
			return exact("true", said).At(severity).byDefault("false")
		}
		return Fine(said).byDefault("false")
	}
	switch value := v.Readings.At(a); {
	case value.State == setting.Known && value.Value == "0":
		return Fine("no flow is put into the cache of exact matches: " + said)
	case share(l.emc) < fewHits && (walks || share(l.smc) >= mostTables):
		return exact("0", said+": there are far more flows than it has room for").At(severity).byDefault("100")
	}
	return Fine(said).byDefault("100")
}
