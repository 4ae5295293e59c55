package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/words"
)

// polledStation returns the station of a port that polling threads of Open vSwitch serve: the device of DPDK with its
// PCI address, or a guest's vhost-user port, and which thread on which CPU polls each of its queues.
func polledStation(h *facts.Host, hop reach.Hop) Station {
	s := Station{Kind: words.Either(hop.Kind == reach.DPDKPort, "dpdk", "vhost"), Name: hop.Device}
	var device string
	for _, i := range h.OpenVSwitch.PolledInterfaces() {
		if i.Name == hop.Device && hop.Kind == reach.DPDKPort {
			device = words.Join(", ", reach.DPDKDevice(i), i.Status["driver_name"],
				words.If(i.Status["numa_id"] != "", "node %s", i.Status["numa_id"]))
		}
	}
	s.Text = words.Join(", ", device, pmdsText(h.OpenVSwitch.Polled, hop.Device))
	return s
}

// mostPMDs bounds the polling threads that a station names.
const mostPMDs = 8

// pmdsText names the threads that poll a port, with their CPUs and how much of their time the port takes.
func pmdsText(s *facts.PolledSwitch, port string) string {
	var all []string
	for p := range facts.Each(s.PMDs) {
		queues := facts.Where(p.Queues, func(q facts.PMDQueue) bool { return q.Port == port })
		if len(queues) == 0 {
			continue
		}
		used, told := 0, false
		names := facts.Map(queues, func(q facts.PMDQueue) string {
			used, told = used+max(q.Usage, 0), told || q.Usage >= 0
			return fmt.Sprint(q.Queue) + words.If(!q.Enabled, " (not enabled)")
		})
		busy := p.Busy()
		all = append(all, fmt.Sprintf("%s %s polled on CPU %d", words.Either(len(names) == 1, "queue", "queues"),
			strings.Join(names, ", "), p.CPU)+words.If(told, " for %d %% of its time", used)+
			words.If(busy >= 0, " (busy for %.0f %%)", 100*busy))
	}
	if len(all) == 0 {
		return "no thread polls it"
	}
	shown := all[:min(len(all), mostPMDs)]
	return words.Join("; ", append(slices.Clone(shown), words.If(len(all) > len(shown), "%d others",
		len(all)-len(shown)))...)
}
