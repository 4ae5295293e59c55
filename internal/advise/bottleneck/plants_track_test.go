package bottleneck

import "mpps/internal/model/facts"

// trackPlants are those of connection tracking and NAT.
var trackPlants = []plant{
	{"the table of connections is full", ConntrackFull, func(s *scene) {
		s.untracked(func(t *facts.TrackLoad, lost uint64) { t.Entries, t.Max, t.Dropped = 498, 500, lost })
	}, true},
	{"the table of connections is full, and connections without an answer make room", ConntrackFull, func(s *scene) {
		s.taken = s.offered
		s.flow()
		s.l.Tracked = []facts.TrackLoad{{Entries: 498, Max: 500, Evicted: s.count(s.offered * 0.4)}}
	}, true},
	{"the table of connections has too few buckets", ConntrackFull, func(s *scene) {
		s.untracked(func(t *facts.TrackLoad, lost uint64) { t.Entries, t.Max, t.Chained = 4000, 50e3, lost })
	}, true},
	{"NAT without free ports", NATPorts, func(s *scene) {
		s.untracked(func(t *facts.TrackLoad, lost uint64) { t.Entries, t.Max, t.Clashes = 60, 50e3, lost })
	}, true},
}
