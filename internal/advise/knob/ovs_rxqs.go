package knob

import (
	"fmt"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

var ovsRxqs = pmdKnob(Knob{ID: "ovs.rxqs", Title: "Ports of DPDK have queues for the polling threads",
	Risk: goal.None, Check: true}, hostFact("ovs-rxqs"), func(v *View, o *facts.OpenVSwitch) Advice {
	told, ports := false, 0
	for port := range facts.Each(o.Polled.Ports) {
		if port.Type != "dpdk" || port.Queues == 0 {
			continue
		}
		ports++
		for full := range facts.Each(o.Polled.PMDs) {
			use := full.LastMinute()
			told = told || use >= 0
			alone := use >= pmdFull && len(full.Queues) == 1 && full.Queues[0].Port == port.Name
			free := idleBeside(o.Polled, full)
			if !alone || free == nil {
				continue
			}
			threads := threadsOf(o.Polled, full.Node)
			if port.Queues >= threads {
				continue
			}
			return fact(Count(port.Queues, "queue"), exact(fmt.Sprintf("%d", threads), fmt.Sprintf("reported only: "+
				"the polling thread on CPU %d is full with queue %d of %s alone, and that on CPU %d has time left: a "+
				"queue for each thread of the node (options:n_rxq), which loses packets of the port while it is "+
				"replaced", full.CPU, full.Queues[0].Queue, port.Name, free.CPU)).At(High))
		}
	}
	switch {
	case ports == 0:
		return Skips("Open vSwitch has no port of DPDK")
	case !told:
		return Unsure("Open vSwitch does not tell yet how busy its queues are: it takes a minute after a start")
	}
	return fact(Count(ports, "port"), Fine("no polling thread is full with a single queue while another of its node "+
		"has time left"))
})

// threadsOf returns how many polling threads of a node take any queue.
func threadsOf(s *facts.PolledSwitch, node int) (n int) {
	for _, p := range s.PMDs {
		if p.Node == node && !p.Isolated {
			n++
		}
	}
	return n
}

// idleBeside returns a polling thread of the same node that has time left and takes any queue; nil if there is none.
func idleBeside(s *facts.PolledSwitch, full *facts.PMD) *facts.PMD {
	return facts.Find(s.PMDs, func(p *facts.PMD) bool {
		return p.CPU != full.CPU && p.Node == full.Node && !p.Isolated && p.LastMinute() < pmdFree
	})
}
