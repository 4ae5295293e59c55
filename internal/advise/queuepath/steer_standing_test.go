package queuepath

import (
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSteerSilent: where only watching tells by which NIC a tap sends, a guest that is silent keeps the lanes that it
// has.
func TestSteerSilent(t *testing.T) {
	const stands = "52:54:00:00:00:00=4+2 52:54:00:00:00:01=0+2"
	for _, silent := range []int{1, 2} {
		h := steerHost(2, 2, 8)
		through(h, 1, true)
		h.Tunnels[0].Lower = ""
		float(h, 0)
		o := seenOn(h, func(tap, _ int) uint64 { return uint64(max(0, 2-silent-tap)) * 5000 },
			func(_, queue int) int { return 4 + queue })
		h.Readings[setting.Of(setting.QueueLanes, "eth0")] = setting.Value(stands)
		s := mustSteer(t, h, o, SteerOptions{Standing: []string{"eth0"}})
		must.Hold(t, len(s.Groups) == 1 && setting.LanesText(s.Groups[0].Lanes) == stands,
			"%d silent: %+v", silent, s.Groups)
	}
}
