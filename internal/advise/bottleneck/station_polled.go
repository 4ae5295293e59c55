package bottleneck

import (
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// addPolled adds what polling threads carry: the ports of DPDK, the threads with their work, and the ports that share
// vrings with guests. Of a process that tells nothing there is only that it polls: its CPUs are busy whatever it does.
func (b *stations) addPolled() {
	s := b.load.Polled
	for _, p := range b.host.Pollers {
		if s != nil && b.host.OpenVSwitch != nil && p.PID == b.host.OpenVSwitch.PID || len(p.CPUs) == 0 {
			continue
		}
		one := station("pmd", fmt.Sprintf("%s (%d)", p.Comm, p.PID))
		one.Of = fmt.Sprintf("polls on CPU %s, does not tell its packets", p.CPUs)
		b.all = append(b.all, one)
	}
	if s == nil {
		return
	}
	for _, port := range s.Ports {
		if port.Type == "dpdk" {
			one := station("nic", port.Name)
			one.In, one.Out, one.Of = b.rate(port.RxPackets), b.rate(port.TxPackets), "polled"
			b.addLost(&one, "rx_dropped", port.RxDropped, true)
			b.addLost(&one, "tx_dropped", port.TxDropped, true)
			b.all = append(b.all, one)
		}
	}
	threads := station("pmd", count(len(s.PMDs), "thread"))
	for p := range facts.Each(s.PMDs) {
		threads.Loss += b.rate(p.Lost)
		threads.add(b.pmd(p))
	}
	b.addGrouped(threads)
	for _, port := range s.Ports {
		if !strings.HasPrefix(port.Type, "dpdkvhostuser") {
			continue
		}
		one := station("vhost", "vhost-user port "+port.Name) // as fullRings names it
		one.Guest = guestOfPort(b.host, port.Name)
		one.In, one.Out = b.rate(port.TxPackets), b.rate(port.RxPackets)
		b.addLost(&one, "tx_dropped", port.TxDropped, true)
		b.addLost(&one, "rx_dropped", port.RxDropped, true)
		b.all = append(b.all, one)
		if one.Guest != "" {
			b.addGuestOfPorts(one.Guest, port.Name)
		}
	}
}

// pmd returns the station of a polling thread: the share of its cycles that it spent on packets. It has both
// directions, which it does not count apart.
func (b *stations) pmd(p *facts.PMD) Station {
	s := station("pmd", fmt.Sprintf("PMD on CPU %d", p.CPU))
	s.Use, s.Of = p.Busy(), fmt.Sprintf("CPU %d, %s packets/s", p.CPU, goal.FormatRate(b.rate(p.Packets)))
	b.addLost(&s, "lost upcalls", p.Lost, true)
	if t := pmdThread(b.host, b.load, p.CPU); t != nil && t.Waited >= 0.01 {
		s.wait("no CPU", t.Waited, "share", "schedstat")
	}
	return s
}

// addGuestOfPorts adds a guest after the last of its ports.
func (b *stations) addGuestOfPorts(guest, port string) {
	last := ""
	for _, p := range b.load.Polled.Ports {
		if strings.HasPrefix(p.Type, "dpdkvhostuser") && guestOfPort(b.host, p.Name) == guest {
			last = p.Name
		}
	}
	if last == port {
		b.addGuest(guest)
	}
}
