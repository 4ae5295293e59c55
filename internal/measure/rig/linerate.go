package rig

import (
	"fmt"
	"strconv"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// betweenFrames is the overhead of each frame on the wire, in bytes: preamble 7, start of frame 1, gap 12 (IEEE
// 802.3-2018, 4.4.2).
const betweenFrames = 20

// lineRate returns how many frames of a load per second fill the link of a NIC, from the speed that its driver reports
// in Mbit/s. It returns false if there is no wire (the 10 Gbit/s of a veth are fictitious) or the speed is unknown.
func (m *Machine) lineRate(d traffic.Device, load measure.Load) (float64, bool) {
	if d.Netns != "" || d.Kind != "device" {
		return 0, false
	}
	text, err := m.sysfs(d.Iface, "speed")
	if err != nil {
		return 0, false
	}
	speed, err := strconv.ParseInt(text, 10, 32)
	if err != nil || speed <= 0 { // −1: unknown
		return 0, false
	}
	return float64(speed) * 1e6 / 8 / (frameOf(load).MeanSize() + betweenFrames), true
}

// warnLineRate warns of a rate that no generator could reach.
func (p *Path) warnLineRate(d traffic.Device, load measure.Load) {
	if load.Rate == 0 || len(p.machines) == 0 {
		return
	}
	near, here := p.machines[0].(*Machine)
	if !here {
		return
	}
	if most, known := near.lineRate(d, load); known && load.Rate > most {
		p.Warnings = append(p.Warnings, measure.Warning{
			Code: "above-line-rate",
			Text: fmt.Sprintf("%.4g packets a second were asked for, and such frames fill the link of %s at %.4g",
				load.Rate, d.Endpoint, most),
			Hint: "use a lower --rate, or smaller frames",
		})
	}
}
